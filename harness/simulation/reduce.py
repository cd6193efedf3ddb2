"""A failing simulation made as small as can be: what of it are lanes for the shrinker, and when it still fails.

Lanes, in the order in which they matter: the configuration (each part by its place among simpler ones), the schedule
(one row per fault), the workload, the network, the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from harness.simulation import case as cases
from harness.simulation.case import Case
from harness.simulation.findings import Finding, Layer, findings
from harness.simulation.narration import Line, Narrator, story, without_repetitions
from harness.simulation.pool import Pool
from harness.simulation.scenario import Outcome
from harness.simulation.schedule import Fault
from harness.simulation.shrink import Candidate, Kind, Lane, Lanes, Shrinker
from harness.simulation.stored import relevant, tape_of
from harness.simulation.swarm import FAULTS, Configuration
from harness.simulation.tape_files import TapeFile
from harness.simulation.watchers import watchers
from harness.simulation.world import NOBODY

_NUMBERS = ("at_ms", "kind", "target", "duration_ms", "parameter")
"""Parts of a fault that are numbers, a kind being its place among all."""

SHAPE: Mapping[str, Lane] = {
    "configuration": Lane(Kind.FIXED),
    "schedule": Lane(Kind.ROWS, len(_NUMBERS)),
    "workload": Lane(Kind.NOISE),
    "network": Lane(Kind.NOISE),
    "disk": Lane(Kind.NOISE),
}

_NOISE = tuple(name for name, lane in SHAPE.items() if lane.kind is Kind.NOISE)

_SIMPLER: tuple[tuple[tuple[str, ...], tuple[tuple[object, ...], ...]], ...] = (
    (("squeeze",), ((False,), (True,))),
    (("duration_ms",), tuple((seconds * 1_000,) for seconds in (5, 8, 12, 20, 30, 45, 60))),
    (("operations",), tuple((count,) for count in (1, 2, 3, 5, 10, 20, 50, 100, 200))),
    (("polls",), tuple((count,) for count in (1, 2, 5, 10, 20, 50, 100, 200))),
    (("producers",), ((1,), (2,), (3,))),
    (("readers",), ((1,), (2,))),
    (("partitions",), ((1,), (2,))),
    (("controllers",), ((1,), (3,))),
    (("brokers", "replication_factor"), ((2, 2), (3, 3), (4, 3))),
    (("slow_of_1000",), ((0,),)),
    (("answer_lost_of_1000",), ((0,),)),
    (("repeated_of_1000",), ((0,),)),
    (("flush_messages", "flush_ms"), ((0, 0),)),
    (("metadata_snapshot_records",), ((5_000,),)),
    (("metadata_fetch_bytes",), ((8 << 20,),)),
    (("lag_ms",), ((4_000,),)),
    (("retries",), ((False,), (True,))),
    (("idempotence",), ((False,), (True,))),
)
"""Parts of the configuration that may be simplified, with what they may be, simplest first."""


class CannotShrink(ValueError):
    """A failure that is no list of numbers. One line."""


class Target(NamedTuple):
    """What must still happen: as the first violation of an observer, or among what logs and history show at the end."""

    layer: Layer
    property_id: str

    @property
    def observed(self) -> bool:
        """Whether the observers are needed."""
        return self.layer is Layer.INVARIANT

    def found(self, outcome: Outcome) -> Finding | None:
        """The finding, if this is what happened."""
        if self.layer in (Layer.LOGS, Layer.HISTORY):
            named = (one for one in findings(outcome) if (one.layer, one.property_id) == self)
            return next(named, None)
        if outcome.failed_property != self.property_id or outcome.failure is None:
            return None
        return Finding(self.layer, self.property_id, outcome.failure)


class Scale(NamedTuple):
    """What the numbers of the lane "configuration" stand for."""

    origin: Configuration
    choices: tuple[tuple[tuple[str, ...], tuple[tuple[object, ...], ...]], ...]

    def configuration(self, places: Sequence[int]) -> Configuration:
        """The configuration with these places."""
        data = dict(vars(self.origin))
        for (names, values), place in zip(self.choices, places, strict=True):
            data.update(zip(names, values[place], strict=True))
        return Configuration(**data)


def scale_of(configuration: Configuration) -> tuple[Scale, tuple[int, ...]]:
    """How a configuration can be simplified, and the places of its own parts: the last ones."""
    choices = []
    for names, values in _SIMPLER:
        own = tuple(getattr(configuration, name) for name in names)
        simpler = values[: values.index(own)] if own in values else values
        choices.append((names, (*simpler, own)))
    return Scale(configuration, tuple(choices)), tuple(len(values) - 1 for _, values in choices)


class Shrunk(NamedTuple):
    """The end of a reduction."""

    tape: TapeFile
    steps: int
    """Transitions from the first that a client or a fault caused to the violation; what is repeated counts once."""
    tried: int


def failing(case: Case) -> tuple[Outcome, Finding | None]:
    """Simulate a case; its first finding is what is to be preserved."""
    outcome = cases.run(case, watchers(), to_the_end=True)
    found = findings(outcome)
    return outcome, found[0] if found else None


def reduce(
    outcome: Outcome,
    target: Target,
    jobs: int,
    *,
    stopped: Callable[[], bool] = lambda: False,
    told: Callable[[int, Lanes], None] = lambda *_: None,
) -> Shrunk:
    """Shrink the tape of an outcome to one that still breaks the target's property, until it is minimal or stopped.

    Raises `CannotShrink` for faults that wait for a condition.
    """
    if any(fault.when is not None for fault in outcome.faults):
        raise CannotShrink("expected faults at given times, found one that waits for a condition")
    scale, places = scale_of(outcome.configuration)
    start: dict[str, tuple[int, ...]] = {
        "configuration": places,
        "schedule": tuple(number for fault in outcome.faults for number in _row(fault)),
        **{name: tuple(outcome.values[name]) for name in _NOISE},
    }
    tried = 0
    with Pool[tuple[int, Candidate], Lanes | None](partial(_attempt, scale=scale, target=target), jobs) as pool:

        def test(candidates: Iterable[Candidate]) -> tuple[int, Lanes] | None:
            nonlocal tried
            hits: dict[int, Lanes] = {}
            for done in pool.run(takewhile(lambda _: not hits, enumerate(candidates))):
                tried += 1
                if done.result is not None:
                    hits[done.task[0]] = done.result
            return min(hits.items(), key=lambda hit: hit[0]) if hits else None

        shrinker = Shrinker(SHAPE, test, stopped=stopped, told=lambda lanes: told(tried, lanes))
        best = shrinker.run(start)
    return _finished(scale, best, target, outcome.seed, tried)


def case_of(scale: Scale, candidate: Candidate) -> Case:
    """The simulation that lanes stand for."""
    lanes = candidate.lanes
    schedule = lanes["schedule"]
    width = SHAPE["schedule"].width
    faults = tuple(_fault(schedule[at : at + width]) for at in range(0, len(schedule), width))
    configuration = scale.configuration(lanes["configuration"])
    streams = {name: lanes[name] for name in _NOISE if name in lanes}
    kinds = tuple(kind for kind in FAULTS if any(fault.kind == kind for fault in faults))
    return Case(None, {**vars(configuration), "faults": kinds}, streams, faults, candidate.refill)


def _attempt(task: tuple[int, Candidate], scale: Scale, target: Target) -> Lanes | None:
    candidate = task[1]
    outcome = cases.run(case_of(scale, candidate), watchers() if target.observed else ())
    if target.found(outcome) is None:
        return None
    return {**candidate.lanes, **{name: tuple(outcome.values[name]) for name in _NOISE}}


def _finished(scale: Scale, lanes: Lanes, target: Target, seed: int | None, tried: int) -> Shrunk:
    narrator = Narrator()
    case = case_of(scale, Candidate(lanes))
    outcome = cases.run(case, watchers() if target.observed else (), (narrator,), keep_notes=True)
    outcome.seed = seed
    found = target.found(outcome)
    assert found is not None, "what fails once fails always"
    lines = without_repetitions(from_first_cause(relevant(story(narrator, outcome.history, outcome.notes))))
    happens = [*(str(line) for line in lines), f"VIOLATION of {found}"]
    return Shrunk(tape_of(outcome, [found], happens), len(lines), tried)


def from_first_cause(lines: Sequence[Line]) -> Sequence[Line]:
    """A story without how the cluster came up: earlier faults, and all from the first send or fault after that."""
    up = next((place for place, line in enumerate(lines) if " leads in epoch 0" in line.text), 0)
    faults = [line for line in lines[:up] if line.node_id == NOBODY]
    for place in range(up, len(lines)):
        if lines[place].text.startswith("Produce ") or lines[place].node_id == NOBODY:
            return [*faults, *lines[place:]]
    return lines


def _row(fault: Fault) -> tuple[int, ...]:
    return (fault.at_ms, FAULTS.index(fault.kind), fault.target, fault.duration_ms, fault.parameter)


def _fault(row: Sequence[int]) -> Fault:
    at_ms, kind, target, duration_ms, parameter = row
    return Fault(at_ms, FAULTS[kind], target, duration_ms, parameter)
