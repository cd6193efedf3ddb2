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

The layout (`layout`) cuts the history at its completions, so that the search goes from one to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any, Final, TypeAlias

from checkers.linearizability.layout import Group, Layout, lay_out
from checkers.linearizability.models import ILLEGAL, Function, Model, State
from checkers.linearizability.operations import Operation

ORDERS_MAX: Final = 6
VIEWS_MAX: Final = 100_000
CELLS_PER_REMEMBERED: Final = 30
STACK_PER_REMEMBERED: Final = 4
BITS_OF_A_CELL: Final = 256

SearchNode: TypeAlias = tuple[int, int, int, int, "SearchNode | None", int]
"""A configuration on the way: level, slots in the order, how many of each group are, state, the node before, and the
operation that was put into the order there; -1 at the root."""


View: TypeAlias = tuple[Sequence[tuple[Group, int, int]], Sequence[tuple[int, int, int, int]]]
"""What a state allows at a level, the most promising last: of operations that never returned (group, bits that go first,
state afterwards), of those that do (bit, bits that go first, state afterwards, operation)."""


class StatesTooLarge(Exception):
    """The states that the search met do not fit into the memory that it may use."""


class _Steps(dict[int, int]):
    """By kinds of operations, the states after them in one state, -1 where one is not legal; computed when asked for."""

    __slots__ = ("_state", "_states")

    def __init__(self, states: _States, state: State) -> None:
        super().__init__()
        self._states, self._state = states, state

    def __missing__(self, kind: int) -> int:
        states = self._states
        example = states.kinds[kind]
        after = states.functions[example.function].step(self._state, example.argument, example.result)
        number = self[kind] = -1 if after is ILLEGAL else states.number(after)
        return number


class _States:
    """Numbers the states that a search meets."""

    def __init__(self, functions: Mapping[str, Function], kinds: Sequence[Operation], cells_max: int) -> None:
        self.functions, self.kinds, self._cells_max = functions, kinds, cells_max
        self._numbers: dict[State, int] = {}
        self._cells = 0
        self.all: list[Any] = []
        self.steps: list[_Steps] = []

    def number(self, state: State) -> int:
        """Return a state's number. Raises `StatesTooLarge`."""
        number = self._numbers.get(state)
        if number is None:
            self._cells += 1 + (len(state) if isinstance(state, Sized) else 0)
            if self._cells > self._cells_max:
                raise StatesTooLarge
            number = self._numbers[state] = len(self.all)
            self.all.append(state)
            self.steps.append(_Steps(self, state))
        return number


class Search:
    """The search of one key. `operations` are `prepared`, those that failed left out."""

    def __init__(self, model: Model, operations: Sequence[Operation], initial: State, remembered: int) -> None:
        self.layout: Final[Layout] = lay_out(model, operations, initial)
        self.visited = 0
        self.deepest = 0
        """The furthest level reached: all completions before it can be explained."""
        self.longest: dict[int, SearchNode] = {}
        """By state: the ends of some orders that reach the deepest level."""
        self._remembered_max: Final = remembered
        self._states: Final = _States(model.functions, self.layout.kinds, remembered * CELLS_PER_REMEMBERED)
        self._states.number(initial)
        self._views: dict[int, View] = {}
        self._view_cells = 0
        self._seen: dict[int, list[int]] = {}
        self._seen_cells = 0
        self._cells: Final = 1 + self.layout.guards.bit_length() // BITS_OF_A_CELL
        """How much memory a configuration takes, compared with one of a history in which every operation returned."""
        self._stack: list[SearchNode] = [(0, 0, 0, 0, None, -1)]

    def state(self, number: int) -> State:
        """Return a state by the number it has in nodes."""
        found: State = self._states.all[number]
        return found

    def advance(self, configurations: int) -> bool | None:
        """Go on for so many configurations. Return whether there is an order, None if that is not decided yet.

        Raises `StatesTooLarge`.
        """
        layout, stack, seen, views, steps = self.layout, self._stack, self._seen, self._views, self._states.steps
        forced, observing, end = layout.forced, layout.observing, len(layout.forced)
        guards, width = layout.guards, layout.width
        if end == 0:
            return True
        limit = self.visited + configurations
        while stack:
            if self.visited >= limit:
                return None
            self.visited += 1
            node = stack.pop()
            level, placed, used, state, _, _ = node
            after_kind = steps[state]
            while True:
                for bit, kind, _ in observing[level]:
                    if after_kind[kind] >= 0:
                        placed |= bit
                if not placed & forced[level]:
                    break
                placed ^= forced[level]
                level += 1
                if level == end:
                    return True
            if level >= self.deepest:
                self._note(level, state, node)
            at = state * end + level
            key = at << width | placed
            before = seen.get(key)
            if before is None:
                seen[key] = [used]
            elif _exceeds(used | guards, before, guards):
                continue
            else:
                before.append(used)
            self._seen_cells += self._cells
            if self._seen_cells > self._remembered_max:
                seen.clear()
                self._seen_cells = 0
            never_returning, returning = views.get(at) or self._view(level, state)
            for group, first, after in never_returning:
                number = used >> group.shift & group.mask
                if group.since[number] <= level and placed & first == first:
                    stack.append((level, placed, used + group.one, after, node, group.members[number]))
            for bit, first, after, operation in returning:
                if not placed & bit and placed & first == first:
                    stack.append((level, placed | bit, used, after, node, operation))
            if len(stack) * self._cells > STACK_PER_REMEMBERED * self._remembered_max:
                raise StatesTooLarge
        return False

    def settled(self, level: int, placed: int, state: int) -> list[tuple[int, int]]:
        """Return operations that are put into the order at a level without a choice, as they change nothing; with bits."""
        after_kind = self._states.steps[state]
        return [
            (operation, bit)
            for bit, kind, operation in self.layout.observing[level]
            if not placed & bit and after_kind[kind] >= 0
        ]

    def _note(self, level: int, state: int, node: SearchNode) -> None:
        if level > self.deepest:
            self.deepest = level
            self.longest.clear()
        if len(self.longest) < ORDERS_MAX:
            self.longest.setdefault(state, node)

    def _view(self, level: int, state: int) -> View:
        layout, states, zones = self.layout, self._states.all, self.layout.zones
        after_kind = self._states.steps[state]
        returning = []
        for bit, kind, number, first in reversed(layout.changing[level]):
            after = after_kind[kind]
            if after < 0:
                continue
            if zones is not None:
                needed = zones.before_losing(states[state] - states[after], level, number)
                if needed is None:
                    continue
                first |= needed
            returning.append((bit, first, after, number))
        never_returning = []
        groups = layout.groups[: layout.groups_open[level]]
        if groups:
            of_kind: dict[int, int] = {}
            for bit, kind, _, _ in layout.changing[level]:
                of_kind[kind] = of_kind.get(kind, 0) | bit
            for group in groups:
                after = after_kind[group.kind]
                if after >= 0 and after != state:
                    never_returning.append((group, of_kind.get(group.kind, 0), after))
        self._view_cells += 1 + len(never_returning)
        if self._view_cells > VIEWS_MAX:
            self._views.clear()
            self._view_cells = 1 + len(never_returning)
        view = self._views[state * len(layout.forced) + level] = (never_returning, returning)
        return view


def _exceeds(guarded: int, before: Sequence[int], guards: int) -> bool:
    """Whether some earlier number of each group was at most as many; guard bits set in `guarded` stay set then."""
    return any([(guarded - earlier) & guards == guards for earlier in before])
