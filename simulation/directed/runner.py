"""Runs a directed schedule, with or without its flaw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from broker.core.rules.flaws import FLAWS
from simulation.directed.files import DirectedSchedule, DirectedScheduleError, load
from simulation.directed.stage import StepExecutor
from simulation.engine.cluster import NodeCrashed, Observer, SimulatedCluster, fingerprint
from simulation.engine.event_queue import MS
from simulation.invariants.observer import FirstViolation, property_observers
from simulation.invariants.properties import Violation, not_judged
from simulation.runs.failures import Layer, SimulationFinding, findings
from simulation.scenario.phases import CRASH, SimulationOutcome
from simulation.workload.sampling import replica_logs


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """The result of a schedule; findings are in the order in which they were made."""

    schedule: DirectedSchedule
    flawed: bool
    findings: tuple[SimulationFinding, ...]
    outcome: SimulationOutcome
    clients_know: bool
    """Whether the clients' history alone shows that something is wrong."""

    @property
    def failed(self) -> bool:
        """Whether the build has shown any failure."""
        return bool(self.findings)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that have found something."""
        return tuple(dict.fromkeys(finding.layer.value for finding in self.findings))


def play_schedule(
    path: Path,
    *,
    flawed: bool,
    also: Sequence[str] = (),
    keep_log: bool = False,
    recorders: Sequence[Observer] = (),
    generation: str = "",
) -> ScheduleResult:
    """Run a schedule file, with the flaws `also` in both builds. Recorders only record.

    `generation`: another protocol version than the file's, as it is, without any of the file's flaws.

    Raises `DirectedScheduleError` if a step is impossible and nothing was found before it.
    """
    schedule = load(path)
    if generation:
        schedule = replace(schedule, generation=generation, flaws=(), masks=())
    flaws = (*schedule.masks, *also, *(schedule.flaws if flawed else ()))
    lacking = frozenset(broken for name in schedule.masks for broken in FLAWS[name].properties)
    watch = FirstViolation(property_observers(lacking))
    stage = StepExecutor(schedule, flaws, (*recorders, watch), keep_log=keep_log)
    phases = _Phases(stage.cluster)
    failure = failed_property = None
    impossible: DirectedScheduleError | None = None
    try:
        stage.set_up()
        phases.ended("set-up")
        for step in schedule.steps:
            stage.perform(step)
        phases.ended("main")
        if schedule.whole:
            stage.recover()
            phases.ended("recovery")
            stage.read_all()
            phases.ended("final")
        else:
            stage.client.give_up(stage.cluster)
    except Violation as violation:
        failure, failed_property = str(violation), violation.property_id
    except NodeCrashed as crash:
        failure, failed_property = str(crash), CRASH
    except DirectedScheduleError as error:
        impossible = error
    except Exception as error:
        unjudged = not_judged(error, f"at {stage.cluster.now_us // MS} ms")
        failure, failed_property = str(unjudged), unjudged.property_id
    outcome = _outcome(stage, failure, failed_property, phases.ended_us)
    found = _findings(watch.violation, outcome)
    if impossible is not None and not found:
        raise impossible
    clients_know = stage.clients_know or any(finding.layer is Layer.HISTORY for finding in found)
    return ScheduleResult(schedule, flawed, tuple(found), outcome, clients_know)


class _Phases:
    """Start and end of each phase that has ended, in microseconds."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.ended_us: dict[str, tuple[int, int]] = {}
        self._cluster = cluster
        self._since_us = cluster.now_us

    def ended(self, name: str) -> None:
        """End this phase and begin the next one."""
        self.ended_us[name] = self._since_us, self._cluster.now_us
        self._since_us = self._cluster.now_us


def _findings(seen: Violation | None, outcome: SimulationOutcome) -> list[SimulationFinding]:
    found = findings(outcome)
    if seen is not None:
        watched = replace(outcome, failure=str(seen), failed_property=seen.property_id, phases={})
        found = findings(watched) + found
    return found


def _outcome(
    stage: StepExecutor, failure: str | None, failed_property: str | None, phases: dict[str, tuple[int, int]]
) -> SimulationOutcome:
    digest, events = fingerprint(stage.cluster)
    no_faults: Sequence[object] = ()
    return SimulationOutcome(
        seed=None,
        configuration=stage.configuration,
        faults=no_faults,  # type: ignore[arg-type]
        digest=digest,
        events=events,
        virtual_ms=stage.cluster.now_us // MS,
        failure=failure,
        failed_property=failed_property,
        history=stage.history,
        ends=stage.ends,
        marks=stage.cluster.marks,
        values=stage.choices.values(),
        logs=replica_logs(stage.cluster),
        phases=phases,
        log_entries=stage.cluster.log_entries or (),
        deleted=stage.deleted,
    )
