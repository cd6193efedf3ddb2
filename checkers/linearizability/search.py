"""Searches depth-first for an order of one key's operations (Wing and Gong 1993, Lowe 2017), for every model.

A configuration is the set of operations in the order, as an integer, and the state after them. It is visited once:
nothing but the set and the state decides what can follow. Beyond that, five reductions, none of which loses a verdict:

* An operation that never changes a state is put into the order as soon as it is legal. (Moved forward it affects no
  other. A write of the present value is no such operation: moved forward it may lose its effect.)
* Of identical operations that never returned, the one invoked first is taken: they are interchangeable.
* Of identical open operations that do return, the one that returns first is taken, and before any that never returns:
  exchanging the two in an order leaves every state and every precedence as it was.
* Where two configurations differ only in which never-returning operations were used, and one used at most as many of
  each kind as the other, the other is dropped: the first can do everything that it can.
* The search ends when every operation that returned is in the order. The others may stay out.

What was visited is looked up by level, slots and state. That is complete: every operation whose slot is free again has
completed before the level, so level and slots tell which operations that return are in the order. How many of each kind
of those that never returned are in it (`used`) is compared apart, for the fourth reduction.

The search can be interrupted and resumed. What waits to be tried is at most one `Frame` for each operation in the
present order, which makes the nodes that follow one at a time. What was visited, and the states, are bounded by
`remembered`: forgetting costs only time, and a search whose waiting states do not fit gives up. Beside these are the
present order, and the layout, which takes 8 bytes for each level and each operation open at it.

The layout (`layout`) cuts the history at its completions, so that the search goes from one to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from operator import length_hint
from typing import Any, Final, TypeAlias

from checkers.linearizability.layout import Changing, Layout, lay_out
from checkers.linearizability.models import ILLEGAL, Function, Model, State
from checkers.linearizability.operations import Operation

ORDERS_MAX: Final = 6
CELLS_PER_REMEMBERED: Final = 15
STATE_CELLS: Final = 20
"""What a state takes beside its elements, in cells of some 50 bytes."""
BITS_OF_A_CONFIGURATION: Final = 256
"""A configuration takes more memory, the more operations are open: with so many bits, it counts as two."""

GROUPS_OF_A_CONFIGURATION: Final = 32
"""A configuration costs more time, the more kinds of operations never returned: with so many, it counts as two."""

SearchNode: TypeAlias = tuple[int, int, int, int, "SearchNode | None", int]
"""A configuration on the way: level, slots in the order, how many of each group are, state, the node before, and the
operation that was put into the order there; -1 at the root. The state is a number, valid until the search forgets."""

Frame: TypeAlias = tuple[int, int, int, int, SearchNode, Iterator[Changing], Iterable[int]]
"""A configuration whose followers are being tried: level, slots in the order, how many of each group are, state, its
node, and what is left to try: open operations that return, the first to complete first, then the indices of groups."""


class MemoryTooSmall(Exception):
    """The states in which something waits to be tried do not fit into the memory that the search may use."""


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
        self._size: Final = 1 + (self.layout.guards.bit_length() + self.layout.width) // BITS_OF_A_CONFIGURATION
        """How much memory a configuration takes, compared with one of a history in which few operations are open."""
        self._next: SearchNode = (0, 0, 0, 0, None, -1)
        self._stack: list[Frame] = []

    def advance(self, configurations: int) -> bool | None:
        """Go on for so many configurations. Return whether there is an order, None if that is not decided yet.

        Raises `MemoryTooSmall`.
        """
        layout, stack, seen, states = self.layout, self._stack, self._seen, self._states
        forced, observing, changing, zones = layout.forced, layout.observing, layout.changing, layout.zones
        groups, groups_open, guards, width = layout.groups, layout.groups_open, layout.guards, layout.width
        steps, state_of, end = states.steps, states.all, len(forced)
        remembered_max = self._remembered_max // self._size
        cells_max = self._remembered_max * CELLS_PER_REMEMBERED
        if end == 0:
            return True
        limit = self.visited + configurations
        node = self._next
        while True:
            if self.visited >= limit:
                self._next = node
                return None
            if self._seen_count > remembered_max or states.cells > cells_max:
                node = self._forget(node)
            level, placed, used, state, _, _ = node
            self.visited += 1 + groups_open[level] // GROUPS_OF_A_CONFIGURATION
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
            key = (state * end + level) << width | placed
            before = seen.get(key)
            if before is None or not _is_dominated(used | guards, before, guards):
                if before is None:
                    seen[key] = [used]
                else:
                    before.append(used)
                self._seen_count += 1
                lost: Iterable[int] = reversed(range(groups_open[level])) if groups_open[level] else ()
                stack.append((level, placed, used, state, node, reversed(changing[level]), lost))
            while stack:
                level, placed, used, state, previous, returning, lost = stack[-1]
                after_kind = steps[state]
                for bit, kind, operation, waits_for in returning:
                    if placed & bit or placed & waits_for != waits_for:
                        continue
                    if zones is not None and not zones.may_follow(operation, state_of[state], level, placed):
                        continue
                    after = after_kind[kind]
                    if after >= 0:
                        node = (level, placed | bit, used, after, previous, operation)
                        break
                else:
                    for index in lost:
                        group = groups[index]
                        number = used >> group.shift & group.mask
                        if group.since[number] <= level:
                            after = after_kind[group.kind]
                            if after >= 0 and after != state and not _has_open(group.kind, changing[level], placed):
                                node = (level, placed, used + group.one, after, previous, group.members[number])
                                break
                    else:
                        stack.pop()
                        continue
                break
            else:
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

    def _forget(self, following: SearchNode) -> SearchNode:
        """Forget what was visited, and the states in which nothing waits. Return the node that follows, with its state.

        Raises `MemoryTooSmall`.
        """
        self._seen.clear()
        self._seen_count = 0
        waiting = [frame for frame in self._stack if self._waits(frame)]
        number_of = self._states.keep({following[3], *(frame[3] for frame in waiting)})
        if 2 * self._states.cells > self._remembered_max * CELLS_PER_REMEMBERED:
            raise MemoryTooSmall
        self._stack[:] = [(*frame[:3], number_of[frame[3]], *frame[4:]) for frame in waiting]
        return (*following[:3], number_of[following[3]], *following[4:])

    def _waits(self, frame: Frame) -> bool:
        """Whether a frame makes any more nodes; `advance` asks the same, one operation at a time."""
        level, placed, used, state, _, returning, lost = frame
        layout, after_kind = self.layout, self._states.steps[state]
        changing, zones = layout.changing[level], layout.zones
        return any(
            not placed & bit
            and placed & waits_for == waits_for
            and (zones is None or zones.may_follow(operation, self._states.all[state], level, placed))
            and after_kind[kind] >= 0
            for bit, kind, operation, waits_for in changing[: length_hint(returning)]
        ) or any(
            group.since[used >> group.shift & group.mask] <= level
            and after_kind[group.kind] not in (-1, state)
            and not _has_open(group.kind, changing, placed)
            for group in layout.groups[: length_hint(lost)]
        )


def _is_dominated(guarded: int, before: Sequence[int], guards: int) -> bool:
    """Whether some earlier visit used at most as many of each group. `guarded`: those used now, with all guard bits."""
    return any([(guarded - earlier) & guards == guards for earlier in before])  # noqa: C419 - faster than a generator


def _has_open(kind: int, changing: Sequence[Changing], placed: int) -> bool:
    """Whether an operation of this kind that returns is open, and not in the order."""
    return any([its_kind == kind and not placed & bit for bit, its_kind, _, _ in changing])  # noqa: C419 - faster
