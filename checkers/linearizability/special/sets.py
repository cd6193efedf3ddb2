"""Decides sets that only grow.

An element has one instant: it is missing before and there after. Each operation on it limits that instant from one
side. Reads of all elements form a chain, each a part of the next, and stand between the elements that they lack and
those that they have. There is an order exactly if along that chain nothing must be later than what follows may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from checkers.linearizability.models import State
from checkers.linearizability.operations import UNKNOWN, Operation
from checkers.linearizability.special.contradiction import (
    ALWAYS,
    FOREVER,
    LINEARIZABLE,
    Contradiction,
    Linearizable,
    Time,
    completion,
    contradiction,
)


class _Element:
    """When an element came in: no earlier than, no later than, and which operations show it."""

    __slots__ = ("add", "latest", "latest_by", "missing", "missing_by")

    def __init__(self) -> None:
        self.add: Operation | None = None
        self.latest: Time = FOREVER
        self.latest_by: Operation | None = None
        self.missing: Time = ALWAYS
        self.missing_by: Operation | None = None

    def there_by(self, operation: Operation) -> None:
        if completion(operation) < self.latest:
            self.latest, self.latest_by = completion(operation), operation

    def earliest(self) -> tuple[Time, Operation | None]:
        added: Time = FOREVER if self.add is None else self.add.invoked_ns
        return (added, self.add) if added >= self.missing else (self.missing, self.missing_by)


def decide_set(operations: Sequence[Operation], initial: State) -> Contradiction | Linearizable | None:
    """Decide additions, lookups and reads; None if something is removed, or was there at first."""
    if initial != frozenset() or any(operation.function == "remove" for operation in operations):
        return None
    elements: dict[State, _Element] = {}
    reads: dict[frozenset[State], list[Operation]] = {}
    for operation in operations:
        if operation.result is UNKNOWN and operation.function != "add":
            continue
        if operation.function == "read":
            reads.setdefault(frozenset(operation.result), []).append(operation)
            continue
        element = elements.setdefault(operation.argument, _Element())
        if operation.function == "add":
            element.there_by(operation)
            if element.add is None or operation.invoked_ns < element.add.invoked_ns:
                element.add = operation
        elif operation.result:
            element.there_by(operation)
        elif operation.invoked_ns > element.missing:
            element.missing, element.missing_by = operation.invoked_ns, operation
    for element in elements.values():
        since, because = element.earliest()
        if since > element.latest:
            return contradiction([because, element.latest_by, element.add])
    return _decide_chain(elements, reads)


def _decide_chain(
    elements: dict[State, _Element], reads: dict[frozenset[State], list[Operation]]
) -> Contradiction | Linearizable:
    after: Time = ALWAYS
    because: Operation | None = None
    before: frozenset[State] = frozenset()
    first_before: Operation | None = None
    for found, of_found in sorted(reads.items(), key=lambda item: len(item[0])):
        if not before <= found:
            return contradiction([first_before, of_found[0]], closed=False)
        for name in found - before:
            if name not in elements or elements[name].add is None:
                return contradiction([of_found[0]], closed=False)
        placed = _insert([elements[name] for name in found - before], after, because)
        if isinstance(placed, Contradiction):
            return placed
        after, because = placed
        since = after
        for read in of_found:
            if since > completion(read):
                return contradiction([because, read], closed=False)
        latest = max(of_found, key=lambda read: read.invoked_ns)
        if latest.invoked_ns > after:
            after, because = latest.invoked_ns, latest
        before, first_before = found, of_found[0]
    rest = _insert([element for name, element in elements.items() if name not in before], after, because)
    return rest if isinstance(rest, Contradiction) else LINEARIZABLE


def _insert(
    elements: Iterable[_Element], after: Time, because: Operation | None
) -> tuple[Time, Operation | None] | Contradiction:
    """Add elements after an instant. Return the instant after which everything that follows must be."""
    latest, latest_by = after, because
    for element in elements:
        if after > element.latest:
            return contradiction([because, element.latest_by, element.add], closed=False)
        since, by = element.earliest()
        if since > latest:
            latest, latest_by = since, by
    return latest, latest_by
