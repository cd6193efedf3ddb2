"""Lays out one key's history for the search: levels, slots, and small integers for everything.

A history is cut at its completions. *Level* k stands between the completions k-1 and k: every operation that completed
before is in the order, and the one that completes now, the level's *forced* operation, must be in it before the level
can be left. Every operation in the order at level k was invoked before completion k, so that no order is ever missed.

An operation is a bit. Those that never returned keep theirs for ever: identical ones are interchangeable, so they have
neighbouring bits that are used from the lowest, the one invoked first. Those that return use a *slot*, a bit that is
free again once they have returned, so that a bit set is as wide as the history is concurrent, not as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from checkers.linearizability.models import Model
from checkers.linearizability.operations import Operation


class Open(NamedTuple):
    """An operation that returns, while it is open. `returns`: the level that it is the forced operation of."""

    bit: int
    kind: int
    operation: int
    returns: int


class OpenGroup(NamedTuple):
    """Identical operations that never returned. `bits`: all of them, `lowest`: the first, `invoked`: so far."""

    lowest: int
    bits: int
    invoked: int
    kind: int


class Level(NamedTuple):
    """What is open before one completion. `observing` operations never change a state; `changing` ones may."""

    forced: int
    forced_operation: int
    observing: tuple[Open, ...]
    changing: tuple[Open, ...]
    groups: tuple[OpenGroup, ...]


@dataclass(frozen=True)
class Layout:
    """A key's history by levels. `never_returned`: the operation of each of the lowest bits."""

    operations: Sequence[Operation]
    kinds: Sequence[Operation]
    levels: Sequence[Level]
    never_returned: Sequence[int]


def lay_out(model: Model, operations: Sequence[Operation]) -> Layout:
    """Lay out prepared operations. Those that never returned and change nothing are left out."""
    kinds: dict[tuple[object, ...], int] = {}
    examples: list[Operation] = []
    kind_of: list[int] = []
    observing: list[bool] = []
    events: list[tuple[int, int, int]] = []
    groups: dict[int, list[int]] = {}
    for number, operation in enumerate(operations):
        key = (operation.function, operation.argument, operation.result)
        kind = kinds.setdefault(key, len(examples))
        if kind == len(examples):
            examples.append(operation)
            observing.append(model.functions[operation.function].observes(operation.argument, operation.result))
        kind_of.append(kind)
        if operation.completed_ns is not None:
            events.append((operation.invoked_ns, 0, number))
            events.append((operation.completed_ns, 1, number))
        elif not observing[kind]:
            events.append((operation.invoked_ns, 0, number))
            groups.setdefault(kind, []).append(number)
    # At one instant invocations come first: closed intervals that touch are concurrent.
    events.sort()
    never_returned: list[int] = []
    lowest: dict[int, int] = {}
    for kind, members in groups.items():
        lowest[kind] = 1 << len(never_returned)
        members.sort(key=lambda number: operations[number].invoked_ns)
        never_returned += members
    levels = _levels(operations, events, kind_of, observing, {kind: len(of) for kind, of in groups.items()}, lowest)
    return Layout(operations, examples, levels, never_returned)


def _levels(
    operations: Sequence[Operation],
    events: Sequence[tuple[int, int, int]],
    kind_of: Sequence[int],
    observing: Sequence[bool],
    sizes: dict[int, int],
    lowest: dict[int, int],
) -> list[Level]:
    first_slot = sum(sizes.values())
    free: list[int] = []
    slots = 0
    returns_at = {number: level for level, number in enumerate(number for _, what, number in events if what)}
    open_observing: dict[int, Open] = {}
    open_changing: dict[int, Open] = {}
    open_groups: dict[int, OpenGroup] = {}
    groups: tuple[OpenGroup, ...] = ()
    levels: list[Level] = []
    for _, what, number in events:
        kind = kind_of[number]
        mine = open_observing if observing[kind] else open_changing
        if what:
            bit = mine[number].bit
            levels.append(
                Level(bit, number, tuple(open_observing.values()), tuple(open_changing.values()), groups),
            )
            del mine[number]
            free.append(bit)
        elif operations[number].completed_ns is None:
            low = lowest[kind]
            invoked = open_groups[kind].invoked if kind in open_groups else 0
            open_groups[kind] = OpenGroup(low, ((1 << sizes[kind]) - 1) * low, (invoked << 1) | low, kind)
            groups = tuple(open_groups.values())
        else:
            if free:
                bit = free.pop()
            else:
                bit = 1 << (first_slot + slots)
                slots += 1
            mine[number] = Open(bit, kind, number, returns_at[number])
    return levels
