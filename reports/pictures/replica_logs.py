"""Draws a partition's logs around one offset: what was acknowledged, and what each replica holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.data.joined import UNKNOWN, Joined
from reports.data.stored_run import Run, integers, rows_where

BEFORE = 4
AFTER = 5
"""Offsets shown on each side of the one in question."""

Agreement = Literal["agrees", "differs", "absent", "past-end", "not-sent"]


@dataclass(frozen=True)
class LogCell:
    """One offset of one row. `agreement` is relative to the other replicas, and to what was acknowledged."""

    offset: int
    value: int | None
    leader_epoch: int | None
    agreement: Agreement
    also: tuple[int, ...] = ()
    """Values that were acknowledged at this offset later."""
    missing: bool = False
    """This is where the record in question should be and is not."""


@dataclass(frozen=True)
class LogRow:
    """The log of one replica, or (broker None) what was acknowledged to producers."""

    broker: int | None
    cells: tuple[LogCell, ...]
    log_start: int | None
    """The first record that was dumped: what was before it was deleted, or never there."""
    log_end: int | None
    """One past the last record that was dumped."""
    high_watermark: int | None


@dataclass(frozen=True)
class LogPicture:
    """Rows of logs over the same offsets."""

    topic: str
    partition: int
    offset: int
    value: int | None
    """The record in question."""
    rows: tuple[LogRow, ...]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Return the columns."""
        return tuple(cell.offset for cell in self.rows[0].cells)


def log_picture(
    run: Run, joined: Joined, topic: str, partition: int, offset: int, value: int | None
) -> LogPicture | None:
    """Draw the logs of a partition around an offset; None if no replica's log was dumped."""
    logs = rows_where(run.tables["logs"], topic=topic, partition=partition)
    if not logs.num_rows:
        return None
    first = max(0, offset - BEFORE)
    window = range(first, first + BEFORE + AFTER + 1)
    acknowledged = _acknowledged(joined, topic, partition, window)
    if value is None:
        value = next(iter(acknowledged.get(offset, ())), None)
    brokers = sorted({broker for broker in logs.column("broker").to_pylist() if broker is not None})
    dumps = {broker: _dump(logs, broker, window) for broker in brokers}
    common = {each: _most_common(each, dumps, acknowledged) for each in window}
    acknowledged_cells = tuple(_acknowledged_cell(each, acknowledged.get(each, ())) for each in window)
    rows = [LogRow(None, acknowledged_cells, None, None, None)]
    for broker in brokers:
        dump = dumps[broker]
        cells = tuple(_cell(each, dump, common, offset, value) for each in window)
        rows.append(LogRow(broker, cells, dump.log_start, dump.log_end, dump.high_watermark))
    return LogPicture(topic, partition, offset, value, tuple(rows))


def acknowledged_at(joined: Joined, topic: str, partition: int, offset: int) -> int | None:
    """Return the value that was acknowledged first at an offset; None if none was."""
    return next(iter(_acknowledged(joined, topic, partition, range(offset, offset + 1)).get(offset, ())), None)


def _acknowledged(joined: Joined, topic: str, partition: int, window: range) -> dict[int, tuple[int, ...]]:
    """Return offset → the values acknowledged there, in order of time. There should be one."""
    acknowledged = joined.acknowledged
    index = joined.partitions.index((topic, partition)) if (topic, partition) in joined.partitions else UNKNOWN
    offsets = acknowledged.offset
    chosen = np.flatnonzero((acknowledged.partition == index) & (offsets >= window.start) & (offsets < window.stop))
    values_at: dict[int, tuple[int, ...]] = {}
    for offset, value in zip(offsets[chosen].tolist(), acknowledged.value[chosen].tolist(), strict=True):
        values_at[offset] = (*values_at.get(offset, ()), value)
    return values_at


def _acknowledged_cell(offset: int, values: tuple[int, ...]) -> LogCell:
    if not values:
        return LogCell(offset, None, None, "not-sent")
    return LogCell(offset, values[0], None, "agrees", also=values[1:])


_Record = tuple[int | None, int | None]
"""(leader epoch, value)"""


class _Dump(NamedTuple):
    """What of a replica's log was dumped."""

    records: Mapping[int, _Record]
    """Offset → record, of the window."""
    log_start: int
    log_end: int
    high_watermark: int | None


def _dump(logs: pa.Table, broker: int, window: range) -> _Dump:
    mine = rows_where(logs, broker=broker)
    offsets = integers(mine, "offset", null=UNKNOWN)
    inside = mine.filter(pa.array((offsets >= window.start) & (offsets < window.stop)))
    records = {
        row["offset"]: (row["leader_epoch"], row["value"])
        for row in inside.select(["offset", "leader_epoch", "value"]).to_pylist()
    }
    high_watermark: int | None = pc.max(mine.column("high_watermark")).as_py()
    return _Dump(records, int(offsets.min()), int(offsets.max()) + 1, high_watermark)


def _most_common(
    offset: int,
    dumps: Mapping[int, _Dump],
    acknowledged: Mapping[int, tuple[int, ...]],
) -> _Record | None:
    """Return the record that most replicas hold at an offset; of equally common ones the acknowledged one."""
    votes = Counter(dump.records[offset] for dump in dumps.values() if offset in dump.records)
    acknowledged_there = acknowledged.get(offset, ())
    return max(votes, key=lambda record: (votes[record], record[1] in acknowledged_there, str(record)), default=None)


def _cell(
    offset: int,
    dump: _Dump,
    common: Mapping[int, _Record | None],
    in_question: int,
    value: int | None,
) -> LogCell:
    record = dump.records.get(offset)
    agreement: Agreement
    if record is None:
        agreement = "past-end" if offset >= dump.log_end else "absent"
    else:
        agreement = "agrees" if record == common[offset] else "differs"
    epoch, held = record or (None, None)
    missing = offset == in_question and value is not None and held != value and offset >= dump.log_start
    return LogCell(offset, held, epoch, agreement, missing=missing)
