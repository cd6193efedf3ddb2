"""Searches all states of a model breadth first, until a property breaks, a limit is reached, or all have been seen."""

from __future__ import annotations

import struct
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from simulation.exhaustive import trace
from simulation.exhaustive.model.choices import Action
from simulation.exhaustive.model.cluster import ModelCluster, begin
from simulation.exhaustive.model.state import ModelState
from simulation.exhaustive.model.step import ModelNodeCrashed
from simulation.exhaustive.models import MODEL
from simulation.exhaustive.property_checks import Broken
from simulation.exhaustive.spec import ModelSpec
from simulation.exhaustive.trace import follow

_KEY = struct.Struct("=8I")
_CLOCK_EVERY = 4_096


class SearchVerdict(Enum):
    """How a search ended."""

    EXHAUSTED = "exhausted, no violation"
    STOPPED = "stopped at its limit, no violation"
    VIOLATED = "violated"


@dataclass(frozen=True)
class SearchResult:
    """The result of a search. `depth`: steps from the initial state to the farthest state, or to the violation."""

    spec: ModelSpec
    verdict: SearchVerdict
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
    """States that were seen and whose successors were not explored."""

    @property
    def states_per_second(self) -> float:
        """Distinct states per second of processor time, which does not depend on the machine's other load."""
        return self.states / max(self.processor_seconds, 1e-9)


@dataclass(frozen=True)
class SearchLimits:
    """When to stop without an answer; 0 for never."""

    states: int = 0
    seconds: float = 0.0
    depth: int = 0


NO_LIMITS = SearchLimits()


def search(spec: ModelSpec, limits: SearchLimits = NO_LIMITS) -> SearchResult:
    """Search a model."""
    return _Search(spec, limits).run()


class _Search:
    def __init__(self, spec: ModelSpec, limits: SearchLimits) -> None:
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

    def run(self) -> SearchResult:
        """Explore the states level by level."""
        cluster, seen, pack = self.cluster, self.seen, _KEY.pack
        level = [self.initial]
        seen[pack(*self.initial)] = None
        self.parents.append(0)
        self.causes.append(0)
        depth = first = 0
        while level:
            following: list[ModelState] = []
            for index, state in enumerate(level):
                if index % _CLOCK_EVERY == 0 and self._is_over(depth):
                    return self._found(SearchVerdict.STOPPED, depth, waiting=len(level) - index + len(following))
                for action in cluster.actions(state):
                    self.transitions += 1
                    try:
                        after = cluster.apply(state, action)
                    except (Broken, ModelNodeCrashed) as broken:
                        steps = self._trace(first + index, action)
                        return self._found(SearchVerdict.VIOLATED, len(steps), violation=str(broken), steps=steps)
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
        return self._found(SearchVerdict.EXHAUSTED, depth)

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
            names.append(trace.name(self.cluster, state, action))
            if action is not last:
                state = self.cluster.apply(state, action) or state
        return tuple(names)

    def _found(
        self,
        verdict: SearchVerdict,
        depth: int,
        *,
        violation: str | None = None,
        steps: tuple[str, ...] = (),
        waiting: int = 0,
    ) -> SearchResult:
        return SearchResult(
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


_COLUMNS = ("model", "begins with", "states", "steps", "depth", "seconds", "states/s", "verdict")
_NUMBERS = range(2, 7)


def result_table(found: Sequence[SearchResult]) -> Iterator[str]:
    """One line per model. Seconds are wall-clock time; the rate is by processor time."""
    rows = [_COLUMNS, *(_row(one) for one in found)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
    for row in rows:
        cells = [
            text.rjust(width) if index in _NUMBERS else text.ljust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _row(one: SearchResult) -> tuple[str, ...]:
    return (
        one.spec.name,
        one.spec.title(),
        f"{one.states:,}",
        f"{one.transitions:,}",
        str(one.depth),
        f"{one.seconds:.1f}",
        f"{one.states_per_second:,.0f}",
        _verdict(one),
    )


def _verdict(one: SearchResult) -> str:
    if one.verdict is SearchVerdict.VIOLATED:
        model = next((MODEL[flaw] for flaw in one.spec.flaws if flaw in MODEL), None)
        compared = "" if model is None else f" (in the TLA+ model {model - 1})"
        return f"violated after {len(one.steps)} steps{compared}: {one.violation}"
    if one.verdict is SearchVerdict.STOPPED:
        return f"no violation in the first {one.depth} steps of any order; stopped at the limit"
    return "no violation in any order"


def counterexample(one: SearchResult) -> Iterator[str]:
    """A counterexample, step by step, with what each step changed."""
    replayed = follow(one.spec, one.steps)
    width = len(str(len(replayed.steps)))
    for number, step in enumerate(replayed.steps, 1):
        yield f"{number:>{width}}  {step.name}"
        yield from (f"{'':{width}}      {change}" for change in step.changes)
    yield f"{'':{width}}  violated: {replayed.violation or one.violation}"


def result_data(one: SearchResult) -> dict[str, object]:
    """A result for the output in JSON."""
    return {
        "world": one.spec.name,
        "begins_with": one.spec.title(),
        "generation": one.spec.generation,
        "flaws": list(one.spec.flaws),
        "verdict": one.verdict.name.lower(),
        "states": one.states,
        "transitions": one.transitions,
        "depth": one.depth,
        "states_waiting": one.waiting,
        "seconds": round(one.seconds, 3),
        "processor_seconds": round(one.processor_seconds, 3),
        "states_per_second": round(one.states_per_second),
        "violation": one.violation,
        "steps": list(one.steps),
    }
