"""The rows of the table `repeats`: one for each copy of a value that a log holds more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from history.repeats import Producer, Repeats

Copy = tuple[int | None, int, Producer | None]


def rows_of(log: Sequence[Copy]) -> list[tuple[Any, ...]]:
    repeats = Repeats(2, "log", 5)
    rows = [row for record in log for row in repeats.found(*record)]
    assert all((row["broker"], row["topic"], row["partition"]) == (2, "log", 5) for row in rows)
    names = ("value", "offset", "producer_id", "producer_epoch", "sequence")
    return [tuple(row[name] for name in names) for row in rows]


def test_values_that_are_there_once_leave_no_rows() -> None:
    assert rows_of([(100, 0, (7, 0, 0)), (101, 1, (7, 0, 1)), (None, 2, None), (None, 3, None)]) == []


def test_every_copy_of_a_value_has_a_row_with_its_own_producer() -> None:
    log = [(100, 0, (7, 0, 0)), (101, 1, (7, 0, 1)), (100, 2, (7, 1, 0)), (100, 3, None)]
    assert rows_of(log) == [(100, 0, 7, 0, 0), (100, 2, 7, 1, 0), (100, 3, None, None, None)]
