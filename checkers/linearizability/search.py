"""Searches depth-first for an order of one key's operations (Wing and Gong 1993, Lowe 2017), for every model.

A configuration is the set of operations in the order, as an integer, and the state after them. It is visited once:
nothing but the set and the state decides what can follow. Beyond that, five reductions, none of which loses a verdict:

* An operation that never changes a state is put into the order as soon as it is legal. (Moved forward it affects no
  other. A write of the present value is no such operation: moved forward it may lose its effect.)
* Of identical operations that never returned, the one invoked first is taken: they are interchangeable.
* Of identical open operations that do return, the one that returns first is taken, and before any that never returns:
  exchanging the two in an order leaves every state and every precedence as it was.
* Where two configurations differ only in which never-returning operations were used, and one used a subset of the
  other's, the other is dropped: the first can do everything that it can.
* The search ends when every operation that returned is in the order. The others may stay out.

The search can be interrupted and resumed, and its memory is bounded: forgetting costs only time.

The layout of a history cuts it at its completions. *Level* k stands between the completions k-1 and k: every operation
that completed before is in the order, and the one that completes now, the level's *forced* operation, must be in it
before the level can be left. Every operation in the order at level k was invoked before completion k, so that no order
is ever missed. An operation is a bit. Those that never returned keep theirs for ever: identical ones are
interchangeable, so they have neighbouring bits that are used from the lowest, the one invoked first. Those that return
use a *slot*, a bit that is free again once they have returned, so that a bit set is as wide as the history is
concurrent, not as long.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from checkers.linearizability.models import ILLEGAL, Model, State
from checkers.linearizability.operations import Operation

ORDERS_MAX: Final = 6
VIEWS_MAX: Final = 100_000
CELLS_PER_REMEMBERED: Final = 30


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


class SearchNode(NamedTuple):
    """A configuration on the way: `bit` was put into the order of `parent` while at `level`."""

    level: int
    placed: int
    state: int
    parent: SearchNode | None
    bit: int


class View(NamedTuple):
    """What a state allows at a level.

    `observing`: bits that are put into the order at once. `returning`: (bit, bits that go first, state afterwards).
    `never_returning`: (lowest bit, bits of the group, those invoked, bits that go first, state afterwards). The most
    promising come last.
    """

    observing: int
    returning: tuple[tuple[int, int, int], ...]
    never_returning: tuple[tuple[int, int, int, int, int], ...]


class StatesTooLarge(Exception):
    """The states that the search met do not fit into the memory that it may use."""


class Search:
    """The search of one key. `operations` are `prepared`, those that failed left out."""

    def __init__(self, model: Model, operations: Sequence[Operation], initial: State, remembered: int) -> None:
        self.layout: Final[Layout] = lay_out(model, operations)
        self.visited = 0
        self.deepest = 0
        """The furthest level reached: all completions before it can be explained."""
        self.longest: dict[int, SearchNode] = {}
        """By state: the ends of some orders that reach the deepest level."""
        self._model: Final = model
        self._remembered_max: Final = remembered
        self._states: list[Any] = [initial]
        self._numbers: dict[State, int] = {initial: 0}
        self._cells = 0
        self._steps: dict[tuple[int, int], int] = {}
        self._views: dict[tuple[int, int], View] = {}
        self._seen: dict[tuple[int, int, int], list[int]] = {}
        self._seen_count = 0
        self._stack: list[SearchNode] = [SearchNode(0, 0, 0, None, 0)]

    def state(self, number: int) -> State:
        """Return a state by the number it has in nodes."""
        found: State = self._states[number]
        return found

    def advance(self, configurations: int) -> bool | None:
        """Go on for so many configurations. Return whether there is an order, None if that is not decided yet.

        Raises `StatesTooLarge`.
        """
        layout, stack, seen, views = self.layout, self._stack, self._seen, self._views
        levels = layout.levels
        end = len(levels)
        if end == 0:
            return True
        never_returned = len(layout.never_returned)
        optional_bits = (1 << never_returned) - 1
        limit = self.visited + configurations
        while stack:
            if self.visited >= limit:
                return None
            self.visited += 1
            node = stack.pop()
            level, placed, state, _, _ = node
            while True:
                view = views.get((level, state)) or self.view(level, state)
                placed |= view.observing
                forced = levels[level].forced
                if not placed & forced:
                    break
                placed ^= forced
                level += 1
                if level == end:
                    return True
            if level >= self.deepest:
                self._note(level, state, node)
            used = placed & optional_bits
            key = (level, state, placed >> never_returned)
            before = seen.get(key)
            if before is None:
                seen[key] = [used]
            elif any(earlier & used == earlier for earlier in before):
                continue
            else:
                before.append(used)
            self._seen_count += 1
            if self._seen_count > self._remembered_max:
                seen.clear()
                self._seen_count = 0
            for lowest, bits, invoked, first, after in view.never_returning:
                bit = (placed & bits) + lowest
                if bit & invoked and placed & first == first:
                    stack.append(SearchNode(level, placed | bit, after, node, bit))
            for bit, first, after in view.returning:
                if not placed & bit and placed & first == first:
                    stack.append(SearchNode(level, placed | bit, after, node, bit))
        return False

    def _note(self, level: int, state: int, node: SearchNode) -> None:
        if level > self.deepest:
            self.deepest = level
            self.longest.clear()
        if len(self.longest) < ORDERS_MAX:
            self.longest.setdefault(state, node)

    def view(self, level: int, state: int) -> View:
        """Return what a state allows at a level."""
        known = self._views.get((level, state))
        if known is not None:
            return known
        now: Level = self.layout.levels[level]
        observing = 0
        for operation in now.observing:
            if self._after(operation.kind, state) >= 0:
                observing |= operation.bit
        same_kind: dict[int, int] = {}
        returning = []
        for operation in sorted(now.changing, key=lambda one: one.returns):
            first = same_kind.get(operation.kind, 0)
            same_kind[operation.kind] = first | operation.bit
            after = self._after(operation.kind, state)
            if after >= 0:
                returning.append((operation.bit, first, after))
        never_returning = []
        for group in now.groups:
            after = self._after(group.kind, state)
            if after >= 0 and after != state:
                first = same_kind.get(group.kind, 0)
                never_returning.append((group.lowest, group.bits, group.invoked, first, after))
        view = View(observing, tuple(reversed(returning)), tuple(never_returning))
        if len(self._views) >= VIEWS_MAX:
            self._views.clear()
        self._views[level, state] = view
        return view

    def _after(self, kind: int, state: int) -> int:
        """Return the state after an operation of this kind, -1 where it is not legal."""
        known = self._steps.get((kind, state))
        if known is not None:
            return known
        example = self.layout.kinds[kind]
        step = self._model.functions[example.function].step
        after = step(self._states[state], example.argument, example.result)
        number = -1 if after is ILLEGAL else self._number(after)
        self._steps[kind, state] = number
        return number

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            self._cells += 1 + (len(state) if isinstance(state, Sized) else 0)
            if self._cells > self._remembered_max * CELLS_PER_REMEMBERED:
                raise StatesTooLarge
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
        return number
