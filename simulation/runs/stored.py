"""Stores simulated runs (choice file, findings, events, trace, history), and replays them event by event.

| file | what |
|---|---|
| `spec.json` | the simulated configuration, with the command that repeats it |
| `choices.json` | all that is needed to repeat the simulation (`choice_files`) |
| `outcome.json` | hash, findings, marks |
| `events.parquet` | every event, to find the first that differs in a replay |
| `needed.json` | which faults the failure needs (`simulation.shrinking.needed`), if that was tried |
| `story.json` | the transitions that led to the failure, with causes and states, for the message chart |
| `history/` | the clients' history, and the final logs of the replicas |
"""

from __future__ import annotations

import json
import shlex
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from broker.core.rules.flaws import FLAWS
from incidents import diagnose, needed
from incidents.evidence import Evidence
from incidents.needed import Needed
from simulation.directed.files import schedule_name
from simulation.directed.runner import ScheduleResult, play_schedule
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.invariants.observer import property_observers
from simulation.runs import choice_files
from simulation.runs.choice_files import FILE_NAME, ChoiceFile
from simulation.runs.failures import SimulationFinding, findings
from simulation.runs.story import StoryRecorder, story_of
from simulation.runs.trace import US_PER_S, Line, node_name, trace_lines
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.overrides import repeat_command
from simulation.scenario.phases import SimulationOutcome
from simulation.workload import tables
from simulation.workload.recording import FaultRow
from simulation.workload.sampling import ReplicaSampler

DETAIL_CHARACTERS = 160


class LoggedEvent(NamedTuple):
    """One event that a node handled. `content` is a checksum over the event and its effects."""

    at_us: int
    node_id: int
    kind: str
    detail: str
    content: int

    def __str__(self) -> str:
        return f"{self.at_us / US_PER_S:.6f} s {node_name(self.node_id)} {self.kind} {self.detail}"


class Difference(NamedTuple):
    """The first event in which two simulations differ; None on a side that had ended."""

    number: int
    one: LoggedEvent | None
    other: LoggedEvent | None

    def __str__(self) -> str:
        if self.one is not None and self.other is not None and self.one[:4] == self.other[:4]:
            return f"event {self.number}, {self.one}: the same event with different effects"
        return f"event {self.number}: {self.one or 'the end'}, and then {self.other or 'the end'}"


class EventStream:
    """An observer that records every event."""

    def __init__(self) -> None:
        self.moments: list[LoggedEvent] = []

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        event = repr(step.event)
        content = zlib.crc32(f"{event}{step.effects!r}".encode())
        kind = type(step.event).__name__
        detail = event.removeprefix(kind)[:DETAIL_CHARACTERS]
        self.moments.append(LoggedEvent(cluster.now_us, step.node_id, kind, detail, content))

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""
        self.moments.append(LoggedEvent(cluster.now_us, node_id, "crash", f"lost {lost_bytes}", 0))


def first_difference(one: Iterable[LoggedEvent], other: Iterable[LoggedEvent]) -> Difference | None:
    """Compare two streams."""
    for number, (left, right) in enumerate(_pairs(one, other)):
        if left != right:
            return Difference(number, left, right)
    return None


def _pairs(
    one: Iterable[LoggedEvent], other: Iterable[LoggedEvent]
) -> Iterator[tuple[LoggedEvent | None, LoggedEvent | None]]:
    return zip_longest(one, other)


TRACE_LINES = 400
"""The number of lines at the end of a trace that are stored."""

NAME = "simulation"
"""The name of simulated runs in the store."""

_MOMENTS = pa.schema(
    [
        ("at_us", pa.int64()),
        ("node_id", pa.int32()),
        ("kind", pa.string()),
        ("detail", pa.string()),
        ("content", pa.int64()),
    ]
)


def store(
    directory: Path,
    case: Case,
    *,
    observed: bool = True,
    needs: Callable[[SimulationOutcome, SimulationFinding], Needed] | None = None,
) -> Sequence[SimulationFinding]:
    """Simulate a case and write its run into an empty directory, with what `needs` tells of its first finding.

    Returns the findings.
    """
    recorder, sampler, stream = StoryRecorder(), ReplicaSampler(), EventStream()
    observers = property_observers() if observed else ()
    outcome = cases.run(case, observers, (stream, recorder, sampler), to_the_end=True, keep_log=True)
    found = findings(outcome)
    run_id = directory.name
    _write_json(directory / "spec.json", _specification(directory, case, outcome))
    _write_json(directory / "schedule.json", [fault.to_json() for fault in outcome.faults])
    _write_json(directory / "outcome.json", _outcome_data(outcome, found, observed))
    (directory / FILE_NAME).write_text(choice_file_of(outcome, found).dumps(), encoding="utf-8")
    _write_moments(directory / "events.parquet", stream.moments)
    story = story_of(recorder, outcome.history, outcome.log_entries or ())
    _write_json(directory / "story.json", story)
    tables.write(directory, "0", [tables.Recorded(run_id, NAME, outcome, sampler.samples)])
    if needs is not None and found:
        needed.write(directory, needs(outcome, found[0]))
    write_results(directory, run_id, found)
    return found


def choice_file_of(
    outcome: SimulationOutcome, found: Sequence[SimulationFinding], happens: Sequence[str] = ()
) -> ChoiceFile:
    """The choice file of an outcome."""
    first = found[0] if found else None
    return ChoiceFile(
        outcome.seed,
        outcome.configuration,
        tuple(outcome.faults),
        {name: values for name, values in outcome.values.items() if name not in ("configuration", "schedule")},
        first.property_id if first else None,
        first.what if first else None,
        outcome.digest,
        tuple(happens),
    )


def relevant(lines: Sequence[Line]) -> Sequence[Line]:
    """The part of a trace that leads to the violation, or else to its end."""
    end = next((index for index, line in enumerate(lines) if line.text.startswith("VIOLATION")), len(lines))
    shown = [line for line in lines[: end + 1] if line.text != "Fetch: metadata"]
    return shown[-TRACE_LINES:]


def write_results(directory: Path, run_id: str, found: Sequence[SimulationFinding]) -> None:
    """Write the simulation's findings into `results.json`: above those of the checkers, in the counts, as incidents."""
    path = directory / "results.json"
    results: dict[str, Any] = {"run_id": run_id, "verdict": "valid", "reasons": [], "anomalies": {}, "counts": {}}
    if path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))
    if found:
        results["verdict"] = "invalid"
        times: Counter[str] = Counter()
        for finding in Evidence(directory).findings:
            times[finding.property_id] += finding.number
        for name, number in times.items():
            numbers = results["anomalies"].setdefault(name, {"violations": 0, "within_contract": 0})
            if not numbers["violations"]:  # what the checkers excuse of it is none the less what the simulator found
                numbers["violations"], numbers["within_contract"] = numbers["within_contract"] or number, 0
        mine = [f"{finding.layer}: {finding}" for finding in found]
        results["reasons"] = [*mine, *(line for line in results["reasons"] if line not in mine)]
    totals = {name: (one["violations"], one["within_contract"]) for name, one in results["anomalies"].items()}
    results["incidents"] = [incident.to_json() for incident in diagnose(directory, totals)]
    _write_json(path, results)


def found_in(directory: Path) -> list[SimulationFinding]:
    """The findings of a stored run."""
    data = json.loads((directory / "outcome.json").read_text(encoding="utf-8"))
    return [SimulationFinding(**finding) for finding in data["findings"]]


def digest_in(directory: Path) -> str:
    """The hash of a stored run."""
    return str(json.loads((directory / "outcome.json").read_text(encoding="utf-8"))["hash"])


def read_moments(directory: Path) -> list[LoggedEvent]:
    """The events of a stored run."""
    with pq.ParquetFile(directory / "events.parquet") as file:
        columns = file.read().to_pydict()
    return [LoggedEvent(*row) for row in zip(*(columns[name] for name in _MOMENTS.names), strict=True)]


def _write_moments(path: Path, moments: Sequence[LoggedEvent]) -> None:
    columns = zip(*moments, strict=True)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, _MOMENTS, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=_MOMENTS), path, compression="zstd")


def _specification(directory: Path, case: Case, outcome: SimulationOutcome) -> Mapping[str, object]:
    configuration = outcome.configuration.to_json()
    kept = ("generation", "flaws", "brokers", "partitions", "replication_factor", "min_insync_replicas", "acks")
    return {
        "name": NAME,
        "environment": "simulation",
        "seed": outcome.seed,
        **{key: configuration[key] for key in kept},
        "flaw_summaries": {name: FLAWS[name].summary for name in outcome.configuration.flaws},
        "idempotence": outcome.configuration.idempotence,
        "reproduce": repeat_command(["sim", "--seed", str(outcome.seed)], case.overrides)
        if case.streams is None
        else shlex.join(["harrow", "sim", "--schedule", _seen_from_here(directory / FILE_NAME)]),
        "configuration": configuration,
    }


def _seen_from_here(path: Path) -> str:
    """The path of a file as somebody in the working directory types it, who may have it under another one."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else absolute)


def _outcome_data(
    outcome: SimulationOutcome, found: Sequence[SimulationFinding], observed: bool
) -> Mapping[str, object]:
    return {
        "seed": outcome.seed,
        "hash": outcome.digest,
        "events": outcome.events,
        "virtual_ms": outcome.virtual_ms,
        "observed": observed,
        "findings": [finding._asdict() for finding in found],
        "marks": dict(sorted(outcome.marks.items())),
    }


def _write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay."""

    digest: str
    stored_digest: str
    difference: Difference | None
    """The first event that differs from the stored ones."""
    findings: tuple[SimulationFinding, ...]

    @property
    def equal(self) -> bool:
        """Whether the replay was identical."""
        return self.digest == self.stored_digest and self.difference is None


def replay_run(directory: Path) -> ReplayResult:
    """Simulate a stored run again from its choice file, and compare."""
    choice_file = choice_files.load(choice_files.file_in(directory))
    stream = EventStream()
    outcome = cases.run(choice_file.case(), property_observers(), (stream,), to_the_end=True)
    difference = first_difference(read_moments(directory), stream.moments)
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


# --- directed schedules

_STEP = "step "
_DIES, _POWER_LOST, _STARTS = "dies", "loses power", "starts"
"""Lines of a trace about nodes that end and come back."""

SCHEDULE_NAME = "schedule"
"""The name of runs of directed schedules in the store."""


def store_schedule_run(directory: Path, path: Path, *, flawed: bool) -> ScheduleResult:
    """Play a schedule and write its run into an empty directory. Raises `DirectedScheduleError`."""
    recorder, sampler = StoryRecorder(), ReplicaSampler()
    result = play_schedule(path, flawed=flawed, keep_log=True, recorders=(recorder, sampler))
    outcome, run_id = result.outcome, directory.name
    configuration = outcome.configuration.to_json()
    kept = ("generation", "flaws", "brokers", "partitions", "replication_factor", "min_insync_replicas", "acks")
    specification = {
        "name": SCHEDULE_NAME,
        "title": result.schedule.title,
        "story": result.schedule.story,
        "environment": "simulation",
        "seed": 0,
        **{key: configuration[key] for key in kept},
        "flaw_summaries": {name: FLAWS[name].summary for name in outcome.configuration.flaws},
        "idempotence": False,
        "reproduce": shlex.join(["harrow", "sim", "--schedule", schedule_name(path)]),
        "configuration": configuration,
    }
    trace = trace_lines(recorder, outcome.history, outcome.log_entries)
    outcome.history.faults += _crashes(trace)
    story = story_of(recorder, outcome.history, outcome.log_entries or (), first_text=_STEP)
    for name, data in (
        ("spec.json", specification),
        ("schedule.json", []),
        ("story.json", story),
        ("outcome.json", {"hash": outcome.digest, "findings": [finding._asdict() for finding in result.findings]}),
    ):
        (directory / name).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    tables.write(directory, "0", [tables.Recorded(run_id, SCHEDULE_NAME, outcome, sampler.samples)])
    write_results(directory, run_id, result.findings)
    return result


def _crashes(lines: Sequence[Line]) -> list[FaultRow]:
    """The crashes that the steps of a schedule caused, as faults: each lasts until its node starts again."""
    rows: list[FaultRow] = []
    for line in lines:
        if line.text.startswith(_POWER_LOST) or line.text == _DIES:
            lossy = line.text.startswith(_POWER_LOST) and not line.text.startswith(f"{_POWER_LOST}, and 0 ")
            kind = "page-cache-loss" if lossy else "kill"
            why = json.dumps({"what": line.text if lossy else ""})
            rows.append(FaultRow(len(rows) + 1, kind, (line.node_id,), why, line.at_us * MS, None))
        elif line.text == _STARTS:
            rows = [
                row._replace(ended_ns=line.at_us * MS)
                if row.targets == (line.node_id,) and row.ended_ns is None
                else row
                for row in rows
            ]
    return rows
