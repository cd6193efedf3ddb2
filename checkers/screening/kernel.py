"""Screens the rows of some stretches of offsets: returns suspects, and a summary of each stretch.

A *partition key* is the number of a partition of a run. A *stretch* is a range of `1 << STRETCH_BITS` offsets of a
partition. One task has all rows of a stretch, so what has to agree at one offset is decided here; for what has to agree
along a whole partition the kernel returns summaries, which the driver compares (`checkers.screening.summaries`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

STRETCH_BITS: Final = 14
VALUES_MAX: Final = 2_000
"""Suspect values of a partition that a task lists one by one; if there are more, the whole partition is suspect."""
NOTES_MAX: Final = 10_000
"""Notes of all kinds on a partition that a task writes; if its records are so far apart that there would be more, the
whole partition is suspect."""

SEND, READ, LOG = 0, 1, 2
"""Kinds of rows: a record sent, one polled, one in the dumped log of a replica."""

ACKNOWLEDGED, FINAL, BAD, VALUELESS = 1, 2, 4, 8
"""Marks of a row: a send that was acknowledged, a read of an ok poll of the final phase, a malformed row, a record
without a value that should have one."""

NOWHERE: Final = -1
"""Stands for an offset that is not known."""
NO_EPOCH: Final = -(1 << 40)
"""Stands for a leader epoch that is not known; outside of what a history can hold."""

ROWS_SCHEMA: Final = "partition_key bigint, offset bigint, value bigint, epoch bigint, detail bigint, tag bigint"
"""Rows with few columns, because transferring them costs more than screening them. `detail` is the
operation of a read, the checksum of a record in a log. `tag` is the kind, with the marks at `MARKS_SHIFT` and the
broker of a log at `BROKER_SHIFT`. No column is ever null."""
KIND_BITS: Final = 3
MARKS_SHIFT, BROKER_SHIFT = 2, 6

SUSPECT_PARTITION, SUSPECT_VALUE, EPOCHS, STRETCH, REPLICA, WATERMARK, MALFORMED = range(7)
"""Kinds of notes: a suspect partition; a suspect value; the least and greatest epoch of a stretch of reads or logs; the
number of offsets taken in a stretch of logs, the first and the last; how many of them a broker has. Not written by
the kernel: the least and greatest high watermark in a broker's log; malformed rows of tables that the kernel does not
read."""

NOTES_SCHEMA: Final = "note int, partition_key bigint, stretch bigint, a bigint, b bigint, c bigint, d bigint"

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class ScreeningNote(NamedTuple):
    """A result of the kernel. The meaning of `a` to `d` depends on the kind (`note`)."""

    note: int
    partition_key: int
    stretch: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0


Rows = dict[str, Longs]


def screen_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Screen all rows of one task (`ROWS_SCHEMA`); yield notes (`NOTES_SCHEMA`)."""
    received = list(batches)
    if not received:
        return
    table = pa.Table.from_batches(received)
    yield batch_of(list(screen(_unpacked({name: table.column(name).to_numpy() for name in table.column_names}))))


def batch_of(notes: Sequence[ScreeningNote]) -> pa.RecordBatch:
    """Write notes as rows of `NOTES_SCHEMA`."""
    columns = zip(*notes, strict=True) if notes else ([] for _ in ScreeningNote._fields)
    types = (pa.int32(), *(pa.int64() for _ in ScreeningNote._fields[1:]))
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(ScreeningNote._fields))


def _unpacked(packed: Rows) -> Rows:
    kind = packed["tag"] & KIND_BITS
    marks = (packed["tag"] >> MARKS_SHIFT) & ((1 << (BROKER_SHIFT - MARKS_SHIFT)) - 1)
    detail = packed["detail"]
    same = {name: packed[name] for name in ("partition_key", "offset", "value", "epoch")}
    return {**same, "kind": kind, "marks": marks, "broker": packed["tag"] >> BROKER_SHIFT, "op": detail, "crc": detail}


def screen(rows: Rows) -> Iterator[ScreeningNote]:
    """Yield notes on what is not ordinary in rows that hold whole stretches.

    Columns: partition_key, kind, offset, value, epoch, marks, the `op` of reads, `broker` and `crc` of records in logs.
    """
    bad = (rows["marks"] & BAD) != 0
    suspects = set(np.unique(rows["partition_key"][bad]).tolist())
    records = _chosen(rows, ~bad & (rows["kind"] != LOG))
    logs = _chosen(rows, ~bad & (rows["kind"] == LOG))
    notes = [*_screen_records(records, suspects), *_screen_logs(logs, suspects)]
    numbers = Counter(note.partition_key for note in notes)
    suspects.update(partition_key for partition_key, number in numbers.items() if number > NOTES_MAX)
    yield from (note for note in notes if note.partition_key not in suspects)
    yield from (ScreeningNote(SUSPECT_PARTITION, partition_key) for partition_key in sorted(suspects))


def _screen_records(rows: Rows, suspects: set[int]) -> Iterator[ScreeningNote]:
    somewhere = rows["offset"] != NOWHERE
    lost = _chosen(rows, ~somewhere)
    rows = _sorted(_chosen(rows, somewhere), "op")
    if not rows["partition_key"].size:
        yield from _suspect_values(lost["partition_key"], lost["value"], suspects)
        return
    starts = _starts(rows)
    first, last = np.minimum.reduceat(rows["value"], starts), np.maximum.reduceat(rows["value"], starts)
    valueless = np.bitwise_or.reduceat(rows["marks"] & VALUELESS, starts) != 0
    is_read = rows["kind"] == READ
    conflict = (first != last) | valueless
    partition_key = rows["partition_key"][starts]
    suspects.update(np.unique(partition_key[conflict]).tolist())
    reads = _chosen(rows, is_read)
    # One poll that returned an offset twice.
    suspects.update(np.unique(reads["partition_key"][_same_as_before(reads, "op")]).tolist())
    sends = np.add.reduceat((~is_read).astype(np.int64), starts)
    acknowledged = np.add.reduceat((rows["marks"] & ACKNOWLEDGED) != 0, starts, dtype=np.int64)
    final = np.bitwise_or.reduceat(rows["marks"] & FINAL, starts) != 0
    ordinary = (sends == 1) & (acknowledged == 1) & final
    suspect = ~ordinary & ~conflict
    yield from _suspect_values(
        np.concatenate([lost["partition_key"], partition_key[suspect]]),
        np.concatenate([lost["value"], first[suspect]]),
        suspects,
    )
    yield from _epochs(reads, READ, suspects)


def _suspect_values(partition_key: Longs, value: Longs, suspects: set[int]) -> Iterator[ScreeningNote]:
    if not partition_key.size:
        return
    pairs = np.unique(np.stack([partition_key, value]), axis=1)
    partition_keys, counts = np.unique(pairs[0], return_counts=True)
    suspects.update(partition_keys[counts > VALUES_MAX].tolist())
    few = np.isin(pairs[0], partition_keys[counts <= VALUES_MAX])
    for one, other in pairs[:, few].T.tolist():
        yield ScreeningNote(SUSPECT_VALUE, one, a=other)


def _screen_logs(rows: Rows, suspects: set[int]) -> Iterator[ScreeningNote]:
    if not rows["partition_key"].size:
        return
    rows = _sorted(rows, "broker")
    starts = _starts(rows)
    partition_key = rows["partition_key"][starts]
    differ = (rows["marks"] & VALUELESS)[starts] != 0
    for name in ("value", "epoch", "crc", "marks"):
        differ |= np.minimum.reduceat(rows[name], starts) != np.maximum.reduceat(rows[name], starts)
    differ |= np.logical_or.reduceat(_same_as_before(rows, "broker"), starts)
    suspects.update(np.unique(partition_key[differ]).tolist())
    yield from _epochs(rows, LOG, suspects)
    offset = rows["offset"][starts]
    begins = _stretch_starts(partition_key, offset)
    ends = np.append(begins[1:], partition_key.size)
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        stretch = int(offset[begin]) >> STRETCH_BITS
        yield ScreeningNote(
            STRETCH, int(partition_key[begin]), stretch, end - begin, int(offset[begin]), int(offset[end - 1])
        )
    by_broker = _chosen(rows, np.lexsort((rows["offset"], rows["broker"], rows["partition_key"])))
    changed = _changed(by_broker["partition_key"]) | _changed(by_broker["broker"])
    begins = np.flatnonzero(changed | _changed(by_broker["offset"] >> STRETCH_BITS))
    counts = np.diff(np.append(begins, by_broker["partition_key"].size))
    columns = (
        by_broker["partition_key"][begins],
        by_broker["offset"][begins] >> STRETCH_BITS,
        by_broker["broker"][begins],
    )
    for row in zip(*(column.tolist() for column in (*columns, counts)), strict=True):
        yield ScreeningNote(REPLICA, *row)


def _epochs(rows: Rows, kind: int, suspects: set[int]) -> Iterator[ScreeningNote]:
    """Check that epochs never fall in rows sorted by partition and offset, and summarise the epochs of each stretch."""
    known = rows["epoch"] != NO_EPOCH
    partition_key, offset, epoch = rows["partition_key"][known], rows["offset"][known], rows["epoch"][known]
    if not partition_key.size:
        return
    begins = _stretch_starts(partition_key, offset)
    ends = np.append(begins[1:], partition_key.size)
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        within = epoch[begin:end]
        if (within[1:] < within[:-1]).any():
            suspects.add(int(partition_key[begin]))
        least, greatest = int(within.min()), int(within.max())
        yield ScreeningNote(
            EPOCHS, int(partition_key[begin]), int(offset[begin]) >> STRETCH_BITS, kind, least, greatest
        )


def _chosen(rows: Rows, choice: Flags | Longs) -> Rows:
    return {name: column[choice] for name, column in rows.items()}


def _sorted(rows: Rows, last: str) -> Rows:
    return _chosen(rows, np.lexsort((rows[last], rows["offset"], rows["partition_key"])))


def _starts(rows: Rows) -> Longs:
    """Return where another offset begins, in rows sorted by partition and offset."""
    return np.flatnonzero(_changed(rows["partition_key"]) | _changed(rows["offset"]))


def _stretch_starts(partition_key: Longs, offset: Longs) -> Longs:
    return np.flatnonzero(_changed(partition_key) | _changed(offset >> STRETCH_BITS))


def _same_as_before(rows: Rows, last: str) -> Flags:
    return ~(_changed(rows["partition_key"]) | _changed(rows["offset"]) | _changed(rows[last]))


def _changed(column: Longs) -> Flags:
    changed = np.ones(column.size, np.bool_)
    np.not_equal(column[1:], column[:-1], out=changed[1:])
    return changed
