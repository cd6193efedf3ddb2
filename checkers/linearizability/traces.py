"""Finds which operation left what another saw, in models whose states show only the latest value of each name.

A *mark* is a name with a value. An operation leaves marks, which stay until another operation writes the name, and
sees marks. From them follows, without any search:

* An operation that never returned and of whose marks none is seen may stay out of the order: nothing needs it.
* A value that nobody sees may be any such value: operations that differ in it alone are identical.
* Where only one operation leaves a mark, and the mark is not there at first, that operation has happened by the time at
  which an operation that saw the mark completed, even if it never returned. And as the mark never comes back, it must
  not be lost before all have seen it: in every order the operations of a mark stand together, those of another mark of
  the name before or after all of them (the zones of Gibbons and Korach 1997).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from checkers.linearizability.models import Mark, State, Traces
from checkers.linearizability.operations import Operation


@dataclass(frozen=True)
class Traced:
    """What marks show of a key's operations, by their numbers.

    `operations`: with one value instead of all that nobody sees. `needless`: those that may stay out. `known_by`: when
    those that never returned had happened. `left`: the marks of each that only it leaves and that are seen. `names`:
    those that each writes. `seen_by`: who sees these marks and returned.
    """

    operations: Sequence[Operation]
    needless: Collection[int]
    known_by: Mapping[int, int]
    left: Mapping[int, tuple[Mark, ...]]
    names: Sequence[frozenset[Hashable]]
    seen_by: Mapping[Mark, Sequence[int]]


def traced(traces: Traces, operations: Sequence[Operation], initial: State) -> Traced:
    """Find what the marks of prepared operations show."""
    left_by: dict[Mark, list[int]] = {}
    seen_by: dict[Mark, list[int]] = {}
    names: list[frozenset[Hashable]] = []
    for number, operation in enumerate(operations):
        marks = set(traces.left(operation.argument))
        names.append(frozenset([name for name, _ in marks]))
        for mark in marks:
            left_by.setdefault(mark, []).append(number)
        if operation.completed_ns is not None:
            for mark in set(traces.seen(operation.argument, operation.result)):
                seen_by.setdefault(mark, []).append(number)
    known_by: dict[int, int] = {}
    left: dict[int, tuple[Mark, ...]] = {}
    useful: set[int] = set()
    for mark, by in left_by.items():
        observers = seen_by.get(mark)
        if observers is None:
            continue
        useful.update(by)
        if len(by) > 1 or traces.at_first(initial, mark):
            continue
        number = by[0]
        left[number] = (*left.get(number, ()), mark)
        if operations[number].completed_ns is None:
            seen_at = min(operations[observer].completed_ns or 0 for observer in observers)
            known_by[number] = min(seen_at, known_by.get(number, seen_at))
    once = {mark for marks in left.values() for mark in marks}
    return Traced(
        operations=[traces.without_unseen(operation, seen_by) for operation in operations],
        needless={n for n, one in enumerate(operations) if one.completed_ns is None and n not in useful},
        known_by={number: max(at, operations[number].invoked_ns) for number, at in known_by.items()},
        left=left,
        names=names,
        seen_by={mark: observers for mark, observers in seen_by.items() if mark in once},
    )


class Zones:
    """When, by levels, the marks that one operation leaves are seen; and which operation must precede which."""

    def __init__(
        self,
        found: Traced,
        operations: Sequence[Operation],
        completions: Sequence[int],
        returns_at: Mapping[int, int],
        bit_of: Mapping[int, int],
    ) -> None:
        self._left = found.left
        self._names = found.names
        self._seen_by = found.seen_by
        self._returns_at, self._bit_of = returns_at, bit_of
        self._ends: dict[Mark, int] = {}
        """The level of the first completion of an operation that leaves or sees the mark."""
        self._seen_from: dict[Mark, int] = {}
        """The level from which all are open that see the mark."""
        self._begins: dict[Mark, int] = {}
        """The level of the last invocation of an operation that leaves or sees the mark."""
        for number, marks in found.left.items():
            for mark in marks:
                observers = found.seen_by[mark]
                opened = [bisect_left(completions, operations[one].invoked_ns) for one in observers]
                self._seen_from[mark] = max(opened)
                self._begins[mark] = max(*opened, bisect_left(completions, operations[number].invoked_ns))
                self._ends[mark] = min(returns_at[one] for one in (number, *observers))

    def precedes(self, one: int, other: int) -> bool:
        """Whether the first of two operations must precede the second, as their marks show."""
        return any(
            mine[0] == its[0] and self._ends[mine] < self._begins[its]
            for mine in self._left.get(one, ())
            for its in self._left.get(other, ())
        )

    def may_follow(self, number: int, state: Iterable[Mark], level: int, placed: int) -> bool:
        """Whether an operation may be next: all that see a mark which it writes over are in the order."""
        names = self._names[number]
        for mark in state:
            if mark[0] in names and mark in self._seen_from:
                if self._seen_from[mark] > level:
                    return False
                for observer in self._seen_by[mark]:
                    waits = observer != number and self._returns_at[observer] >= level
                    if waits and not placed & self._bit_of[observer]:
                        return False
        return True
