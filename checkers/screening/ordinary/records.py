"""Finds runs with malformed rows, with suspect partitions, or with values whose fate is not that of every record."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from checkers.screening import stretches
from checkers.screening.columns import Flags, Groups, Longs, among, distinct, known, numbers
from checkers.screening.kernel_rows import replicas_of, rows_of_logs, rows_of_reads, rows_of_sends, watermarks
from checkers.screening.ordinary.loaded import LoadedHistory
from checkers.screening.stretches import suspicion_of


def malformed(history: LoadedHistory) -> Iterator[Longs]:
    """Yield runs in which rows of operations or samples are malformed, or an operation or a value is there twice."""
    performed = history.performed
    of_operations = performed.of_operations
    yield history.run["operations"][~performed.good]
    yield history.run["operations"][_twice(of_operations)]
    sends, cluster = history.tables["sends"], history.tables["cluster"]
    values, _ = distinct(history.run["sends"], known(sends, "value").astype(np.int64), numbers(sends, "value"))
    yield history.run["sends"][_twice(values)]
    placed = known(cluster, "topic", "partition", "broker", "at_ns") & (numbers(cluster, "at_ns", -1) >= 0)
    yield history.run["cluster"][~placed]


def suspect_records(history: LoadedHistory) -> Iterator[Longs]:
    """Yield runs with a partition that the kernel suspects, or a value that may be one of an anomaly."""
    tables, partition, performed = history.tables, history.partition, history.performed
    replicas, of_replicas = replicas_of(tables["logs"], partition["logs"])
    rows = [
        rows_of_sends(tables["sends"], partition["sends"], history.op["sends"], performed),
        rows_of_reads(tables["reads"], partition["reads"], history.op["reads"], performed),
        rows_of_logs(tables["logs"], partition["logs"]),
    ]
    together = {name: np.concatenate([each[name] for each in rows]) for name in rows[0]}
    notes = [*stretches.screen(together), *watermarks(replicas, of_replicas)]
    suspicion = suspicion_of(pa.Table.from_batches([stretches.batch_of(notes)]))
    yield history.run_of_partition[np.array(sorted(suspicion.partition_keys), np.int64)]
    if suspicion.values:
        yield of_values(history, np.unique([value for _, value in suspicion.values]))


def of_values(history: LoadedHistory, suspects: Longs) -> Longs:
    """Return the runs of the values that meet a condition of `checkers.screening.exclusions`."""
    sends, reads = history.tables["sends"], history.tables["reads"]
    sent, read = (known(table, "value") & np.isin(numbers(table, "value"), suspects) for table in (sends, reads))
    number, examples = distinct(
        np.concatenate([history.partition["sends"][sent], history.partition["reads"][read]]),
        np.concatenate([numbers(sends, "value")[sent], numbers(reads, "value")[read]]),
    )
    groups = Groups(number)
    of_sends = np.arange(number.size) < int(sent.sum())

    def of_send(flags: Flags) -> Flags:
        return groups.count(np.concatenate([flags[sent], np.zeros(int(read.sum()), np.bool_)])) > 0

    def of_reads(flags: Flags) -> Longs:
        return groups.count(np.concatenate([np.zeros(int(sent.sum()), np.bool_), flags[read]]))

    ok, offset = history.status("sends", "ok"), numbers(sends, "offset", -1)
    placed = known(sends, "offset")
    acknowledged = of_send(ok & among(sends, "acks", -1, 1))
    failed, unanswered = of_send(history.status("sends", "fail")), of_send(history.status("sends", "info"))
    ok_read = history.status("reads", "ok")
    reads_number, ok_reads = groups.count(~of_sends), of_reads(ok_read)
    final_reads = of_reads(ok_read & history.phase("reads", "final"))
    offsets = np.concatenate([offset[sent], numbers(reads, "offset")[read]])
    read_min, read_max = groups.least(offsets, ~of_sends), groups.greatest(offsets, ~of_sends)
    has_offset = of_send(placed)
    send_offset = groups.greatest(offsets, of_sends)
    committed = of_send(ok) | (unanswered & (ok_reads > 0))
    is_read = reads_number > 0
    apart = has_offset & is_read & ((read_min != send_offset) | (read_max != send_offset))
    odd = acknowledged & (final_reads == 0)
    odd |= (ok_reads > 0) & (final_reads == 0)
    odd |= acknowledged & apart
    odd |= committed & apart
    odd |= is_read & (read_min != read_max)
    odd |= is_read & ~(groups.count(of_sends) > 0)
    odd |= is_read & failed
    partition = np.concatenate([history.partition["sends"][sent], history.partition["reads"][read]])
    return np.asarray(history.run_of_partition[partition[examples][odd]], np.int64)


def _twice(number: Longs) -> Flags:
    return np.bincount(number)[number] > 1 if number.size else np.zeros(0, np.bool_)
