"""Finds which operation wrote what another read, in models whose states hold only the latest value of each name.

A *binding* is a name with a value. An operation writes bindings, each of which stays until another operation writes the
name, and reads bindings. From them follows, without any search:

* An operation that never returned and none of whose bindings was read may stay out of the order: nothing needs it.
* A value that nobody read may be any such value: operations that differ in it alone are identical.
* Where only one operation writes a binding, and it is not there at first, that operation has happened by the time at
  which one that read the binding completed, even if it never returned. And as the binding never comes back, it must not
  be lost before all have read it: in every order the operations of a binding stand together, those of another binding
  of the name before or after all of them (the zones of Gibbons and Korach 1997).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from checkers.linearizability.models import Binding, Reading, State
from checkers.linearizability.operations import Operation


@dataclass(frozen=True)
class ReadsFrom:
    """What a key's operations tell of each other, by their numbers.

    `operations`: with one value instead of all that nobody read. `needless`: those that may stay out. `happened_by`:
    when those that never returned had happened. `names`: those that each operation writes. `written`: the bindings of
    each that only it writes and that were read. `read_by`: the operations that read these and returned.
    """

    operations: Sequence[Operation]
    needless: Collection[int]
    happened_by: Mapping[int, int]
    names: Sequence[frozenset[Hashable]]
    written: Mapping[int, tuple[Binding, ...]]
    read_by: Mapping[Binding, Sequence[int]]


def reads_from(reading: Reading, operations: Sequence[Operation], initial: State) -> ReadsFrom:
    """Find what prepared operations tell of each other."""
    written_by: dict[Binding, list[int]] = {}
    read_by: dict[Binding, list[int]] = {}
    names: list[frozenset[Hashable]] = []
    same: dict[frozenset[Hashable], frozenset[Hashable]] = {}
    for number, operation in enumerate(operations):
        bindings = set(reading.written(operation.argument))
        written_names = frozenset([name for name, _ in bindings])
        names.append(same.setdefault(written_names, written_names))  # there are few of them
        for binding in bindings:
            written_by.setdefault(binding, []).append(number)
        if operation.completed_ns is not None:
            for binding in set(reading.read(operation.argument, operation.result)):
                read_by.setdefault(binding, []).append(number)
    happened_by: dict[int, int] = {}
    written: dict[int, tuple[Binding, ...]] = {}
    useful: set[int] = set()
    for binding, by in written_by.items():
        readers = read_by.get(binding)
        if readers is None:
            continue
        useful.update(by)
        if len(by) > 1 or reading.at_first(initial, binding):
            continue
        number = by[0]
        written[number] = (*written.get(number, ()), binding)
        if operations[number].completed_ns is None:
            read_at = min(operations[reader].completed_ns or 0 for reader in readers)
            happened_by[number] = min(read_at, happened_by.get(number, read_at))
    once = {binding for bindings in written.values() for binding in bindings}
    return ReadsFrom(
        operations=[reading.without_unread(operation, read_by) for operation in operations],
        needless={n for n, one in enumerate(operations) if one.completed_ns is None and n not in useful},
        happened_by={number: max(at, operations[number].invoked_ns) for number, at in happened_by.items()},
        names=names,
        written=written,
        read_by={binding: readers for binding, readers in read_by.items() if binding in once},
    )


class Zones:
    """When, by levels, the bindings that one operation writes are read; and which operation must precede which."""

    def __init__(
        self,
        found: ReadsFrom,
        operations: Sequence[Operation],
        completions: Sequence[int],
        returns_at: Mapping[int, int],
        bit_of: Mapping[int, int],
    ) -> None:
        self._written = found.written
        self._names = found.names
        self._read_by = found.read_by
        self._returns_at, self._bit_of = returns_at, bit_of
        self._ends: dict[Binding, int] = {}
        """The level of the first completion of an operation that writes or reads the binding."""
        self._all_readers_open_at: dict[Binding, int] = {}
        """The level from which all that read the binding have been invoked."""
        self._begins: dict[Binding, int] = {}
        """The level of the last invocation of an operation that writes or reads the binding."""
        for number, bindings in found.written.items():
            for binding in bindings:
                readers = found.read_by[binding]
                opened = [bisect_left(completions, operations[one].invoked_ns) for one in readers]
                self._all_readers_open_at[binding] = max(opened)
                self._begins[binding] = max(*opened, bisect_left(completions, operations[number].invoked_ns))
                self._ends[binding] = min(returns_at[one] for one in (number, *readers))

    def precedes(self, one: int, other: int) -> bool:
        """Whether the first of two operations must precede the second, as their bindings were read."""
        return any(
            mine[0] == its[0] and self._ends[mine] < self._begins[its]
            for mine in self._written.get(one, ())
            for its in self._written.get(other, ())
        )

    def may_follow(self, number: int, state: Iterable[Binding], level: int, placed: int) -> bool:
        """Whether an operation may be next: all that read a binding which it writes over are in the order."""
        names = self._names[number]
        for binding in state:
            if binding[0] in names and binding in self._all_readers_open_at:
                if self._all_readers_open_at[binding] > level:
                    return False
                for reader in self._read_by[binding]:
                    waits = reader != number and self._returns_at[reader] >= level
                    if waits and not placed & self._bit_of[reader]:
                        return False
        return True
