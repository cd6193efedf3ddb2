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

from collections.abc import Collection, Mapping, Sequence, Sized
from typing import Any, Final, TypeAlias

from checkers.linearizability.layout import Changing, Layout, lay_out
from checkers.linearizability.models import ILLEGAL, Function, Model, State
from checkers.linearizability.operations import Operation

ORDERS_MAX: Final = 6
CELLS_PER_REMEMBERED: Final = 15
STATE_CELLS: Final = 20
"""What a state takes beside its elements, in cells of some 50 bytes."""
WAITING_PER_REMEMBERED: Final = 4
BITS_OF_A_CONFIGURATION: Final = 256
GROUPS_OF_A_CONFIGURATION: Final = 32
"""A configuration costs more, the more kinds of operations never returned: with so many, it counts as two."""

SearchNode: TypeAlias = tuple[int, int, int, int, "SearchNode | None", int]
"""A configuration on the way: level, slots in the order, how many of each group are, state, the node before, and the
operation that was put into the order there; -1 at the root. The state is known by its number while the node waits."""


class MemoryTooSmall(Exception):
    """The configurations that wait, with their states, do not fit into the memory that the search may use."""


class _Steps(dict[int, int]):
    """By kinds of operations, the states after them in one state, -1 where one is not legal; each computed once."""

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
    """Numbers the states that a search meets. `cells`: how much memory they take."""

    def __init__(self, functions: Mapping[str, Function], kinds: Sequence[Operation]) -> None:
        self.functions, self.kinds = functions, kinds
        self._numbers: dict[State, int] = {}
        self.cells = 0
        self.all: list[Any] = []
        self.steps: list[_Steps] = []

    def number(self, state: State) -> int:
        """Return a state's number."""
        number = self._numbers.get(state)
        if number is None:
            self.cells += STATE_CELLS + (len(state) if isinstance(state, Sized) else 0)
            number = self._numbers[state] = len(self.all)
            self.all.append(state)
            self.steps.append(_Steps(self, state))
        return number

    def keep(self, numbers: Collection[int]) -> dict[int, int]:
        """Forget all other states. Return the new numbers of these."""
        kept = {number: self.all[number] for number in numbers}
        self._numbers.clear()
        self.all.clear()
        self.steps.clear()
        self.cells = 0
        return {number: self.number(state) for number, state in kept.items()}


class Search:
    """The search of one key. `operations` are `prepared`, those that failed left out.

    `look_ahead`: whether to go by what operations see later, where the model tells.
    """

    def __init__(
        self,
        model: Model,
        operations: Sequence[Operation],
        initial: State,
        remembered: int,
        *,
        look_ahead: bool = True,
    ) -> None:
        self.layout: Final[Layout] = lay_out(model, operations, initial, look_ahead=look_ahead)
        self.initial: Final = initial
        self.visited = 0
        self.deepest = 0
        """The furthest level reached: all completions before it can be explained."""
        self.longest: dict[int, SearchNode] = {}
        """By state: the ends of some orders that reach the deepest level."""
        self._remembered_max: Final = remembered
        self._states: Final = _States(model.functions, self.layout.kinds)
        self._states.number(initial)
        self._seen: dict[int, list[int]] = {}
        self._seen_count = 0
        self._size: Final = 1 + self.layout.guards.bit_length() // BITS_OF_A_CONFIGURATION
        """How much memory a configuration takes, compared with one of a history in which every operation returned."""
        self._stack: list[SearchNode] = [(0, 0, 0, 0, None, -1)]

    def advance(self, configurations: int) -> bool | None:
        """Go on for so many configurations. Return whether there is an order, None if that is not decided yet.

        Raises `MemoryTooSmall`.
        """
        layout, stack, seen, states = self.layout, self._stack, self._seen, self._states
        forced, observing, changing, zones = layout.forced, layout.observing, layout.changing, layout.zones
        groups, groups_open, guards, width = layout.groups, layout.groups_open, layout.guards, layout.width
        end = len(forced)
        remembered_max = self._remembered_max // self._size
        cells_max = self._remembered_max * CELLS_PER_REMEMBERED
        if end == 0:
            return True
        limit = self.visited + configurations
        while stack:
            if self.visited >= limit:
                return None
            if self._seen_count > remembered_max or states.cells > cells_max:
                self._forget()
            node = stack.pop()
            level, placed, used, state, _, _ = node
            self.visited += 1 + groups_open[level] // GROUPS_OF_A_CONFIGURATION
            after_kind = states.steps[state]
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
            key = (state * end + level) << width | placed
            before = seen.get(key)
            if before is None:
                seen[key] = [used]
            elif _exceeds(used | guards, before, guards):
                continue
            else:
                before.append(used)
            self._seen_count += 1
            for group in groups[: groups_open[level]]:
                number = used >> group.shift & group.mask
                if group.since[number] <= level:
                    after = after_kind[group.kind]
                    if after >= 0 and after != state and not _has_open(group.kind, changing[level], placed):
                        stack.append((level, placed, used + group.one, after, node, group.members[number]))
            for bit, kind, operation, first in changing[level]:
                if placed & bit or placed & first != first:
                    continue
                if zones is not None and not zones.may_follow(operation, states.all[state], level, placed):
                    continue
                after = after_kind[kind]
                if after >= 0:
                    stack.append((level, placed | bit, used, after, node, operation))
        return False

    def after(self, number: int, state: State) -> State:
        """Return the state after an operation, `ILLEGAL` where it is not legal."""
        example = self.layout.kinds[self.layout.kind_of[number]]
        after: State = self._states.functions[example.function].step(state, example.argument, example.result)
        return after

    def _note(self, level: int, state: int, node: SearchNode) -> None:
        if level > self.deepest:
            self.deepest = level
            self.longest.clear()
        if len(self.longest) < ORDERS_MAX:
            self.longest.setdefault(state, node)

    def _forget(self) -> None:
        """Forget what was visited, and the states in which nothing waits. Raises `MemoryTooSmall`."""
        self._seen.clear()
        self._seen_count = 0
        number_of = self._states.keep({state for _, _, _, state, _, _ in self._stack})
        if (
            2 * self._states.cells > self._remembered_max * CELLS_PER_REMEMBERED
            or len(self._stack) * self._size > WAITING_PER_REMEMBERED * self._remembered_max
        ):
            raise MemoryTooSmall
        self._stack[:] = [(*node[:3], number_of[node[3]], *node[4:]) for node in self._stack]


def _exceeds(guarded: int, before: Sequence[int], guards: int) -> bool:
    """Whether some earlier number of each group was at most as many. `guarded` has the guard bits set."""
    return any([(guarded - earlier) & guards == guards for earlier in before])  # noqa: C419 - faster than a generator


def _has_open(kind: int, changing: Sequence[Changing], placed: int) -> bool:
    """Whether an operation of this kind that returns is open, and not in the order."""
    return any([its_kind == kind and not placed & bit for bit, its_kind, _, _ in changing])  # noqa: C419 - faster
