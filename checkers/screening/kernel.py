"""The kernel of screening: rows of some stretches of offsets in, suspects and summaries of the stretches out.

A *place* is a partition of a run, as a number. A *stretch* is a range of `1 << STRETCH_BITS` offsets of a place. All
rows of a stretch are in one task, so that what has to agree at one offset is decided here; what has to agree along a
whole partition is told by summaries, which the driver compares (`checkers.screening.summaries`).
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
"""Peculiar values of a place that a task tells one by one; where there are more, the whole place is suspect."""
NOTES_MAX: Final = 10_000
"""Notes of all kinds on a place that a task writes; where records are so far apart that there would be more, the whole
place is suspect."""

SEND, READ, LOG = 0, 1, 2
"""Kinds of rows: a record sent, one polled, one in the dumped log of a replica."""

ACKNOWLEDGED, FINAL, BAD, VALUELESS = 1, 2, 4, 8
"""Marks of a row: a send that was acknowledged, a read of an ok poll of the final phase, a row that makes no sense, a
record that holds no value and should."""

NOWHERE: Final = -1
"""The offset of what has none that is known."""
NO_EPOCH: Final = -(1 << 40)
"""Stands for a leader epoch that is not known; outside of what a history can hold."""

ROWS_SCHEMA: Final = "place bigint, offset bigint, value bigint, epoch bigint, detail bigint, tag bigint"
"""Rows as they come, of few columns, because bringing them here costs more than looking at them. `detail` is the
operation of a read, the checksum of a record in a log. `tag` is the kind, with the marks at `MARKS_SHIFT` and the
broker of a log at `BROKER_SHIFT`. No column is ever null."""
KIND_BITS: Final = 3
MARKS_SHIFT, BROKER_SHIFT = 2, 6

SUSPECT, PECULIAR, EPOCHS, STRETCH, REPLICA, WATERMARK, MALFORMED = range(7)
"""Kinds of notes: a suspect place; a peculiar value; the least and greatest epoch of a stretch of reads or logs; the
number of offsets taken in a stretch of logs, the first and the last; how many of them a broker has. Not of the kernel:
the least and greatest high watermark in a broker's log; rows that make no sense, of tables that the kernel does not
see."""

NOTES_SCHEMA: Final = "note int, place bigint, stretch bigint, a bigint, b bigint, c bigint, d bigint"

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Note(NamedTuple):
    """What the kernel says; what `a` to `d` are depends on the kind (`note`)."""

    note: int
    place: int
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


def batch_of(notes: Sequence[Note]) -> pa.RecordBatch:
    """Write notes as rows of `NOTES_SCHEMA`."""
    columns = zip(*notes, strict=True) if notes else ([] for _ in Note._fields)
    types = (pa.int32(), *(pa.int64() for _ in Note._fields[1:]))
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(Note._fields))


def _unpacked(packed: Rows) -> Rows:
    kind = packed["tag"] & KIND_BITS
    marks = (packed["tag"] >> MARKS_SHIFT) & ((1 << (BROKER_SHIFT - MARKS_SHIFT)) - 1)
    detail = packed["detail"]
    same = {name: packed[name] for name in ("place", "offset", "value", "epoch")}
    return {**same, "kind": kind, "marks": marks, "broker": packed["tag"] >> BROKER_SHIFT, "op": detail, "crc": detail}


def screen(rows: Rows) -> Iterator[Note]:
    """Tell what is not dull in rows that hold whole stretches.

    Columns: place, kind, offset, value, epoch, marks, the `op` of reads, `broker` and `crc` of records in logs.
    """
    bad = (rows["marks"] & BAD) != 0
    suspects = set(np.unique(rows["place"][bad]).tolist())
    records = _chosen(rows, ~bad & (rows["kind"] != LOG))
    logs = _chosen(rows, ~bad & (rows["kind"] == LOG))
    notes = [*_screen_records(records, suspects), *_screen_logs(logs, suspects)]
    numbers = Counter(note.place for note in notes)
    suspects.update(place for place, number in numbers.items() if number > NOTES_MAX)
    yield from (note for note in notes if note.place not in suspects)
    yield from (Note(SUSPECT, place) for place in sorted(suspects))


def _screen_records(rows: Rows, suspects: set[int]) -> Iterator[Note]:
    somewhere = rows["offset"] != NOWHERE
    lost = _chosen(rows, ~somewhere)
    rows = _sorted(_chosen(rows, somewhere), "op")
    if not rows["place"].size:
        yield from _peculiar(lost["place"], lost["value"], suspects)
        return
    starts = _starts(rows)
    first, last = np.minimum.reduceat(rows["value"], starts), np.maximum.reduceat(rows["value"], starts)
    valueless = np.bitwise_or.reduceat(rows["marks"] & VALUELESS, starts) != 0
    is_read = rows["kind"] == READ
    conflict = (first != last) | valueless
    place = rows["place"][starts]
    suspects.update(np.unique(place[conflict]).tolist())
    reads = _chosen(rows, is_read)
    # One poll that returned an offset twice.
    suspects.update(np.unique(reads["place"][_same_as_before(reads, "op")]).tolist())
    sends = np.add.reduceat((~is_read).astype(np.int64), starts)
    acknowledged = np.add.reduceat((rows["marks"] & ACKNOWLEDGED) != 0, starts, dtype=np.int64)
    final = np.bitwise_or.reduceat(rows["marks"] & FINAL, starts) != 0
    dull = (sends == 1) & (acknowledged == 1) & final
    peculiar = ~dull & ~conflict
    yield from _peculiar(
        np.concatenate([lost["place"], place[peculiar]]),
        np.concatenate([lost["value"], first[peculiar]]),
        suspects,
    )
    yield from _epochs(reads, READ, suspects)


def _peculiar(place: Longs, value: Longs, suspects: set[int]) -> Iterator[Note]:
    if not place.size:
        return
    pairs = np.unique(np.stack([place, value]), axis=1)
    places, counts = np.unique(pairs[0], return_counts=True)
    suspects.update(places[counts > VALUES_MAX].tolist())
    few = np.isin(pairs[0], places[counts <= VALUES_MAX])
    for one, other in pairs[:, few].T.tolist():
        yield Note(PECULIAR, one, a=other)


def _screen_logs(rows: Rows, suspects: set[int]) -> Iterator[Note]:
    if not rows["place"].size:
        return
    rows = _sorted(rows, "broker")
    starts = _starts(rows)
    place = rows["place"][starts]
    differ = (rows["marks"] & VALUELESS)[starts] != 0
    for name in ("value", "epoch", "crc", "marks"):
        differ |= np.minimum.reduceat(rows[name], starts) != np.maximum.reduceat(rows[name], starts)
    differ |= np.logical_or.reduceat(_same_as_before(rows, "broker"), starts)
    suspects.update(np.unique(place[differ]).tolist())
    yield from _epochs(rows, LOG, suspects)
    offset = rows["offset"][starts]
    begins = _stretch_starts(place, offset)
    ends = np.append(begins[1:], place.size)
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        stretch = int(offset[begin]) >> STRETCH_BITS
        yield Note(STRETCH, int(place[begin]), stretch, end - begin, int(offset[begin]), int(offset[end - 1]))
    by_broker = _chosen(rows, np.lexsort((rows["offset"], rows["broker"], rows["place"])))
    changed = _changed(by_broker["place"]) | _changed(by_broker["broker"])
    begins = np.flatnonzero(changed | _changed(by_broker["offset"] >> STRETCH_BITS))
    counts = np.diff(np.append(begins, by_broker["place"].size))
    columns = (by_broker["place"][begins], by_broker["offset"][begins] >> STRETCH_BITS, by_broker["broker"][begins])
    for row in zip(*(column.tolist() for column in (*columns, counts)), strict=True):
        yield Note(REPLICA, *row)


def _epochs(rows: Rows, kind: int, suspects: set[int]) -> Iterator[Note]:
    """Rows sorted by place and offset: hold the epochs of each place against each other, and sum up the stretches."""
    known = rows["epoch"] != NO_EPOCH
    place, offset, epoch = rows["place"][known], rows["offset"][known], rows["epoch"][known]
    if not place.size:
        return
    begins = _stretch_starts(place, offset)
    ends = np.append(begins[1:], place.size)
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        within = epoch[begin:end]
        if (within[1:] < within[:-1]).any():
            suspects.add(int(place[begin]))
        least, greatest = int(within.min()), int(within.max())
        yield Note(EPOCHS, int(place[begin]), int(offset[begin]) >> STRETCH_BITS, kind, least, greatest)


def _chosen(rows: Rows, choice: Flags | Longs) -> Rows:
    return {name: column[choice] for name, column in rows.items()}


def _sorted(rows: Rows, last: str) -> Rows:
    return _chosen(rows, np.lexsort((rows[last], rows["offset"], rows["place"])))


def _starts(rows: Rows) -> Longs:
    """Return where another offset begins, in rows sorted by place and offset."""
    return np.flatnonzero(_changed(rows["place"]) | _changed(rows["offset"]))


def _stretch_starts(place: Longs, offset: Longs) -> Longs:
    return np.flatnonzero(_changed(place) | _changed(offset >> STRETCH_BITS))


def _same_as_before(rows: Rows, last: str) -> Flags:
    return ~(_changed(rows["place"]) | _changed(rows["offset"]) | _changed(rows[last]))


def _changed(column: Longs) -> Flags:
    changed = np.ones(column.size, np.bool_)
    np.not_equal(column[1:], column[:-1], out=changed[1:])
    return changed
