"""Breadth first through all states of a small world, until a property breaks, the budget ends, or all has been seen."""

from __future__ import annotations

import struct
import time
from array import array
from dataclasses import dataclass
from enum import Enum

from simulation.exhaustive import trace as telling
from simulation.exhaustive.model.choices import Action
from simulation.exhaustive.model.cluster import ModelCluster
from simulation.exhaustive.model.setup import begin
from simulation.exhaustive.model.state import State
from simulation.exhaustive.model.step import NodeCrashed
from simulation.exhaustive.properties.of_the_cluster import Broken
from simulation.exhaustive.spec import ModelSpec

_KEY = struct.Struct("=8I")
_CLOCK_EVERY = 4_096


class Verdict(Enum):
    """How a search ended."""

    EXHAUSTED = "exhausted, no violation"
    STOPPED = "stopped at its limit, no violation"
    VIOLATED = "violated"


@dataclass(frozen=True)
class Found:
    """What a search found. `depth`: steps from the initial state to the farthest state, or to the violation."""

    spec: ModelSpec
    verdict: Verdict
    states: int
    transitions: int
    depth: int
    seconds: float
    processor_seconds: float
    node_states: int
    violation: str | None = None
    steps: tuple[str, ...] = ()
    """A shortest counterexample: names of steps, for `replay.follow`."""

    waiting: int = 0
    """States that were seen and whose successors were not looked at."""

    @property
    def states_per_second(self) -> float:
        """Distinct states a second of processor time: the machine may have had other things to do."""
        return self.states / max(self.processor_seconds, 1e-9)


@dataclass(frozen=True)
class Limits:
    """When to stop without an answer; 0 for never."""

    states: int = 0
    seconds: float = 0.0
    depth: int = 0


NO_LIMITS = Limits()


def search(spec: ModelSpec, limits: Limits = NO_LIMITS) -> Found:
    """Search a world."""
    return _Search(spec, limits).run()


class _Search:
    def __init__(self, spec: ModelSpec, limits: Limits) -> None:
        self.limits = limits
        self.started = time.monotonic()
        self.processor_started = time.process_time()
        self.cluster = ModelCluster(spec)
        self.initial = begin(self.cluster)
        self.seen: dict[bytes, None] = {}
        self.parents = array("I")
        self.causes = array("I")
        self.action_numbers: dict[Action, int] = {}
        self.transitions = 0

    def run(self) -> Found:
        """Walk."""
        cluster, seen, pack = self.cluster, self.seen, _KEY.pack
        level = [self.initial]
        seen[pack(*self.initial)] = None
        self.parents.append(0)
        self.causes.append(0)
        depth = first = 0
        while level:
            following: list[State] = []
            for index, state in enumerate(level):
                if index % _CLOCK_EVERY == 0 and self._is_over(depth):
                    return self._found(Verdict.STOPPED, depth, waiting=len(level) - index + len(following))
                for action in cluster.actions(state):
                    self.transitions += 1
                    try:
                        after = cluster.apply(state, action)
                    except (Broken, NodeCrashed) as broken:
                        trace = self._trace(first + index, action)
                        return self._found(Verdict.VIOLATED, len(trace), violation=str(broken), steps=trace)
                    if after is None:
                        continue
                    key = pack(*after)
                    if key not in seen:
                        seen[key] = None
                        following.append(after)
                        self.parents.append(first + index)
                        self.causes.append(self.action_numbers.setdefault(action, len(self.action_numbers)))
            first += len(level)
            level = following
            depth += bool(level)
        return self._found(Verdict.EXHAUSTED, depth)

    def _is_over(self, depth: int) -> bool:
        limits = self.limits
        return (
            (0 < limits.states <= len(self.seen))
            or (0 < limits.seconds <= time.monotonic() - self.started)
            or (0 < limits.depth <= depth)
        )

    def _trace(self, number: int, last: Action) -> tuple[str, ...]:
        """The names of the steps to a state, and of one more."""
        by_number = list(self.action_numbers)
        actions = [last]
        while number:
            actions.append(by_number[self.causes[number]])
            number = self.parents[number]
        state = self.initial
        names = []
        for action in reversed(actions):
            names.append(telling.name(self.cluster, state, action))
            if action is not last:
                state = self.cluster.apply(state, action) or state
        return tuple(names)

    def _found(
        self,
        verdict: Verdict,
        depth: int,
        *,
        violation: str | None = None,
        steps: tuple[str, ...] = (),
        waiting: int = 0,
    ) -> Found:
        return Found(
            self.cluster.spec,
            verdict,
            len(self.seen),
            self.transitions,
            depth,
            time.monotonic() - self.started,
            time.process_time() - self.processor_started,
            len(self.cluster.nodes.states),
            violation,
            steps,
            waiting,
        )
