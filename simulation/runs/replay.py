"""Replays a stored simulation and compares it event by event."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from simulation.engine.event_log import Difference, EventStream, first_difference
from simulation.invariants.watchers import watchers
from simulation.runs import choice_files, stored
from simulation.runs.findings import Finding, findings
from simulation.scenario import case as cases
from simulation.scenario.case import Case


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay."""

    digest: str
    stored_digest: str
    difference: Difference | None
    """The first event that differs from the stored ones."""
    findings: tuple[Finding, ...]

    @property
    def equal(self) -> bool:
        """Whether the replay was identical."""
        return self.digest == self.stored_digest and self.difference is None


def replay_run(directory: Path) -> ReplayResult:
    """Simulate a stored run again from its choice file, and compare."""
    choice_file = choice_files.load(choice_files.file_in(directory))
    stream = EventStream()
    outcome = cases.run(choice_file.case(), watchers(), (stream,), to_the_end=True)
    difference = first_difference(stored.read_moments(directory), stream.moments)
    return ReplayResult(outcome.digest, choice_file.digest, difference, tuple(findings(outcome)))


def differing_event(case: Case, attempts: int = 2) -> Difference | None:
    """Simulate a case several times in this process; returns the first event that differs."""
    streams = []
    for _ in range(attempts):
        stream = EventStream()
        cases.run(case, (), (stream,))
        streams.append(stream.moments)
    found = (first_difference(streams[0], other) for other in streams[1:])
    return next((difference for difference in found if difference is not None), None)
