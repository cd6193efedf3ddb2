"""A failing simulation made as small as can be: what of it are lanes for the shrinker, and when it still fails.

Lanes, in the order in which they matter: how likely accidents are, the configuration (each part of both by its place
among simpler ones), the schedule (one row per fault), how long the story is (`model_steps`), the workload, the network,
the disk.

What comes after the violation is cut off first. From then on nothing that is tried runs much longer than what failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from simulation.engine.cluster import NOBODY, EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.faults.schedule import Fault
from simulation.invariants.violation import Violation
from simulation.invariants.watchers import watchers
from simulation.runs.choice_files import ChoiceFile
from simulation.runs.findings import Finding, Layer, findings
from simulation.runs.pool import Pool
from simulation.runs.stored import choice_file_of, relevant
from simulation.runs.trace import Line, Narrator, story, without_repetitions
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.configuration import FAULTS, Configuration
from simulation.scenario.scenario import SimulationOutcome
from simulation.shrinking.model_steps import ModelSteps
from simulation.shrinking.shrinker import Candidate, Kind, Lane, Lanes, Shrinker

_NUMBERS = ("at_ms", "kind", "target", "duration_ms", "parameter")
"""Parts of a fault that are numbers: times since `_EARLIEST_MS`, a kind being its place among all."""

_EARLIEST_MS = 2_000
"""No schedule that is drawn begins sooner: the cluster is coming up."""

_GRACE_MS = 5_000
"""A simulation may run so much longer than the best one so far before it is given up."""

_AS_IN_THE_SOLE_SURVIVOR_PHASE = ("kill", "restart")
"""Kinds of faults that stand for what the squeeze does to all brokers in turn."""

_EARLY_MS, _BRIEF_MS = 7_000, 5_000
"""When such a fault strikes, the cluster being up, and for how long."""

STORY = "story"
"""The lane that is measured: steps from the moment when the cluster is whole to the violation."""

SHAPE: Mapping[str, Lane] = {
    "luck": Lane(Kind.FIXED),
    "configuration": Lane(Kind.FIXED),
    "schedule": Lane(Kind.ROWS, len(_NUMBERS), timed=True),
    STORY: Lane(Kind.MEASURED),
    "workload": Lane(Kind.NOISE),
    "network": Lane(Kind.NOISE),
    "disk": Lane(Kind.NOISE),
}

_NOISE = tuple(name for name, lane in SHAPE.items() if lane.kind is Kind.NOISE)

_Choices = tuple[tuple[tuple[str, ...], tuple[tuple[object, ...], ...]], ...]
"""Parts of a configuration, with what they may be together, simplest first."""

_ACCIDENTS = ("slow_of_1000", "answer_lost_of_1000", "repeated_of_1000")
_OFTEN = 200
"""Accidents that can happen at all shall happen often: a failure that needs one takes less luck then, and is found
again in a smaller world. What of them is not needed goes with the noise, where zero means that nothing happens."""

_LIKELY: _Choices = tuple(((name,), ((_OFTEN,),)) for name in _ACCIDENTS)
_SIMPLER: _Choices = (
    (("squeeze",), ((False,), (True,))),
    (("duration_ms",), tuple((seconds * 1_000,) for seconds in (5, 8, 12, 20, 30, 45, 60))),
    (("operations",), tuple((count,) for count in (1, 2, 3, 5, 10, 20, 50, 100, 200))),
    (("polls",), tuple((count,) for count in (1, 2, 5, 10, 20, 50, 100, 200))),
    (("producers",), ((1,), (2,), (3,))),
    (("readers",), ((1,), (2,))),
    (("partitions",), ((1,), (2,))),
    (("controllers",), ((1,), (3,))),
    (("combined",), ((False,), (True,))),
    (("brokers", "replication_factor"), ((2, 2), (3, 3), (4, 3))),
    (("flush_messages", "flush_ms"), ((0, 0),)),
    (("metadata_snapshot_records",), ((5_000,),)),
    (("metadata_fetch_bytes",), ((8 << 20,),)),
    (("lag_ms",), ((4_000,),)),
    (("retries",), ((False,), (True,))),
    (("idempotence",), ((False,), (True,))),
    *(((name,), ((0,),)) for name in _ACCIDENTS),
)
"""The other parts of the configuration that may be simplified."""


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

    @property
    def is_sudden(self) -> bool:
        """Whether the simulation ends when it happens."""
        return self.layer in (Layer.INVARIANT, Layer.CRASH)

    def found(self, outcome: SimulationOutcome) -> Finding | None:
        """The finding, if this is what happened."""
        if self.layer in (Layer.LOGS, Layer.HISTORY):
            named = (one for one in findings(outcome) if (one.layer, one.property_id) == self)
            return next(named, None)
        if outcome.failed_property != self.property_id or outcome.failure is None:
            return None
        return Finding(self.layer, self.property_id, outcome.failure)


class Scale(NamedTuple):
    """What the numbers of the lanes for the configuration stand for."""

    origin: Configuration
    choices: Mapping[str, _Choices]

    def configuration(self, lanes: Lanes) -> Configuration:
        """The configuration with these places."""
        data = dict(vars(self.origin))
        for lane, choices in self.choices.items():
            for (names, values), index in zip(choices, lanes[lane], strict=True):
                if index < len(values):
                    data.update(zip(names, values[index], strict=True))
        return Configuration(**data)


def scale_of(configuration: Configuration) -> tuple[Scale, dict[str, tuple[int, ...]]]:
    """How a configuration can be simplified, and its own lanes: their places are one beyond what is simpler."""
    likely = tuple((names, values if getattr(configuration, *names) else ()) for names, values in _LIKELY)
    choices = {"luck": likely, "configuration": _simpler_than(configuration)}
    indexes = {lane: tuple(len(values) for _, values in parts) for lane, parts in choices.items()}
    return Scale(configuration, choices), indexes


def _simpler_than(configuration: Configuration) -> _Choices:
    found = []
    for names, values in _SIMPLER:
        own = tuple(getattr(configuration, name) for name in names)
        found.append((names, values[: values.index(own)] if own in values else values))
    return tuple(found)


class Shrunk(NamedTuple):
    """The end of a reduction."""

    choice_file: ChoiceFile
    steps: int
    """Steps of a model from the moment when the cluster was whole to the violation."""
    tried: int


class _Task(NamedTuple):
    position: int
    candidate: Candidate
    limit_ms: int | None


class _Hit(NamedTuple):
    lanes: Lanes
    virtual_ms: int


class _Patience:
    """An observer that ends what has run so long that it is no simplification."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_us = limit_ms * MS

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        if cluster.now_us > self._limit_us:
            raise Violation("patience", "expected a failure sooner")

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""


def failing(case: Case) -> tuple[SimulationOutcome, Finding | None]:
    """Simulate a case; its first finding is what is to be preserved."""
    outcome = cases.run(case, watchers(), to_the_end=True)
    found = findings(outcome)
    return outcome, found[0] if found else None


def reduce(
    outcome: SimulationOutcome,
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
    scale, indexes = scale_of(outcome.configuration)
    begin: dict[str, tuple[int, ...]] = {
        **indexes,
        "schedule": tuple(number for fault in sorted(outcome.faults, key=_at_ms) for number in _row(fault)),
        **{name: tuple(outcome.values[name]) for name in _NOISE},
    }
    start = _cut_short(scale, begin, target)
    start = _by_one_fault(scale, start.lanes, target) or start
    tried = 0
    best_ms = start.virtual_ms
    hits: dict[int, _Hit] = {}

    def limit_ms() -> int | None:
        return best_ms + _GRACE_MS if target.is_sudden else None

    with Pool[_Task, _Hit | None](partial(_attempt, scale=scale, target=target), jobs) as pool:

        def test(candidates: Iterable[Candidate]) -> tuple[int, Lanes] | None:
            nonlocal tried
            hits.clear()
            tasks = (_Task(index, candidate, limit_ms()) for index, candidate in enumerate(candidates))
            for done in pool.run(takewhile(lambda _: not hits, tasks)):
                tried += 1
                if done.result is not None:
                    hits[done.task.position] = done.result
            return (min(hits), hits[min(hits)].lanes) if hits else None

        def better(lanes: Lanes) -> None:
            nonlocal best_ms
            best_ms = min(best_ms, hits[min(hits)].virtual_ms)
            told(tried, lanes)

        best = Shrinker(SHAPE, test, stopped=stopped, told=better).run(start.lanes)
    return _finished(scale, best, target, outcome.seed, tried)


def _cut_short(scale: Scale, lanes: Lanes, target: Target) -> _Hit:
    """A failure without the faults that come after it, and without the noise."""
    measured = _measured(scale, Candidate(lanes), target)
    if measured is None or not target.is_sudden:
        return measured or _Hit({**lanes, STORY: (0,)}, 0)
    width = SHAPE["schedule"].width
    schedule = lanes["schedule"]
    rows = [schedule[at : at + width] for at in range(0, len(schedule), width)]
    early = tuple(number for row in rows if row[0] + _EARLIEST_MS <= measured.virtual_ms for number in row)
    return _measured(scale, Candidate({**measured.lanes, "schedule": early}), target) or measured


def _by_one_fault(scale: Scale, lanes: Lanes, target: Target) -> _Hit | None:
    """A failure that takes no faults but those of the squeeze, by one like them that strikes early: a shorter story."""
    origin = scale.origin
    if not origin.squeeze or not target.is_sudden:
        return None
    if _measured(scale, Candidate({**lanes, "schedule": ()}), target) is None:
        return None
    parts = zip(scale.choices["configuration"], lanes["configuration"], strict=True)
    calm = {**lanes, "configuration": tuple(0 if names == ("squeeze",) else index for (names, _), index in parts)}
    for kind in _AS_IN_THE_SOLE_SURVIVOR_PHASE:
        for broker in range(origin.brokers):
            row = _row(Fault(_EARLY_MS, kind, broker, _BRIEF_MS, 0))
            hit = _measured(scale, Candidate({**calm, "schedule": row}), target)
            if hit is not None:
                return hit
    return None


def case_of(scale: Scale, candidate: Candidate) -> Case:
    """The simulation that lanes stand for."""
    lanes = candidate.lanes
    schedule = lanes["schedule"]
    width = SHAPE["schedule"].width
    faults = tuple(_fault(schedule[at : at + width]) for at in range(0, len(schedule), width))
    configuration = scale.configuration(lanes)
    streams = {name: lanes[name] for name in _NOISE if name in lanes}
    kinds = tuple(kind for kind in FAULTS if any(fault.kind == kind for fault in faults))
    return Case(None, {**vars(configuration), "faults": kinds}, streams, faults, candidate.refill)


def _attempt(task: _Task, scale: Scale, target: Target) -> _Hit | None:
    observers = watchers() if target.observed else ()
    patience = () if task.limit_ms is None else (_Patience(task.limit_ms),)
    if target.found(cases.run(case_of(scale, task.candidate), (*observers, *patience))) is None:
        return None
    hit = _measured(scale, task.candidate, target)
    below = task.candidate.below
    return hit if hit is None or below is None or hit.lanes[STORY] < below else None


def _measured(scale: Scale, candidate: Candidate, target: Target) -> _Hit | None:
    """Simulate a candidate once more: what was drawn, and how long its story is. None if it does not fail."""
    steps = ModelSteps()
    outcome = cases.run(case_of(scale, candidate), watchers() if target.observed else (), (steps,))
    if target.found(outcome) is None:
        return None
    story_steps = steps.after_time(outcome.phases.get("set-up", (0, 0))[1])
    drawn = {name: tuple(outcome.values[name]) for name in _NOISE}
    return _Hit({**candidate.lanes, **drawn, STORY: (story_steps,)}, outcome.virtual_ms)


def _finished(scale: Scale, lanes: Lanes, target: Target, seed: int | None, tried: int) -> Shrunk:
    narrator = Narrator()
    case = case_of(scale, Candidate(lanes))
    outcome = cases.run(case, watchers() if target.observed else (), (narrator,), keep_notes=True)
    outcome.seed = seed
    found = target.found(outcome)
    assert found is not None, "what fails once fails always"
    lines = without_repetitions(from_first_cause(relevant(story(narrator, outcome.history, outcome.notes))))
    happens = [*(str(line) for line in lines), f"VIOLATION of {found}"]
    return Shrunk(choice_file_of(outcome, [found], happens), lanes[STORY][0], tried)


def from_first_cause(lines: Sequence[Line]) -> Sequence[Line]:
    """A story without how the cluster came up: earlier faults, and all from the first send or fault after that."""
    up = next((index for index, line in enumerate(lines) if " leads in epoch 0" in line.text), 0)
    faults = [line for line in lines[:up] if line.node_id == NOBODY]
    for index in range(up, len(lines)):
        if lines[index].text.startswith("Produce ") or lines[index].node_id == NOBODY:
            return [*faults, *lines[index:]]
    return lines


def _at_ms(fault: Fault) -> int:
    return fault.at_ms


def _row(fault: Fault) -> tuple[int, ...]:
    at_ms = max(0, fault.at_ms - _EARLIEST_MS)
    return (at_ms, FAULTS.index(fault.kind), fault.target, fault.duration_ms, fault.parameter)


def _fault(row: Sequence[int]) -> Fault:
    at_ms, kind, target, duration_ms, parameter = row
    return Fault(_EARLIEST_MS + at_ms, FAULTS[kind], target, duration_ms, parameter)
