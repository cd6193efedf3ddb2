"""Screens a short history in the driver, from its files, without a plan or a Python worker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checkers.input.frames import KEY
from checkers.input.tables import RunFiles
from checkers.screening import stretches
from checkers.screening.columns import Longs, distinct, known, numbers, plain, read_parts, texts
from checkers.screening.kernel_rows import (
    Performed,
    partitions_of,
    replicas_of,
    returned_by_poll,
    rows_of_logs,
    rows_of_reads,
    rows_of_sends,
    watermarks,
)
from checkers.screening.stretches import ScreeningNote
from history.schema import TABLES

_READ: Final = ("operations", "sends", "reads", "logs", "cluster")


@dataclass(frozen=True)
class Records:
    """Rows of a table of records, and the partition of each: a row of `DriverScreening.partitions`."""

    rows: pa.Table
    partition_key: Longs


@dataclass(frozen=True)
class DriverScreening:
    """What can be screened of a short history without Spark, polls and samples."""

    partitions: pa.Table
    """The distinct run, topic and partition of all records."""
    reads: Records
    logs: Records
    returned: pa.Table
    """As `checkers.input.polls.returned_by_poll` returns it."""
    replicas: pa.Table
    """As `checkers.screening.on_spark.replicas_of` returns it."""
    notes: tuple[ScreeningNote, ...]
    """Notes of the kernel; the `partition_key` of a note is a row of `partitions`."""
    malformed: bool
    """Whether some operations are malformed."""
    twice: bool
    """Whether an operation or a value occurs twice; then there are no notes."""
    last_ns: Mapping[str, int]
    """By run, the last known time of an operation or sample."""

    def held_at(self, positions: Collection[tuple[Any, ...]]) -> dict[tuple[Any, ...], dict[int, int | None]]:
        """Look up what the dumped logs hold at some positions, as `checkers.verdict.collect.held_at` does."""
        logs, found = self.logs.rows, dict[tuple[Any, ...], dict[int, int | None]]()
        offsets = np.array(sorted({offset for *_, offset in positions}), np.int64)
        likely = known(logs, *KEY, "broker", "offset") & np.isin(numbers(logs, "offset"), offsets)
        columns = plain(logs.filter(pa.array(likely)).select([*KEY, "offset", "broker", "value"])).columns
        wanted = set(positions)
        for *position, broker, value in zip(*(column.to_pylist() for column in columns), strict=True):
            if tuple(position) in wanted:
                found.setdefault(tuple(position), {})[broker] = value
        return found


def screen_in_driver(runs: Sequence[RunFiles]) -> DriverScreening | None:
    """Screen the files of some runs; None if some are on another machine or cannot be read."""
    if any(run.large[table].remote for run in runs for table in _READ):
        return None
    try:
        return _screened({table: _read(runs, table) for table in _READ})
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return None


def _read(runs: Sequence[RunFiles], table: str) -> pa.Table:
    return read_parts([file for run in runs for file in run.large[table].files], TABLES[table])


def _screened(read: Mapping[str, pa.Table]) -> DriverScreening:
    operations, sends, reads, logs, cluster = (read[table] for table in _READ)
    run_of_operations, *of_records = texts([operations, sends, reads, logs], "run_id")
    partitions, (of_sends, of_reads, of_logs) = partitions_of([sends, reads, logs], of_records)
    performed = Performed(operations, run_of_operations, (sends, of_records[0]), (reads, of_records[1]))
    op_of_sends, op_of_reads = performed.of_others
    values, _ = distinct(of_records[0], known(sends, "value").astype(np.int64), numbers(sends, "value"))
    twice = performed.twice or bool(values.size and np.bincount(values).max() > 1)
    replicas, of_replicas = replicas_of(logs, of_logs)
    notes: tuple[ScreeningNote, ...] = ()
    if not twice:
        rows = [
            rows_of_sends(sends, of_sends, op_of_sends, performed),
            rows_of_reads(reads, of_reads, op_of_reads, performed),
            rows_of_logs(logs, of_logs),
        ]
        together = {name: np.concatenate([each[name] for each in rows]) for name in rows[0]}
        notes = (*stretches.screen(together), *watermarks(replicas, of_replicas))
    return DriverScreening(
        partitions=partitions,
        reads=Records(reads, of_reads),
        logs=Records(logs, of_logs),
        returned=returned_by_poll(reads, of_reads, op_of_reads)[0],
        replicas=replicas,
        notes=notes,
        malformed=not performed.good.all(),
        twice=twice,
        last_ns=_last_ns(operations, cluster),
    )


def _last_ns(operations: pa.Table, cluster: pa.Table) -> dict[str, int]:
    ends = [
        operations.select(["run_id", "invoked_ns"]),
        operations.select(["run_id", "completed_ns"]),
        cluster.select(["run_id", "at_ns"]),
    ]
    moments = pa.concat_tables([plain(each).rename_columns(["run_id", "ns"]) for each in ends])
    last = moments.group_by("run_id").aggregate([("ns", "max")]).to_pylist()
    return {row["run_id"]: row["ns_max"] for row in last if row["ns_max"] is not None}
