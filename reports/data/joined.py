"""Joins operations to the records they sent and polled, as plain arrays: the base of every number in a report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from reports.data.stored_run import Booleans, Integers, Run, integers, is_one_of, partitions_of

UNKNOWN = -1
"""Stands for null in every array here: times, offsets, nodes and partitions are never negative."""


@dataclass(frozen=True, eq=False)
class OperationColumns:
    """The table `operations`, sorted by operation number."""

    op: Integers
    process: Integers
    node: Integers
    invoked_ns: Integers
    completed_ns: Integers
    ok: Booleans
    fail: Booleans
    send: Booleans
    poll: Booleans
    final: Booleans

    def rows_of(self, op: Integers) -> Integers:
        """Return the row of each operation number, `UNKNOWN` where there is none."""
        if not self.op.size:
            return np.full(op.shape, UNKNOWN, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.op, op), self.op.size - 1)
        return np.where(self.op[rows] == op, rows, UNKNOWN).astype(np.int64)


class Acknowledged(NamedTuple):
    """Records of sends that completed ok, one element each, sorted by time of acknowledgement."""

    partition: Integers
    """Index in `Joined.partitions`."""
    offset: Integers
    value: Integers
    acknowledged_ns: Integers


class Positions(NamedTuple):
    """Polls that completed ok, one element per partition polled, sorted by time of completion."""

    partition: Integers
    next_position: Integers
    process: Integers
    final: Booleans
    completed_ns: Integers


class Joined:
    """The joins of one run, each made when it is first asked for."""

    def __init__(self, run: Run) -> None:
        self._tables = run.tables
        self.partitions: list[tuple[str, int]] = sorted(
            {pair for name in ("sends", "polls", "cluster", "logs") for pair in partitions_of(run.tables[name])}
        )
        """Every (topic, partition) in the run's tables."""

    @cached_property
    def operations(self) -> OperationColumns:
        """The operations of the run."""
        table = self._tables["operations"]
        op = integers(table, "op", null=UNKNOWN)
        order = np.argsort(op, kind="stable")
        return OperationColumns(
            op=op[order],
            process=integers(table, "process", null=UNKNOWN)[order],
            node=integers(table, "node", null=UNKNOWN)[order],
            invoked_ns=integers(table, "invoked_ns", null=UNKNOWN)[order],
            completed_ns=integers(table, "completed_ns", null=UNKNOWN)[order],
            ok=is_one_of(table, "status", "ok")[order],
            fail=is_one_of(table, "status", "fail")[order],
            send=is_one_of(table, "kind", "send")[order],
            poll=is_one_of(table, "kind", "poll")[order],
            final=is_one_of(table, "phase", "final")[order],
        )

    @cached_property
    def acknowledged(self) -> Acknowledged:
        """The records whose send completed ok."""
        sends = self._tables["sends"]
        operations = self.operations
        rows = operations.rows_of(integers(sends, "op", null=UNKNOWN))
        kept = np.flatnonzero((rows != UNKNOWN) & operations.ok[rows]) if operations.op.size else rows[:0]
        times = operations.completed_ns[rows[kept]]
        kept = kept[np.argsort(times, kind="stable")]
        return Acknowledged(
            partition=self.partition_of(sends)[kept],
            offset=integers(sends, "offset", null=UNKNOWN)[kept],
            value=integers(sends, "value", null=UNKNOWN)[kept],
            acknowledged_ns=np.sort(times, kind="stable"),
        )

    @cached_property
    def positions(self) -> Positions:
        """The positions of readers after each poll that completed ok."""
        polls = self._tables["polls"]
        operations = self.operations
        rows = operations.rows_of(integers(polls, "op", null=UNKNOWN))
        reading = operations.ok & operations.poll
        kept = np.flatnonzero((rows != UNKNOWN) & reading[rows]) if operations.op.size else rows[:0]
        kept = kept[np.argsort(operations.completed_ns[rows[kept]], kind="stable")]
        return Positions(
            partition=self.partition_of(polls)[kept],
            next_position=integers(polls, "next_position", null=UNKNOWN)[kept],
            process=operations.process[rows[kept]],
            final=operations.final[rows[kept]],
            completed_ns=operations.completed_ns[rows[kept]],
        )

    def partition_of(self, table: pa.Table) -> Integers:
        """Return each row's index in `partitions`, `UNKNOWN` for rows without topic or partition."""
        topics = sorted({topic for topic, _ in self.partitions})
        number_of = {topic: number for number, topic in enumerate(topics)}
        encoded = table.column("topic").combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        names = [number_of.get(name, UNKNOWN) for name in encoded.dictionary.to_pylist()]
        indices = np.asarray(encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False), dtype=np.int64)
        topic = np.asarray([*names, UNKNOWN], dtype=np.int64)[indices]
        width = 1 + max((partition for _, partition in self.partitions), default=0)
        partition = integers(table, "partition", null=UNKNOWN)
        keys = np.where((topic < 0) | (partition < 0), UNKNOWN, topic * width + partition)
        known = np.asarray([number_of[topic] * width + partition for topic, partition in self.partitions], np.int64)
        if not known.size:
            return np.full(keys.shape, UNKNOWN, dtype=np.int64)
        found = np.minimum(np.searchsorted(known, keys), known.size - 1)
        return np.where(known[found] == keys, found, UNKNOWN).astype(np.int64)
