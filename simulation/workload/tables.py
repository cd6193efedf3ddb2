"""Writes the histories of many simulations as one data set, which one Spark job can check."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from common.atomic_files import replacing
from history.contract import DOWN_ALREADY
from history.schema import TABLES
from simulation.engine.event_queue import MS
from simulation.faults.recipes import STEPS
from simulation.scenario.phases import SimulationOutcome
from simulation.workload.clients import TOPIC
from simulation.workload.making import MODEL
from simulation.workload.recording import FaultRow
from simulation.workload.sampling import ReplicaSample, records_of
from simulation.workload.side_settings import LOSSES_ACCEPTED

UNAVAILABLE_AFTER_MS = 60_000
CLIENT = "simulated"
"""The name of the model in the history; a library has its own."""

Row = Sequence[Any]


class Recorded(NamedTuple):
    """A simulation to be written into the data set."""

    run_id: str
    name: str
    outcome: SimulationOutcome
    samples: Sequence[ReplicaSample]


def write(directory: Path, part: str, runs: Sequence[Recorded]) -> None:
    """Write one part file per table with the rows of all these runs: `directory`/history/<table>/part-….parquet."""
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    for run in runs:
        for table, found in _rows(run).items():
            rows[table] += [(run.run_id, *row) for row in found]
    for table, schema in TABLES.items():
        _write_part(directory / "history" / table, part, schema, rows[table])


def _write_part(directory: Path, part: str, schema: pa.Schema, rows: Sequence[Row]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"part-{part}.parquet"
    with replacing(path) as unfinished:
        pq.write_table(_table(schema, rows), unfinished)


def _table(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    by_column = zip(*rows, strict=True) if rows else ((),) * len(schema)
    columns = [pa.array(list(values), field.type) for values, field in zip(by_column, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def arrow_tables(run: Recorded) -> dict[str, pa.Table]:
    """The tables of one simulation, in memory."""
    return {name: _table(TABLES[name], [(run.run_id, *row) for row in found]) for name, found in _rows(run).items()}


def _rows(run: Recorded) -> dict[str, Iterable[Row]]:
    """Rows of each table, without the run's id, in the order of the schema."""
    outcome, history = run.outcome, run.outcome.history
    client = CLIENT if outcome.configuration.client == MODEL else outcome.configuration.client
    return {
        "runs": [_settings(run)],
        "operations": [(row[0], row[1], client, *row[2:]) for row in history.operations],
        "sends": history.sends,
        "polls": history.polls,
        "reads": history.reads,
        "commits": history.commits,
        "ownerships": history.ownerships,
        "faults": [
            (*row[:5], row.started_ns, ended_ns, row.planned, what != DOWN_ALREADY, ended_ns is not None, said)
            for row in history.faults
            for ended_ns in [_ended_ns(row, history.faults)]
            for what, said in [_noted(row)]
        ],
        "cluster": [(*sample, None) for sample in run.samples],  # without the LastKnownELR
        "logs": _logs(outcome),
        "ends": [(TOPIC, partition, end, True) for partition, end in outcome.ends.items()],
        "phases": [(name, start * MS, end * MS) for name, (start, end) in outcome.phases.items()],
        "workers": [(1, len(history.operations))],
    }


def _settings(run: Recorded) -> Row:
    configuration = run.outcome.configuration
    return (
        run.name,
        run.outcome.seed,
        "harrow",
        False,
        "simulation",
        0,
        configuration.brokers,
        configuration.controllers,
        configuration.replication_factor,
        configuration.min_insync_replicas,
        configuration.acks,
        configuration.idempotence and configuration.acks == -1 and not run.outcome.may_repeat,
        # Both choose availability before what was acknowledged.
        configuration.unclean_election
        or configuration.unclean_recovery == "Aggressive"
        or bool(run.outcome.marks.get(LOSSES_ACCEPTED.name)),
        configuration.generation,
        list(configuration.flaws),
        1,
        bool(run.outcome.faults),
        UNAVAILABLE_AFTER_MS,
        json.dumps(configuration.to_json()),
    )


def _ended_ns(row: FaultRow, faults: Sequence[FaultRow]) -> int | None:
    """When a fault ended: a recipe, which only begins others, with the last of its parts."""
    if row.kind not in STEPS:
        return row.ended_ns
    return max(
        (part.ended_ns for part in faults if part.planned == row.planned and part.ended_ns), default=row.ended_ns
    )


def _noted(row: FaultRow) -> tuple[str, str]:
    """What a fault noted of itself, and how it was verified."""
    what = json.loads(row.parameters).get("what", "")
    return what, f"simulated; {what}" if what else "simulated"


def _logs(outcome: SimulationOutcome) -> Iterable[Row]:
    for (broker, partition), log in sorted(outcome.logs.items()):
        for record in records_of(log.data):
            yield (broker, TOPIC, partition, *record, log.high_watermark)
