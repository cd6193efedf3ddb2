"""Screens a short history in the driver, from its files, while Spark starts: without a plan or a Python worker.

This module computes column by column what `checkers.screening.on_spark` has Spark compute row by row. Both must mark
the same rows; `checkers.input.validation` has the rules in words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.input.frames import KEY
from checkers.input.tables import RunFiles
from checkers.screening import stretches
from checkers.screening.columns import Flags, Groups, Longs, among, distinct, known, numbers, read_parts, texts
from checkers.screening.stretches import Rows, ScreeningNote
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
    partitions, (of_sends, of_reads, of_logs) = _partitions([sends, reads, logs], of_records)
    performed = _Performed(operations, run_of_operations, sends, of_records[0], reads, of_records[1])
    values, _ = distinct(of_records[0], known(sends, "value").astype(np.int64), numbers(sends, "value"))
    twice = performed.twice or bool(values.size and np.bincount(values).max() > 1)
    replicas, of_replicas = _replicas(logs, of_logs)
    notes: tuple[ScreeningNote, ...] = ()
    if not twice:
        rows = [
            _rows_of_sends(sends, of_sends, performed),
            _rows_of_reads(reads, of_reads, performed),
            _rows_of_logs(logs, of_logs),
        ]
        together = {name: np.concatenate([each[name] for each in rows]) for name in rows[0]}
        notes = (*stretches.screen(together), *_watermarks(replicas, of_replicas))
    return DriverScreening(
        partitions=partitions,
        reads=Records(reads, of_reads),
        logs=Records(logs, of_logs),
        returned=_returned(reads, of_reads, performed.of_reads),
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


def _partitions(tables: Sequence[pa.Table], runs: Sequence[Longs]) -> tuple[pa.Table, list[Longs]]:
    """Number the partitions of all rows. Return them, and the numbers table by table."""
    partition_key, examples = distinct(
        np.concatenate(runs),
        np.concatenate(texts(tables, "topic")),
        np.concatenate([known(table, "partition") for table in tables]).astype(np.int64),
        np.concatenate([numbers(table, "partition") for table in tables]),
    )
    keys = pa.concat_tables([plain(table.select(KEY)) for table in tables])
    bounds = np.cumsum([table.num_rows for table in tables])[:-1]
    return keys.take(pa.array(examples)), np.split(partition_key, bounds)


class _Performed:
    """Operations, and the operation that each send and each read belongs to."""

    def __init__(
        self, operations: pa.Table, runs: Longs, sends: pa.Table, of_sends: Longs, reads: pa.Table, of_reads: Longs
    ) -> None:
        tables = (operations, sends, reads)
        number, _ = distinct(
            np.concatenate([runs, of_sends, of_reads]),
            np.concatenate([known(table, "op") for table in tables]).astype(np.int64),
            np.concatenate([numbers(table, "op") for table in tables]),
        )
        bounds = np.cumsum([table.num_rows for table in tables])[:-1]
        of_operations, self.of_sends, self.of_reads = np.split(number, bounds)
        self.twice = bool(of_operations.size and np.bincount(of_operations).max() > 1)
        self.good = _good(operations)
        self._size = int(number.max(initial=-1)) + 1
        self._numbered = of_operations[known(operations, "op")]
        self._operations = operations

    def that_are(self, which: Flags) -> Flags:
        """Return flags by operation number; `which` has a flag for each row of operations."""
        flags = np.zeros(self._size, np.bool_)
        flags[self._numbered] = which[known(self._operations, "op")]
        return flags

    def of(self, column: str, value: str) -> Flags:
        """Return which rows of operations have a value."""
        return among(self._operations, column, value)


def _good(operations: pa.Table) -> Flags:
    invoked, completed = numbers(operations, "invoked_ns", -1), numbers(operations, "completed_ns")
    ended = known(operations, "completed_ns")
    return (
        known(operations, "op", "kind", "process")
        & among(operations, "status", "ok", "fail", "info")
        & (invoked >= 0)
        & ~(ended & (completed < invoked))
        & ~(among(operations, "status", "ok") & ~ended)
    )


def _rows_of_sends(sends: pa.Table, partition_key: Longs, performed: _Performed) -> Rows:
    of_a_send = performed.that_are(performed.of("kind", "send"))[performed.of_sends]
    ok = performed.that_are(performed.good & performed.of("status", "ok"))[performed.of_sends]
    offset = numbers(sends, "offset", stretches.NOWHERE)
    bad = ~known(sends, "topic", "partition", "value") | ~of_a_send | ~among(sends, "acks", -1, 0, 1)
    bad |= known(sends, "offset") & (offset < 0)
    marks = stretches.ACKNOWLEDGED * (ok & among(sends, "acks", -1, 1)) + stretches.BAD * bad
    return _rows(stretches.SEND, partition_key, offset, numbers(sends, "value"), marks)


def _rows_of_reads(reads: pa.Table, partition_key: Longs, performed: _Performed) -> Rows:
    good_poll = performed.good & performed.of("kind", "poll")
    final = good_poll & performed.of("status", "ok") & performed.of("phase", "final")
    bad = _nowhere(reads) | ~performed.that_are(good_poll)[performed.of_reads]
    marks = (
        stretches.BAD * bad
        + stretches.FINAL * performed.that_are(final)[performed.of_reads]
        + stretches.VALUELESS * ~known(reads, "value")
    )
    offset = np.where(bad, 0, numbers(reads, "offset"))
    epoch = numbers(reads, "leader_epoch", stretches.NO_EPOCH)
    return _rows(stretches.READ, partition_key, offset, numbers(reads, "value"), marks, epoch, numbers(reads, "op"))


def _rows_of_logs(logs: pa.Table, partition_key: Longs) -> Rows:
    bad = _nowhere(logs) | ~known(logs, "broker")
    of_the_cluster = pc.starts_with(plain(logs.select(["topic"])).column(0), "__").fill_null(True)
    ours = ~np.asarray(of_the_cluster.to_numpy(), np.bool_)
    marks = stretches.BAD * bad + stretches.VALUELESS * (~known(logs, "value") & ours)
    offset = np.where(bad, 0, numbers(logs, "offset"))
    epoch = numbers(logs, "leader_epoch", stretches.NO_EPOCH)
    crc, broker = numbers(logs, "crc", -1), numbers(logs, "broker")
    return _rows(stretches.LOG, partition_key, offset, numbers(logs, "value"), marks, epoch, crc, broker)


def _nowhere(table: pa.Table) -> Flags:
    return ~known(table, "topic", "partition") | (numbers(table, "offset", -1) < 0)


def _rows(
    kind: int,
    partition_key: Longs,
    offset: Longs,
    value: Longs,
    marks: Longs,
    epoch: Longs | None = None,
    detail: Longs | None = None,
    broker: Longs | None = None,
) -> Rows:
    nothing = np.zeros(partition_key.size, np.int64)
    detail = nothing if detail is None else detail
    return {
        "partition_key": partition_key,
        "kind": np.full(partition_key.size, kind, np.int64),
        "offset": offset,
        "value": value,
        "marks": marks.astype(np.int64),
        "epoch": np.full(partition_key.size, stretches.NO_EPOCH, np.int64) if epoch is None else epoch,
        "op": detail,
        "crc": detail,
        "broker": nothing if broker is None else broker,
    }


def _returned(reads: pa.Table, partition_key: Longs, op: Longs) -> pa.Table:
    poll, examples = distinct(op, partition_key)
    groups = Groups(poll)
    usable = ~_nowhere(reads)
    offset = numbers(reads, "offset")
    ordered = usable & known(reads, "ordinal")
    apart = offset - numbers(reads, "ordinal")
    returned, numbered = groups.count(usable), groups.count(ordered)
    first, last = groups.least(offset, usable), groups.greatest(offset, usable)
    level = (numbered == returned) & (groups.least(apart, ordered) == groups.greatest(apart, ordered))
    level &= returned == last - first + 1
    nothing = returned == 0
    return _appended(
        plain(reads.select(["run_id", "op", "topic", "partition"])).take(pa.array(examples)),
        rows=pa.array(groups.count(np.ones(partition_key.size, np.bool_))),
        returned=pa.array(returned),
        values=pa.array(groups.count(usable & known(reads, "value"))),
        first_offset=pa.array(first, mask=nothing),
        last_offset=pa.array(last, mask=nothing),
        level=pa.array(level, mask=nothing),
    )


def _replicas(logs: pa.Table, partition_key: Longs) -> tuple[pa.Table, Longs]:
    """Return what `DriverScreening.replicas` holds, and the partition of each replica."""
    replica, examples = distinct(partition_key, known(logs, "broker").astype(np.int64), numbers(logs, "broker"))
    groups = Groups(replica)
    everything = np.ones(partition_key.size, np.bool_)
    watermark = numbers(logs, "high_watermark", -1)
    table = _appended(
        plain(logs.select([*KEY, "broker"])).take(pa.array(examples)),
        rows=pa.array(groups.count(everything)),
        usable=pa.array(groups.count(~_nowhere(logs) & known(logs, "broker"))),
        watermark_min=pa.array(groups.least(watermark, everything)),
        watermark_max=pa.array(groups.greatest(watermark, everything)),
    )
    return table, partition_key[examples]


def _watermarks(replicas: pa.Table, partition_key: Longs) -> list[ScreeningNote]:
    columns = (replicas.column(name).to_pylist() for name in ("broker", "watermark_min", "watermark_max"))
    return [
        ScreeningNote(stretches.WATERMARK, number, a=broker, b=low, c=high)
        for number, broker, low, high in zip(partition_key.tolist(), *columns, strict=True)
        if broker is not None
    ]


def _appended(table: pa.Table, **columns: pa.Array) -> pa.Table:
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def plain(table: pa.Table) -> pa.Table:
    """Return a table of which no column is kept as numbers of its distinct texts."""
    types = (field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in table.schema)
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))
