"""Screens a short run as a long one is, in small pieces: its tasks run in this process, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.input.run_facts import facts_of
from checkers.input.tables import LARGE_TABLES, survey
from checkers.screening import stretches
from checkers.screening.columns import Longs
from checkers.screening.long import blocks, chunks
from checkers.screening.long import recognise as dividing
from checkers.screening.long.blocks import GroupKey
from checkers.screening.long.chunks import ClientChunk
from checkers.screening.long.groups import Order
from checkers.screening.long.reading import Item, read_chunk
from checkers.screening.long.recognise import (
    Resolved,
    Screened,
    SuspectRun,
    Work,
    order_task,
    recognised,
    rows_of_values,
    screen_task,
    work_on,
)
from checkers.screening.ordinary.counting import OrdinaryRun

ROWS_OF_A_PART = 7


class LocalEngine:
    """Does what `checkers.screening.long.recognise.SparkEngine` does."""

    def __init__(self, work: Work) -> None:
        self._work = work

    @cached_property
    def _exchanged(self) -> Mapping[int, list[tuple[int, Item]]]:
        tasks: dict[int, list[tuple[int, Item]]] = {}
        for chunk in self._work.chunks:
            for task, item in read_chunk(chunk, self._work.facts, self._work.layout):
                tasks.setdefault(task, []).append((task, item))
        return tasks

    def screened(self) -> Iterable[Screened]:
        """Screen what each task gets."""
        for items in self._exchanged.values():
            yield from screen_task(items, self._work.facts, self._work.samples, self._work.layout)

    def orders(self, resolved: Resolved) -> Iterable[tuple[GroupKey, Order]]:
        """Order some groups again."""
        for task in sorted({self._work.layout.task_of(key) for key in resolved}):
            yield from order_task(self._exchanged[task], resolved)

    def rows_of_values(self, values: Longs) -> Iterable[Mapping[str, pa.Table]]:
        """Read the rows of some values."""
        for chunk in self._work.chunks:
            if isinstance(chunk, ClientChunk):
                yield from rows_of_values(chunk, values)


@contextmanager
def small_pieces() -> Iterator[None]:
    """Divide short histories as finely as long ones."""
    with (
        mock.patch.object(chunks, "ROWS_OF_A_CHUNK", 9),
        mock.patch.object(chunks, "TIMES_READ_MAX", 1 << 30),
        mock.patch.object(dividing, "ROWS_OF_A_TASK", 9),
        mock.patch.object(dividing, "POLLS_OF_A_TASK", 2),
    ):
        yield


@contextmanager
def small_groups() -> Iterator[None]:
    """Screen few offsets together; in this process alone."""
    with (
        mock.patch.object(stretches, "STRETCH_BITS", 1),
        mock.patch.object(blocks, "GROUP_BITS", 2),
        mock.patch.object(dividing, "GROUP_BITS", 2),
        mock.patch.object(blocks, "VALUE_BITS", 2),
    ):
        yield


def scatter(run: Path) -> None:
    """Write the rows of each large table to many part files, of many row groups each."""
    for table in LARGE_TABLES:
        for part in sorted((run / "history" / table).glob("*.parquet")):
            rows = pq.read_table(part)
            for begin in range(0, rows.num_rows, ROWS_OF_A_PART):
                piece = rows.slice(begin, ROWS_OF_A_PART)
                pq.write_table(piece, part.with_name(f"part-s-{begin:06d}.parquet"), row_group_size=3)
            part.unlink()


def screened(run: Path) -> OrdinaryRun | SuspectRun | None:
    """Screen a run in small pieces."""
    found = survey(run)
    facts = facts_of(found)
    work = work_on(found, facts, 3)
    with small_groups():
        return None if work is None else recognised(LocalEngine(work), facts)
