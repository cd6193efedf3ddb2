"""Lays out one key's history for the search: which operations are open between one completion and the next.

*Level* k stands between the completions k-1 and k: every operation that completed before is in the order, and the one
that completes now, the level's *forced* operation, must be in it before the level can be left. Every operation in the
order at level k was invoked before completion k, so that no order is ever missed.

An operation that returns is a bit, a *slot* that is free again once it has returned: a set of them is as wide as the
history is concurrent, not as long. Identical operations that never returned are interchangeable, so only their number
counts: each group of them has a *field* in an integer, wide enough for its size and one guard bit that stays 0. One
such integer is field by field at most another exactly if subtracting it borrows from no guard bit.

Some operations wait for others, which loses no order: of identical open operations the one that returns first is taken
first, and of two writes whose values were read (`reads_from`) the one that these reads put first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from checkers.linearizability.models import Model, State
from checkers.linearizability.operations import Operation
from checkers.linearizability.reads_from import Zones, reads_from

Observing: TypeAlias = tuple[int, int, int]
"""An open operation that never changes a state: bit, kind, number."""

Changing: TypeAlias = tuple[int, int, int, int]
"""An open operation that may change the state: bit, kind, number, and the bits of those that it waits for."""

NEVER: Final = 1 << 62
"""The level at which a member that a group does not have is invoked."""


class Group(NamedTuple):
    """Identical operations that never returned, by invocation. `since`: the level from which each is open, and `NEVER`.

    `one` is 1 in the field of the group, which begins `shift` bits up and is `mask` wide.
    """

    kind: int
    one: int
    shift: int
    mask: int
    members: Sequence[int]
    since: Sequence[int]


@dataclass(frozen=True)
class Layout:
    """A key's history by levels.

    `kinds` has an example of each kind of operation. At each level: the `forced` bit and operation, the open operations
    that observe, those that change (which completes first comes last), and how many of `groups` have a member open.
    `guards` has the guard bits of all groups. `width`: the number of slots.
    """

    operations: Sequence[Operation]
    kind_of: Sequence[int]
    kinds: Sequence[Operation]
    forced: Sequence[int]
    forced_operation: Sequence[int]
    observing: Sequence[tuple[Observing, ...]]
    changing: Sequence[tuple[Changing, ...]]
    groups_open: Sequence[int]
    groups: Sequence[Group]
    guards: int
    width: int
    zones: Zones | None


def _kinds(model: Model, operations: Sequence[Operation]) -> tuple[list[int], list[Operation], list[bool]]:
    """Return the kind of each operation, identical ones alike; by kinds, an example and whether it changes no state."""
    numbers: dict[tuple[object, ...], int] = {}
    kind_of: list[int] = []
    examples: list[Operation] = []
    observing: list[bool] = []
    for operation in operations:
        key = operation[3:6]  # function, argument, result
        kind = numbers.get(key)
        if kind is None:
            kind = numbers[key] = len(examples)
            examples.append(operation)
            function, argument, result = key
            observing.append(model.functions[function].observes(argument, result))
        kind_of.append(kind)
    return kind_of, examples, observing


def lay_out(model: Model, operations: Sequence[Operation], initial: State, *, look_ahead: bool = True) -> Layout:
    """Lay out prepared operations. Those that never returned are left out if they change nothing.

    `look_ahead`: whether to go by the bindings that operations write and read, of a model that has them.
    """
    found = reads_from(model.reading, operations, initial) if look_ahead and model.reading is not None else None
    kind_of, kinds, observes = _kinds(model, operations if found is None else found.operations)
    invoked = [operation.invoked_ns for operation in operations]
    completed = {number: one.completed_ns for number, one in enumerate(operations) if one.completed_ns is not None}
    if found is not None:  # at one instant a reader is forced before its writer: no verdict needs it, evidence names it
        completed |= found.happened_by
    leaving = sorted(completed, key=completed.__getitem__)
    returns_at = {number: level for level, number in enumerate(leaving)}
    bit_of: dict[int, int] = {}
    zones = None
    if found is not None and found.written:
        zones = Zones(found, operations, [completed[number] for number in leaving], returns_at, bit_of)
    pending: dict[int, list[int]] = {}
    since: dict[int, list[int]] = {}
    free: list[int] = []
    forced: list[int] = []
    observing: list[tuple[Observing, ...]] = []
    changing: list[tuple[Changing, ...]] = []
    groups_open: list[int] = []
    open_observing: tuple[Observing, ...] = ()
    open_changing: tuple[Changing, ...] = ()
    width, at = 0, 0
    entering = sorted(range(len(operations)), key=invoked.__getitem__)
    for level, leaves in enumerate(leaving):
        until = completed[leaves]
        # At one instant invocations come first: closed intervals that touch are concurrent.
        while at < len(entering) and invoked[entering[at]] <= until:
            number = entering[at]
            kind = kind_of[number]
            at += 1
            if number not in returns_at:
                if not observes[kind] and (found is None or number not in found.needless):
                    pending.setdefault(kind, []).append(number)
                    since.setdefault(kind, []).append(level)
                continue
            if free:
                bit = free.pop()
            else:
                bit = 1 << width
                width += 1
            bit_of[number] = bit
            if observes[kind]:
                open_observing = (*open_observing, (bit, kind, number))
            else:
                open_changing = _with(open_changing, (bit, kind, number, 0), returns_at, zones)
        bit = bit_of[leaves]
        forced.append(bit)
        observing.append(open_observing)
        changing.append(open_changing)
        groups_open.append(len(since))
        free.append(bit)
        if observes[kind_of[leaves]]:
            open_observing = tuple([one for one in open_observing if one[0] != bit])
        else:
            open_changing = tuple([one if not one[3] & bit else (*one[:3], one[3] ^ bit) for one in open_changing[:-1]])
    groups, guards = _grouped(pending, since)
    return Layout(
        operations,
        kind_of,
        kinds,
        forced,
        leaving,
        observing,
        changing,
        groups_open,
        groups,
        guards,
        width,
        zones,
    )


def _with(
    opened: tuple[Changing, ...], new: Changing, returns_at: Mapping[int, int], zones: Zones | None
) -> tuple[Changing, ...]:
    """Return the open operations with a new one; which completes first comes last."""
    bit, kind, number, waits_for = new
    returns = returns_at[number]
    sooner: list[Changing] = []
    later: list[Changing] = []
    for one in opened:
        its_bit, its_kind, its_number, its_waits_for = one
        if returns_at[its_number] < returns:
            sooner.append(one)
            if its_kind == kind or (zones is not None and zones.precedes(its_number, number)):
                waits_for |= its_bit
            if zones is not None and zones.precedes(number, its_number):
                sooner[-1] = (its_bit, its_kind, its_number, its_waits_for | bit)
        else:
            later.append(one)
            if its_kind == kind or (zones is not None and zones.precedes(number, its_number)):
                later[-1] = (its_bit, its_kind, its_number, its_waits_for | bit)
            if zones is not None and zones.precedes(its_number, number):
                waits_for |= its_bit
    return (*later, (bit, kind, number, waits_for), *sooner)


def _grouped(pending: Mapping[int, list[int]], since: Mapping[int, list[int]]) -> tuple[list[Group], int]:
    groups: list[Group] = []
    guards, shift = 0, 0
    for kind, members in pending.items():
        width = len(members).bit_length()
        groups.append(Group(kind, 1 << shift, shift, (1 << width) - 1, members, (*since[kind], NEVER)))
        shift += width + 1
        guards |= 1 << (shift - 1)
    return groups, guards
