"""Finds suspects in stretches of offsets, and combines what all stretches tell of a whole history.

A *partition key* is the number of a partition of a run. A *stretch* is a range of `1 << STRETCH_BITS` offsets of a
partition. One task has all rows of a stretch, so what has to agree at one offset is decided in it (`screen`); of what
has to agree along a whole partition it returns notes, which the driver compares (`suspicion_of`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


VALUES_OF_A_PARTITION_MAX: Final = 100_000
"""If more values are suspect, the whole partition is: looking each of them up would cost more."""


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


@dataclass(frozen=True)
class Suspicion:
    """What needs a full check."""

    partition_keys: frozenset[int]
    values: tuple[tuple[int, int], ...]
    """Partition key and value, of partitions that are not suspect as a whole."""
    malformed: bool = False
    """Whether rows of operations, polls or samples are malformed. Those of others make their partition suspect."""


def suspicion_of(notes: pa.Table) -> Suspicion:
    """Put the notes of the kernel together (`checkers.screening.stretches.NOTES_SCHEMA`)."""
    of_kind: dict[int, list[tuple[int, ...]]] = {}
    for note, *rest in zip(*(column.to_pylist() for column in notes.columns), strict=True):
        of_kind.setdefault(note, []).append(tuple(rest))
    partition_keys = {partition_key for partition_key, *_ in of_kind.get(SUSPECT_PARTITION, ())}
    partition_keys |= set(_with_falling_epochs(of_kind.get(EPOCHS, ())))
    watermarks = {
        (partition_key, broker): (low, high) for partition_key, _, broker, low, high, _ in of_kind.get(WATERMARK, ())
    }
    partition_keys |= {partition_key for (partition_key, _), (low, high) in watermarks.items() if low != high}
    partition_keys |= set(_with_holes(of_kind.get(STRETCH, ()), of_kind.get(REPLICA, ()), watermarks))
    values: dict[int, set[int]] = {}
    for partition_key, _, value, *_ in of_kind.get(SUSPECT_VALUE, ()):
        values.setdefault(partition_key, set()).add(value)
    partition_keys |= {
        partition_key for partition_key, suspect in values.items() if len(suspect) > VALUES_OF_A_PARTITION_MAX
    }
    pairs = (
        (partition_key, value)
        for partition_key, suspect in values.items()
        if partition_key not in partition_keys
        for value in suspect
    )
    return Suspicion(frozenset(partition_keys), tuple(sorted(pairs)), MALFORMED in of_kind)


def _with_falling_epochs(stretches: Iterable[tuple[int, ...]]) -> Iterable[int]:
    """Find partitions in which a later stretch has a lower epoch than an earlier one."""
    before: dict[tuple[int, int], int] = {}
    for partition_key, _, kind, least, greatest, _ in sorted(stretches):
        highest = before.get((partition_key, kind), least)
        if least < highest:
            yield partition_key
        before[partition_key, kind] = max(highest, greatest)


def _with_holes(
    stretches: Iterable[tuple[int, ...]],
    replicas: Iterable[tuple[int, ...]],
    watermarks: Mapping[tuple[int, int], tuple[int, int]],
) -> Iterable[int]:
    """Find partitions in which a replica may lack a record below its high watermark that another has.

    A replica is there if any of its log is; it need not have what begins at its high watermark.
    """
    held: dict[int, dict[int, dict[int, int]]] = {}
    for partition_key, stretch, broker, count, _, _ in replicas:
        held.setdefault(partition_key, {}).setdefault(broker, {})[stretch] = count
    for partition_key, stretch, taken, first, _, _ in stretches:
        for broker, counts in held[partition_key].items():
            if counts.get(stretch, 0) != taken and first < watermarks[partition_key, broker][1]:
                yield partition_key
