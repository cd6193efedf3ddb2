"""The kernel of screening on stretches made by hand: ordinary records pass, all others are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from checkers.screening.stretches import (
    ACKNOWLEDGED,
    BAD,
    BROKER_SHIFT,
    FINAL,
    LOG,
    MALFORMED,
    MARKS_SHIFT,
    NO_EPOCH,
    NOWHERE,
    READ,
    SEND,
    STRETCH_BITS,
    VALUELESS,
    WATERMARK,
    ScreeningNote,
    Suspicion,
    screen,
    screen_batches,
    suspicion_of,
)

PARTITION = 7
ELSEWHERE = -3
BROKERS = (1, 2, 3)
ORDINARY = Suspicion(frozenset(), ())
SUSPECT = Suspicion(frozenset({PARTITION}), ())


@dataclass(frozen=True)
class Row:
    kind: int
    offset: int
    value: int
    partition_key: int = PARTITION
    epoch: int = NO_EPOCH
    op: int = 0
    marks: int = 0
    broker: int = 0
    crc: int = 0
    high_watermark: int = 0


COLUMNS = ("partition_key", "kind", "offset", "value", "epoch", "op", "marks", "broker", "crc")


def ordinary(length: int, partition_key: int = PARTITION, first: int = 0) -> list[Row]:
    """A partition whose values are 1,000 more than their offsets, read twice, on three brokers."""
    rows = []
    for offset in range(first, first + length):
        value = offset + 1_000
        rows.append(Row(SEND, offset, value, partition_key, marks=ACKNOWLEDGED))
        rows += [Row(READ, offset, value, partition_key, epoch=offset // 5, op=op, marks=op) for op in (0, FINAL)]
        logs = (Row(LOG, offset, value, partition_key, epoch=offset // 5, broker=broker) for broker in BROKERS)
        rows += [replace(row, high_watermark=first + length, crc=offset) for row in logs]
    return rows


def notes_of(rows: Sequence[Row]) -> list[ScreeningNote]:
    return list(screen({name: np.array([getattr(row, name) for row in rows], np.int64) for name in COLUMNS}))


def together(notes: Iterable[ScreeningNote]) -> Suspicion:
    return suspicion_of(pa.Table.from_pylist([note._asdict() for note in notes], schema=SCHEMA))


SCHEMA = pa.schema([("note", pa.int32()), *((name, pa.int64()) for name in ScreeningNote._fields[1:])])


def suspicion(rows: Sequence[Row]) -> Suspicion:
    """Each stretch is another task's."""
    tasks: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        tasks.setdefault((row.partition_key, row.offset >> STRETCH_BITS), []).append(row)
    return together([*watermarks(rows), *(note for task in tasks.values() for note in notes_of(task))])


def watermarks(rows: Sequence[Row]) -> list[ScreeningNote]:
    """Notes on high watermarks, which the kernel does not write."""
    high_watermarks: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        if row.kind == LOG:
            high_watermarks.setdefault((row.partition_key, row.broker), []).append(row.high_watermark)
    return [
        ScreeningNote(WATERMARK, partition_key, a=broker, b=min(all_), c=max(all_))
        for (partition_key, broker), all_ in high_watermarks.items()
    ]


def changed(change: Callable[[Row], Row], *, kind: int, offset: int = 7, broker: int = 0) -> list[Row]:
    """An ordinary partition of ten records in which one row is another."""
    rows = ordinary(10)
    index = next(
        number
        for number, row in enumerate(rows)
        if (row.kind, row.offset) == (kind, offset) and row.broker in (broker, broker or row.broker)
    )
    rows[index] = change(rows[index])
    return rows


def test_what_agrees_everywhere_is_dull() -> None:
    assert suspicion(ordinary(10)) == ORDINARY


def test_what_agrees_along_many_stretches_is_dull() -> None:
    first = (1 << STRETCH_BITS) - 4
    assert suspicion(ordinary(8, first=first)) == ORDINARY


SUSPECTS = {
    "a read of another value": changed(lambda row: replace(row, value=5), kind=READ),
    "a send of another value": changed(lambda row: replace(row, value=5), kind=SEND),
    "a read without a value": changed(lambda row: replace(row, marks=row.marks | VALUELESS), kind=READ),
    "a malformed row": changed(lambda row: replace(row, marks=BAD), kind=READ),
    "a poll that returned an offset twice": [*ordinary(10), Row(READ, 7, 1_007, epoch=1)],
    "a log with another value": changed(lambda row: replace(row, value=5), kind=LOG, broker=2),
    "a log with another epoch": changed(lambda row: replace(row, epoch=0), kind=LOG, broker=2),
    "a log with other bytes": changed(lambda row: replace(row, crc=5), kind=LOG, broker=2),
    "a log with a record without a value": [
        replace(row, marks=VALUELESS) if (row.kind, row.offset) == (LOG, 7) else row for row in ordinary(10)
    ],
    "a log with a record twice": [*ordinary(10), replace(ordinary(10)[-1], offset=7, value=1_007, epoch=1, crc=7)],
    "a log with a hole": [row for row in ordinary(10) if (row.offset, row.broker) != (7, 3)],
    "a log that lacks a whole stretch": [
        row
        for row in ordinary(8, first=(1 << STRETCH_BITS) - 4)
        if row.broker != 3 or row.offset < 1 << STRETCH_BITS
    ],
    "a log with two high watermarks": changed(lambda row: replace(row, high_watermark=5), kind=LOG, broker=2),
    "reads of falling epochs": changed(lambda row: replace(row, epoch=0), kind=READ),
    "reads of epochs that fall between stretches": [
        replace(row, epoch=0) if row.kind == READ and row.offset >= 1 << STRETCH_BITS else row
        for row in ordinary(8, first=(1 << STRETCH_BITS) - 4)
    ],
    "logs of epochs that fall between stretches": [
        replace(row, epoch=0) if row.kind == LOG and row.offset >= 1 << STRETCH_BITS else row
        for row in ordinary(8, first=(1 << STRETCH_BITS) - 4)
    ],
}  # fmt: skip


@pytest.mark.parametrize("rows", SUSPECTS.values(), ids=SUSPECTS)
def test_a_partition_is_suspect_for(rows: list[Row]) -> None:
    others = ordinary(10, ELSEWHERE)
    assert suspicion([*others, *rows]) == SUSPECT


SUSPECT_VALUES = {
    "a send of unknown outcome": ([*ordinary(10), Row(SEND, NOWHERE, 5)], 5),
    "a send that is not acknowledged": (changed(lambda row: replace(row, marks=0), kind=SEND), 1_007),
    "a value that the final reads do not show": (
        [replace(row, marks=0) if (row.kind, row.offset) == (READ, 7) else row for row in ordinary(10)],
        1_007,
    ),
    "a value that was never sent": (
        [row for row in ordinary(10) if (row.kind, row.offset) != (SEND, 7)],
        1_007,
    ),
    "a value that is read at another offset too": ([*ordinary(10), Row(READ, 10, 1_003, epoch=2, marks=FINAL)], 1_003),
}


@pytest.mark.parametrize(("rows", "value"), SUSPECT_VALUES.values(), ids=SUSPECT_VALUES)
def test_a_value_is_suspect_that_is(rows: list[Row], value: int) -> None:
    assert suspicion(rows) == Suspicion(frozenset(), ((PARTITION, value),))


def test_a_log_need_not_have_what_is_above_its_high_watermark() -> None:
    behind = [
        replace(row, high_watermark=1 << STRETCH_BITS)
        if row.broker == 3
        else row
        for row in ordinary(8, first=(1 << STRETCH_BITS) - 4)
        if row.broker != 3 or row.offset < 1 << STRETCH_BITS
    ]  # fmt: skip
    assert suspicion(behind) == ORDINARY


def test_a_partition_with_too_many_suspect_values_is_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.screening.stretches.VALUES_MAX", 3)
    sends = [Row(SEND, NOWHERE, value) for value in range(4)]
    assert suspicion(sends) == SUSPECT
    assert suspicion(sends[1:]) == Suspicion(frozenset(), tuple((PARTITION, value) for value in range(1, 4)))


def test_a_partition_with_too_many_suspect_values_in_all_tasks_is_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.screening.stretches.VALUES_OF_A_PARTITION_MAX", 1)
    tasks = [notes_of([Row(SEND, NOWHERE, value)]) for value in range(2)]
    assert together(tasks[0]).values == ((PARTITION, 0),)
    assert together([*tasks[0], *tasks[1]]) == SUSPECT


def test_a_partition_whose_records_are_too_far_apart_is_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.screening.stretches.NOTES_MAX", 12)
    rows = [row for stretch in range(3) for row in ordinary(1, first=stretch << STRETCH_BITS)]
    rows = [replace(row, high_watermark=3 << STRETCH_BITS) if row.kind == LOG else row for row in rows]
    assert together([*watermarks(rows), *notes_of(rows)]) == SUSPECT
    fewer = [row for row in rows if row.offset < 2 << STRETCH_BITS]
    assert together([*watermarks(rows), *notes_of(fewer)]) == ORDINARY


def test_nothing_is_dull() -> None:
    assert suspicion([]) == ORDINARY
    assert list(screen_batches([])) == []
    assert notes_of([]) == []


def test_rows_come_in_batches_and_notes_leave_in_one() -> None:
    rows = [*ordinary(10), Row(SEND, NOWHERE, 5), Row(LOG, 10, 1_010, broker=-1, marks=VALUELESS, crc=3)]
    tags = [row.kind + (row.marks << MARKS_SHIFT) + (row.broker << BROKER_SHIFT) for row in rows]
    columns = {name: [getattr(row, name) for row in rows] for name in ("partition_key", "offset", "value", "epoch")}
    columns |= {"detail": [row.op if row.kind == READ else row.crc for row in rows], "tag": tags}
    table = pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})
    (batch,) = screen_batches(table.to_batches(max_chunksize=3))
    assert [ScreeningNote(*row.values()) for row in batch.to_pylist()] == notes_of(rows)


def test_malformed_rows_are_reported_separately() -> None:
    assert together([ScreeningNote(MALFORMED, 0)]) == Suspicion(frozenset(), (), malformed=True)
