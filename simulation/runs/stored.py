"""Stores simulated runs: choice file, findings, events, trace and history.

| file | what |
|---|---|
| `spec.json` | the simulated configuration, with the command that repeats it |
| `choices.json` | all that is needed to repeat the simulation (`choice_files`) |
| `outcome.json` | hash, findings, marks |
| `events.parquet` | every event, to find the first that differs in a replay |
| `story.json` | the transitions that led to the failure, for the sequence diagram |
| `history/` | the clients' history, and the final logs of the replicas |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from simulation.engine.event_log import EventStream, LoggedEvent
from simulation.invariants.watchers import watchers
from simulation.runs.choice_files import FILE_NAME, ChoiceFile
from simulation.runs.findings import Finding, findings
from simulation.runs.repeat_command import command
from simulation.runs.trace import Line, TraceRecorder, trace_lines
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.scenario import SimulationOutcome
from simulation.workload import tables
from simulation.workload.sampling import ReplicaSampler

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


def store(directory: Path, case: Case, *, observed: bool = True) -> Sequence[Finding]:
    """Simulate a case again and write its run into an empty directory; returns the findings."""
    recorder, sampler, stream = TraceRecorder(), ReplicaSampler(), EventStream()
    observers = watchers() if observed else ()
    outcome = cases.run(case, observers, (stream, recorder, sampler), to_the_end=True, keep_log=True)
    found = findings(outcome)
    run_id = directory.name
    _write_json(directory / "spec.json", _specification(case, outcome))
    _write_json(directory / "schedule.json", [fault.to_json() for fault in outcome.faults])
    _write_json(directory / "outcome.json", _outcome_data(outcome, found, observed))
    (directory / FILE_NAME).write_text(choice_file_of(outcome, found).dumps(), encoding="utf-8")
    _write_moments(directory / "events.parquet", stream.moments)
    lines = trace_lines(recorder, outcome.history, outcome.log_entries)
    _write_json(directory / "story.json", [line._asdict() for line in relevant(lines)])
    tables.write(directory, "0", [tables.Recorded(run_id, NAME, outcome, sampler.samples)])
    write_results(directory, run_id, found)
    return found


def choice_file_of(outcome: SimulationOutcome, found: Sequence[Finding], happens: Sequence[str] = ()) -> ChoiceFile:
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


def write_results(directory: Path, run_id: str, found: Sequence[Finding]) -> None:
    """Write the simulation's findings into `results.json`, above those of the checkers."""
    path = directory / "results.json"
    results: dict[str, Any] = {"run_id": run_id, "verdict": "valid", "reasons": [], "anomalies": {}, "counts": {}}
    if path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))
    if found:
        results["verdict"] = "invalid"
        mine = [f"{finding.layer}: {finding}" for finding in found]
        results["reasons"] = [*mine, *(line for line in results["reasons"] if line not in mine)]
    _write_json(path, results)


def found_in(directory: Path) -> list[Finding]:
    """The findings of a stored run."""
    data = json.loads((directory / "outcome.json").read_text(encoding="utf-8"))
    return [Finding(**finding) for finding in data["findings"]]


def read_moments(directory: Path) -> list[LoggedEvent]:
    """The events of a stored run."""
    with pq.ParquetFile(directory / "events.parquet") as file:
        columns = file.read().to_pydict()
    return [LoggedEvent(*row) for row in zip(*(columns[name] for name in _MOMENTS.names), strict=True)]


def _write_moments(path: Path, moments: Sequence[LoggedEvent]) -> None:
    columns = zip(*moments, strict=True)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, _MOMENTS, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=_MOMENTS), path, compression="zstd")


def _specification(case: Case, outcome: SimulationOutcome) -> Mapping[str, object]:
    configuration = outcome.configuration.to_json()
    kept = ("generation", "flaws", "brokers", "partitions", "replication_factor", "min_insync_replicas", "acks")
    return {
        "name": NAME,
        "environment": "simulation",
        "seed": outcome.seed,
        **{key: configuration[key] for key in kept},
        "idempotence": outcome.configuration.idempotence,
        "reproduce": command(["sim", "--seed", str(outcome.seed)], case.overrides),
        "configuration": configuration,
    }


def _outcome_data(outcome: SimulationOutcome, found: Sequence[Finding], observed: bool) -> Mapping[str, object]:
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
