"""Makes the rows that the kernel of screening compares, from tables in memory: marks, and numbers of partitions.

This module computes column by column what `checkers.screening.on_spark` has Spark compute row by row. Both must mark
the same rows; `checkers.input.validation` has the rules in words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.input.frames import KEY
from checkers.screening import stretches
from checkers.screening.columns import Flags, Groups, Longs, among, distinct, known, numbers, plain, texts
from checkers.screening.stretches import Rows, ScreeningNote


def partitions_of(tables: Sequence[pa.Table], runs: Sequence[Longs]) -> tuple[pa.Table, list[Longs]]:
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


class Performed:
    """Operations, and the operation that each row of some other tables belongs to."""

    def __init__(self, operations: pa.Table, runs: Longs, *others: tuple[pa.Table, Longs]) -> None:
        """Number the operations. `runs`: the number of the run of each row, as in each of `others`."""
        tables = (operations, *(table for table, _ in others))
        number, _ = distinct(
            np.concatenate([runs, *(runs_of_other for _, runs_of_other in others)]),
            np.concatenate([known(table, "op") for table in tables]).astype(np.int64),
            np.concatenate([numbers(table, "op") for table in tables]),
        )
        bounds = np.cumsum([table.num_rows for table in tables])[:-1]
        self.of_operations, *of_others = np.split(number, bounds)
        self.of_others: Sequence[Longs] = of_others
        """The operation of each row, table by table."""
        self.twice = bool(self.of_operations.size and np.bincount(self.of_operations).max() > 1)
        self.good = _good(operations)
        self._size = int(number.max(initial=-1)) + 1
        self._numbered = self.of_operations[known(operations, "op")]
        self._operations = operations

    def moments(self, column: str) -> Longs:
        """Return a column of operations by their number; 0 where it is not known."""
        moments = np.zeros(self._size, np.int64)
        moments[self._numbered] = numbers(self._operations, column)[known(self._operations, "op")]
        return moments

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


def rows_of_sends(sends: pa.Table, partition_key: Longs, op: Longs, performed: Performed) -> Rows:
    """Return the rows of records sent. `op`: the number of the operation of each."""
    of_a_send = performed.that_are(performed.of("kind", "send"))[op]
    ok = performed.that_are(performed.good & performed.of("status", "ok"))[op]
    offset = numbers(sends, "offset", stretches.NOWHERE)
    bad = ~known(sends, "topic", "partition", "value") | ~of_a_send | ~among(sends, "acks", -1, 0, 1)
    bad |= known(sends, "offset") & (offset < 0)
    marks = stretches.ACKNOWLEDGED * (ok & among(sends, "acks", -1, 1)) + stretches.BAD * bad
    return _rows(stretches.SEND, partition_key, offset, numbers(sends, "value"), marks)


def rows_of_reads(reads: pa.Table, partition_key: Longs, op: Longs, performed: Performed) -> Rows:
    """Return the rows of records polled. `op`: the number of the operation of each."""
    good_poll = performed.good & performed.of("kind", "poll")
    final = good_poll & performed.of("status", "ok") & performed.of("phase", "final")
    bad = nowhere(reads) | ~performed.that_are(good_poll)[op]
    marks = (
        stretches.BAD * bad
        + stretches.FINAL * performed.that_are(final)[op]
        + stretches.VALUELESS * ~known(reads, "value")
    )
    offset = np.where(bad, 0, numbers(reads, "offset"))
    epoch = numbers(reads, "leader_epoch", stretches.NO_EPOCH)
    return _rows(stretches.READ, partition_key, offset, numbers(reads, "value"), marks, epoch, numbers(reads, "op"))


def rows_of_logs(logs: pa.Table, partition_key: Longs) -> Rows:
    """Return the rows of records in dumped logs."""
    bad = nowhere(logs) | ~known(logs, "broker")
    of_the_cluster = pc.starts_with(plain(logs.select(["topic"])).column(0), "__").fill_null(True)
    ours = ~np.asarray(of_the_cluster.to_numpy(), np.bool_)
    marks = stretches.BAD * bad + stretches.VALUELESS * (~known(logs, "value") & ours)
    offset = np.where(bad, 0, numbers(logs, "offset"))
    epoch = numbers(logs, "leader_epoch", stretches.NO_EPOCH)
    crc, broker = numbers(logs, "crc", -1), numbers(logs, "broker")
    return _rows(stretches.LOG, partition_key, offset, numbers(logs, "value"), marks, epoch, crc, broker)


def nowhere(table: pa.Table) -> Flags:
    """Say which rows lack a partition or an offset."""
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


def returned_by_poll(reads: pa.Table, partition_key: Longs, op: Longs) -> tuple[pa.Table, Longs]:
    """Return what `checkers.input.polls.returned_by_poll` does, and a row of `reads` for each of its rows."""
    poll, examples = distinct(op, partition_key)
    groups = Groups(poll)
    usable = ~nowhere(reads)
    offset = numbers(reads, "offset")
    ordered = usable & known(reads, "ordinal")
    apart = offset - numbers(reads, "ordinal")
    returned, numbered = groups.count(usable), groups.count(ordered)
    first, last = groups.least(offset, usable), groups.greatest(offset, usable)
    level = (numbered == returned) & (groups.least(apart, ordered) == groups.greatest(apart, ordered))
    level &= returned == last - first + 1
    nothing = returned == 0
    table = _appended(
        plain(reads.select(["run_id", "op", "topic", "partition"])).take(pa.array(examples)),
        rows=pa.array(groups.count(np.ones(partition_key.size, np.bool_))),
        returned=pa.array(returned),
        values=pa.array(groups.count(usable & known(reads, "value"))),
        first_offset=pa.array(first, mask=nothing),
        last_offset=pa.array(last, mask=nothing),
        level=pa.array(level, mask=nothing),
    )
    return table, examples


def replicas_of(logs: pa.Table, partition_key: Longs) -> tuple[pa.Table, Longs]:
    """Return what `checkers.screening.on_spark.replicas_of` does, and the partition of each replica."""
    replica, examples = distinct(partition_key, known(logs, "broker").astype(np.int64), numbers(logs, "broker"))
    groups = Groups(replica)
    everything = np.ones(partition_key.size, np.bool_)
    watermark = numbers(logs, "high_watermark", -1)
    table = _appended(
        plain(logs.select([*KEY, "broker"])).take(pa.array(examples)),
        rows=pa.array(groups.count(everything)),
        usable=pa.array(groups.count(~nowhere(logs) & known(logs, "broker"))),
        watermark_min=pa.array(groups.least(watermark, everything)),
        watermark_max=pa.array(groups.greatest(watermark, everything)),
    )
    return table, partition_key[examples]


def watermarks(replicas: pa.Table, partition_key: Longs) -> list[ScreeningNote]:
    """Note the least and the greatest high watermark in the log of each replica."""
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
