"""Reduces a failing simulation: maps it to lanes for the shrinker, and tests whether a candidate still fails.

Lanes, most important first: how likely accidents are, the configuration (each setting of both by its index among
simpler values), the schedule (one row per fault), the length of the trace (`model_steps`), the workload, the network,
the disk, the groups, the topics.

The faults after the violation are removed first. After that no candidate runs much longer than the best one so far.
None handles many more events than the original failure did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from simulation.engine.cluster import NOBODY, EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.invariants.observer import property_observers
from simulation.invariants.properties import Violation
from simulation.runs.choice_files import ChoiceFile
from simulation.runs.failures import Layer, SimulationFinding, findings
from simulation.runs.pool import Pool
from simulation.runs.stored import choice_file_of, relevant
from simulation.runs.trace import Line, TraceRecorder, trace_lines, without_repetitions
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.configuration import EXAMINATIONS, FAULTS, Configuration, SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.shrinking.model_steps import ModelSteps
from simulation.shrinking.shrinker import Candidate, Lane, LaneKind, Lanes, Shrinker

_NUMBERS = ("at_ms", "kind", "target", "duration_ms", "parameter")
"""The numbers of a fault: its time since `_EARLIEST_MS`, the index of its kind among all kinds, …"""

_EARLIEST_MS = 2_000
"""The earliest time of a drawn fault; before it the cluster is set up."""

GRACE_MS = 5_000
"""A candidate may run this much longer than the best one so far."""

EVENTS_TIMES, EVENTS_MIN = 5, 20_000
"""A candidate may handle so many times the events of the original failure, and so many in any case: without delays of
the network a simulation can be busy for long without getting anywhere."""

PATIENCE = "patience"
"""What a simulation breaks that has run too long to be a simplification."""

_AS_IN_THE_SOLE_SURVIVOR_PHASE = ("kill", "restart")
"""Kinds of fault that replace what the sole-survivor phase does to all brokers in turn."""

_EARLY_MS, _BRIEF_MS = 7_000, 5_000
"""When such a fault strikes (the cluster is up then), and for how long."""

STORY = "story"
"""The measured lane: steps from the end of set-up to the violation."""

SHAPE: Mapping[str, Lane] = {
    "luck": Lane(LaneKind.FIXED),
    "configuration": Lane(LaneKind.FIXED),
    "schedule": Lane(LaneKind.ROWS, len(_NUMBERS), timed=True),
    STORY: Lane(LaneKind.MEASURED),
    "workload": Lane(LaneKind.NOISE),
    "network": Lane(LaneKind.NOISE),
    "disk": Lane(LaneKind.NOISE),
    "names": Lane(LaneKind.NOISE),
    "groups": Lane(LaneKind.NOISE),
    "questions": Lane(LaneKind.NOISE),
    "topics": Lane(LaneKind.NOISE),
    "settings": Lane(LaneKind.NOISE),
    "zookeeper": Lane(LaneKind.NOISE),
    "directories": Lane(LaneKind.NOISE),
    "traffic": Lane(LaneKind.NOISE),
    "examination": Lane(LaneKind.NOISE),
    "compaction": Lane(LaneKind.NOISE),
    "balancing": Lane(LaneKind.NOISE),
    "racks": Lane(LaneKind.NOISE),
    "recipes": Lane(LaneKind.NOISE),
}

NOISE = tuple(name for name, lane in SHAPE.items() if lane.kind is LaneKind.NOISE)
"""The lanes whose numbers decide nothing but accidents and what the clients happen to do."""

_Choices = tuple[tuple[tuple[str, ...], tuple[tuple[object, ...], ...]], ...]
"""Groups of settings, with the values that they may have together, simplest first."""

_ACCIDENTS = ("slow_of_1000", "answer_lost_of_1000", "repeated_of_1000")
_OFTEN = 200
"""Accidents that can happen at all are made frequent: a failure that needs one is then found again with less luck, in a
smaller configuration. Those that are not needed disappear with the noise, where zero means that nothing happens."""

_LIKELY: _Choices = tuple(((name,), ((_OFTEN,),)) for name in _ACCIDENTS)
_SIMPLER: _Choices = (
    (("examination",), (("",), *((kind,) for kind in EXAMINATIONS))),
    (("sole_survivor",), ((False,), (True,))),
    (("duration_ms",), tuple((seconds * 1_000,) for seconds in (5, 8, 12, 20, 30, 45, 60))),
    (("operations",), tuple((count,) for count in (1, 2, 3, 5, 10, 20, 50, 100, 200))),
    (("polls",), tuple((count,) for count in (1, 2, 5, 10, 20, 50, 100, 200))),
    (("producers",), ((1,), (2,), (3,))),
    (("readers",), ((1,), (2,))),
    (("partitions",), ((1,), (2,))),
    (("group_members",), ((0,), (1,), (2,), (3,))),
    (("static_members",), ((False,), (True,))),
    (("side_topics",), ((False,), (True,))),
    (("keyed_topic",), ((False,), (True,))),
    (("racks",), ((0,),)),
    (("changing_settings",), ((False,), (True,))),
    (("controllers",), ((1,), (3,))),
    (("combined",), ((False,), (True,))),
    (("brokers", "replication_factor"), ((2, 2), (3, 3), (4, 3))),
    (("log_directories",), ((1,), (2,))),
    (("fetch_bytes",), ((0,), (2_000,), (500,))),
    (("flush_messages", "flush_ms"), ((0, 0),)),
    (("metadata_snapshot_records",), ((5_000,),)),
    (("metadata_fetch_bytes",), ((8 << 20,),)),
    (("lag_ms",), ((4_000,),)),
    (("segment_bytes", "index_interval_bytes"), ((0, 4_096),)),
    (("in_flight",), ((1,), (2,), (5,))),
    (("retention_ms", "retention_bytes"), ((0, 0),)),
    (("log_append_time",), ((False,), (True,))),
    (("clock_error_ms",), ((0,),)),
    (("producer_expiration_ms",), ((0,),)),
    (("retries",), ((False,), (True,))),
    (("idempotence",), ((False,), (True,))),
    *(((name,), ((0,),)) for name in _ACCIDENTS),
)
"""The other settings that may be simplified."""


class CannotShrink(ValueError):
    """A failure that cannot be represented as lists of numbers. One line."""


class ShrinkTarget(NamedTuple):
    """The finding to preserve: the first violation of an observer, or a finding from final logs or history."""

    layer: Layer
    property_id: str

    @property
    def observed(self) -> bool:
        """Whether the observers are needed to find it: they also see what makes no progress during the faults."""
        return self.layer in (Layer.INVARIANT, Layer.LIVENESS)

    @property
    def is_sudden(self) -> bool:
        """Whether the simulation ends when it happens."""
        return self.layer in (Layer.INVARIANT, Layer.CRASH)

    def found(self, outcome: SimulationOutcome) -> SimulationFinding | None:
        """The finding, if an outcome has it."""
        if self.layer in (Layer.LOGS, Layer.HISTORY):
            named = (one for one in findings(outcome) if (one.layer, one.property_id) == self)
            return next(named, None)
        if outcome.failed_property != self.property_id or outcome.failure is None:
            return None
        return SimulationFinding(self.layer, self.property_id, outcome.failure)


class Scale(NamedTuple):
    """The meaning of the numbers in the lanes for the configuration."""

    origin: Configuration
    choices: Mapping[str, _Choices]

    def configuration(self, lanes: Lanes) -> Configuration:
        """The configuration for the indexes in these lanes."""
        data = dict(vars(self.origin))
        for lane, choices in self.choices.items():
            for (names, values), index in zip(choices, lanes[lane], strict=True):
                if index < len(values):
                    data.update(zip(names, values[index], strict=True))
        return Configuration(**data)


def scale_of(configuration: Configuration) -> tuple[Scale, dict[str, tuple[int, ...]]]:
    """How a configuration can be simplified, and its own lanes: each index is one beyond the simpler values."""
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
    """The result of a reduction."""

    choice_file: ChoiceFile
    steps: int
    """Steps of a model from the end of set-up to the violation."""
    tried: int


class _Task(NamedTuple):
    position: int
    candidate: Candidate
    limit_ms: int | None
    events_max: int


class _Hit(NamedTuple):
    lanes: Lanes
    virtual_ms: int


class Patience:
    """An observer that ends a simulation that has run too long to be a simplification."""

    def __init__(self, limit_ms: int | None, events_max: int) -> None:
        self._limit_us = None if limit_ms is None else limit_ms * MS
        self._events_left = events_max

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        self._events_left -= 1
        if self._events_left < 0 or (self._limit_us is not None and cluster.now_us > self._limit_us):
            raise Violation(PATIENCE, "expected a failure sooner")

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""


def failing(case: Case) -> tuple[SimulationOutcome, SimulationFinding | None]:
    """Simulate a case; returns the outcome and its first finding, which is to be preserved."""
    outcome = cases.run(case, property_observers(), to_the_end=True)
    found = findings(outcome)
    return outcome, found[0] if found else None


def reduce(
    outcome: SimulationOutcome,
    target: ShrinkTarget,
    jobs: int,
    *,
    stopped: Callable[[], bool] = lambda: False,
    on_better: Callable[[int, Lanes], None] = lambda *_: None,
) -> Shrunk:
    """Shrink an outcome's choices to ones that still break the target's property, until they are minimal or stopped.

    Raises `CannotShrink` for faults that wait for a condition.
    """
    if any(fault.when is not None for fault in outcome.faults):
        raise CannotShrink("expected faults at given times, found one that waits for a condition")
    scale, indexes = scale_of(outcome.configuration)
    begin: dict[str, tuple[int, ...]] = {
        **indexes,
        "schedule": tuple(number for fault in sorted(outcome.faults, key=_at_ms) for number in _row(fault)),
        **{name: tuple(outcome.values[name]) for name in NOISE},
    }
    start = _cut_short(scale, begin, target)
    start = _by_one_fault(scale, start.lanes, target) or start
    tried = 0
    best_ms = start.virtual_ms
    events_max = max(EVENTS_MIN, EVENTS_TIMES * outcome.events)
    hits: dict[int, _Hit] = {}

    def limit_ms() -> int | None:
        return best_ms + GRACE_MS if target.is_sudden else None

    with Pool[_Task, _Hit | None](partial(_attempt, scale=scale, target=target), jobs) as pool:

        def test(candidates: Iterable[Candidate]) -> tuple[int, Lanes] | None:
            nonlocal tried
            hits.clear()
            tasks = (_Task(index, candidate, limit_ms(), events_max) for index, candidate in enumerate(candidates))
            for done in pool.run(takewhile(lambda _: not hits, tasks)):
                tried += 1
                if done.result is not None:
                    hits[done.task.position] = done.result
            return (min(hits), hits[min(hits)].lanes) if hits else None

        def better(lanes: Lanes) -> None:
            nonlocal best_ms
            best_ms = min(best_ms, hits[min(hits)].virtual_ms)
            on_better(tried, lanes)

        best = Shrinker(SHAPE, test, stopped=stopped, on_better=better).run(start.lanes)
    return _finished(scale, best, target, outcome.seed, tried)


def _cut_short(scale: Scale, lanes: Lanes, target: ShrinkTarget) -> _Hit:
    """A failure without the faults that come after it."""
    measured = _measured(scale, Candidate(lanes), target)
    if measured is None or not target.is_sudden:
        return measured or _Hit({**lanes, STORY: (0,)}, 0)
    width = SHAPE["schedule"].width
    schedule = lanes["schedule"]
    rows = [schedule[at : at + width] for at in range(0, len(schedule), width)]
    early = tuple(number for row in rows if row[0] + _EARLIEST_MS <= measured.virtual_ms for number in row)
    return _measured(scale, Candidate({**measured.lanes, "schedule": early}), target) or measured


def _by_one_fault(scale: Scale, lanes: Lanes, target: ShrinkTarget) -> _Hit | None:
    """Replace the sole-survivor phase by one early fault, if the failure needs no other faults: a shorter trace."""
    origin = scale.origin
    if not origin.sole_survivor or not target.is_sudden:
        return None
    if _measured(scale, Candidate({**lanes, "schedule": ()}), target) is None:
        return None
    parts = zip(scale.choices["configuration"], lanes["configuration"], strict=True)
    calm = {**lanes, "configuration": tuple(0 if names == ("sole_survivor",) else index for (names, _), index in parts)}
    for kind in _AS_IN_THE_SOLE_SURVIVOR_PHASE:
        for broker in range(origin.brokers):
            row = _row(SimulatedFault(_EARLY_MS, kind, broker, _BRIEF_MS, 0))
            hit = _measured(scale, Candidate({**calm, "schedule": row}), target)
            if hit is not None:
                return hit
    return None


def case_of(scale: Scale, candidate: Candidate) -> Case:
    """The simulation that the lanes represent."""
    lanes = candidate.lanes
    schedule = lanes["schedule"]
    width = SHAPE["schedule"].width
    faults = tuple(_fault(schedule[at : at + width]) for at in range(0, len(schedule), width))
    configuration = scale.configuration(lanes)
    streams = {name: lanes[name] for name in NOISE if name in lanes}
    kinds = tuple(kind for kind in FAULTS if any(fault.kind == kind for fault in faults))
    return Case(None, {**vars(configuration), "faults": kinds}, streams, faults, candidate.refill)


def _attempt(task: _Task, scale: Scale, target: ShrinkTarget) -> _Hit | None:
    observers = property_observers() if target.observed else ()
    patience = Patience(task.limit_ms, task.events_max)
    if target.found(cases.run(case_of(scale, task.candidate), (*observers, patience))) is None:
        return None
    hit = _measured(scale, task.candidate, target)
    below = task.candidate.below
    return hit if hit is None or below is None or hit.lanes[STORY] < below else None


def _measured(scale: Scale, candidate: Candidate, target: ShrinkTarget) -> _Hit | None:
    """Simulate a candidate once more: what was drawn, and the length of its trace. None if it does not fail."""
    steps = ModelSteps()
    outcome = cases.run(case_of(scale, candidate), property_observers() if target.observed else (), (steps,))
    if target.found(outcome) is None:
        return None
    story_steps = steps.after_time(outcome.phases.get("set-up", (0, 0))[1])
    drawn = {name: tuple(outcome.values[name]) for name in NOISE}
    return _Hit({**candidate.lanes, **drawn, STORY: (story_steps,)}, outcome.virtual_ms)


def _finished(scale: Scale, lanes: Lanes, target: ShrinkTarget, seed: int | None, tried: int) -> Shrunk:
    recorder = TraceRecorder()
    case = case_of(scale, Candidate(lanes))
    outcome = cases.run(case, property_observers() if target.observed else (), (recorder,), keep_log=True)
    outcome.seed = seed
    found = target.found(outcome)
    assert found is not None, "what fails once fails always"
    lines = without_repetitions(from_first_cause(relevant(trace_lines(recorder, outcome.history, outcome.log_entries))))
    happens = [*(str(line) for line in lines), f"VIOLATION of {found}"]
    return Shrunk(choice_file_of(outcome, [found], happens), lanes[STORY][0], tried)


def from_first_cause(lines: Sequence[Line]) -> Sequence[Line]:
    """A trace without the set-up: earlier faults, and all lines from the first send or fault after set-up."""
    up = next((index for index, line in enumerate(lines) if " leads in epoch 0" in line.text), 0)
    faults = [line for line in lines[:up] if line.node_id == NOBODY]
    for index in range(up, len(lines)):
        if lines[index].text.startswith("Produce ") or lines[index].node_id == NOBODY:
            return [*faults, *lines[index:]]
    return lines


def _at_ms(fault: SimulatedFault) -> int:
    return fault.at_ms


def _row(fault: SimulatedFault) -> tuple[int, ...]:
    at_ms = max(0, fault.at_ms - _EARLIEST_MS)
    return (at_ms, FAULTS.index(fault.kind), fault.target, fault.duration_ms, fault.parameter)


def _fault(row: Sequence[int]) -> SimulatedFault:
    at_ms, kind, target, duration_ms, parameter = row
    return SimulatedFault(_EARLIEST_MS + at_ms, FAULTS[kind], target, duration_ms, parameter)
