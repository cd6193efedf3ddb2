"""Decides append-only logs and sets that only grow: every offset or element has one instant from which it is there.

Of a log whose appends return their offsets, the order of the appends is known, so only their instants are asked for:
t(0) ≤ t(1) ≤ … Each append gives its offset an interval: a read of a record comes no earlier than its append, so the
record was there before the read completed; a query that found the end there comes no later, so the record was missing
when that query was invoked. There is an order exactly if no offset must be later than an offset after it may be. An
append that never returned has an offset if a client read its value, or if it alone can fill a gap.

An element of a set is missing before its instant and there after. Each operation on it limits that instant from one
side. Reads of all elements form a chain, each a part of the next, and stand between the elements that they lack and
those that they have. There is an order exactly if along that chain nothing must be later than what follows may be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

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

_NOT_THERE: Final = object()


class _Seen(NamedTuple):
    """What completed operations show: the values by offset, the length that the log reached, and the operations."""

    values: dict[int, tuple[State, Operation]]
    length: int
    longest: Operation | None


def decide_log(operations: Sequence[Operation], initial: State) -> Contradiction | Linearizable | None:
    """Decide appends, reads and ends.

    None if the log was not empty at first, an append or `end` completed without an integer, or None was appended; and
    if two appends of one value never returned, and of some record before the end nobody read or returned the value.
    """
    appends = [operation for operation in operations if operation.function == "append"]
    returned = [operation for operation in appends if operation.completed_ns is not None]
    if (
        initial != ()
        or any(operation.argument is None for operation in appends)
        or any(type(operation.result) is not int for operation in returned)
        or any(type(one.result) is not int for one in operations if one.function == "end" and one.result is not UNKNOWN)
    ):
        return None
    seen = _seen(operations)
    if isinstance(seen, Contradiction):
        return seen
    if seen.length > len(appends):
        return contradiction([seen.longest], closed=False)
    at: list[Operation | None] = [None] * seen.length
    for operation in returned:
        at[operation.result] = operation
    pending = [operation for operation in appends if operation.completed_ns is None]
    filled = _fill(at, pending, seen)
    return filled if isinstance(filled, Contradiction) or filled is None else _decide_instants(filled, operations)


def _seen(operations: Sequence[Operation]) -> _Seen | Contradiction:
    values: dict[int, tuple[State, Operation]] = {}
    appended: dict[int, Operation] = {}
    length, longest = 0, None
    for operation in operations:
        if operation.result is UNKNOWN:
            continue
        if operation.function == "end":
            reached = operation.result
            if reached < 0:
                return contradiction([operation], closed=False)
        elif operation.function == "read" and operation.result is None:
            continue
        else:
            is_append = operation.function == "append"
            offset = operation.result if is_append else operation.argument
            value = operation.argument if is_append else operation.result
            if offset < 0 or (is_append and offset in appended):
                return contradiction([operation, appended.get(offset)], closed=False)
            if is_append:
                appended[offset] = operation
            known, by = values.setdefault(offset, (value, operation))
            if known != value:
                return contradiction([by, operation], closed=False)
            reached = offset + 1
        if reached > length:
            length, longest = reached, operation
    return _Seen(values, length, longest)


def _fill(
    at: list[Operation | None], pending: Sequence[Operation], seen: _Seen
) -> list[Operation] | Contradiction | None:
    """Find for each gap the append that never returned and fills it: the earliest invoked serves best."""
    gaps = [offset for offset, operation in enumerate(at) if operation is None]
    of_value: dict[State, deque[Operation]] = {}
    for operation in sorted(pending, key=lambda one: one.invoked_ns):
        of_value.setdefault(operation.argument, deque()).append(operation)
    unnamed = [offset for offset in gaps if offset not in seen.values]
    if unnamed and any(len(same) > 1 for same in of_value.values()):
        return None
    for offset in gaps:
        if offset in seen.values:
            value, by = seen.values[offset]
            candidates = of_value.get(value)
            if not candidates:
                return contradiction([by], closed=False)
            at[offset] = candidates.popleft()
    rest = sorted((one for same in of_value.values() for one in same), key=lambda one: one.invoked_ns)
    if len(unnamed) > len(rest):
        return contradiction([seen.longest], closed=False)
    for offset, operation in zip(unnamed, rest, strict=False):
        at[offset] = operation
    return [operation for operation in at if operation is not None]


def _decide_instants(at: Sequence[Operation], operations: Sequence[Operation]) -> Contradiction | Linearizable:
    count = len(at)
    earliest: list[tuple[Time, Operation]] = [(operation.invoked_ns, operation) for operation in at]
    latest: list[tuple[Time, Operation]] = [(completion(operation), operation) for operation in at]
    for operation in operations:
        if operation.function == "append" or operation.result is UNKNOWN:
            continue
        there: int | None
        missing: int | None
        if operation.function == "end":
            there, missing = operation.result - 1, operation.result
        elif operation.result is None:
            there, missing = None, operation.argument
        else:
            there, missing = operation.argument, None
        if there is not None and there >= 0 and completion(operation) < latest[there][0]:
            latest[there] = completion(operation), operation
        if missing is not None and missing < count and operation.invoked_ns > earliest[missing][0]:
            earliest[missing] = operation.invoked_ns, operation
    after: Time = ALWAYS
    because: Operation | None = None
    for offset in range(count):
        if earliest[offset][0] > after:
            after, because = earliest[offset]
        if latest[offset][0] != FOREVER and after > latest[offset][0]:
            return contradiction([because, latest[offset][1], at[offset]], closed=False)
    return LINEARIZABLE


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
