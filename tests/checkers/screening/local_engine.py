"""Runs the tasks on a long run in this process, one after the other, as Spark does in many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import pyarrow as pa

from checkers.screening.columns import Longs
from checkers.screening.long.blocks import GroupKey
from checkers.screening.long.chunks import ClientChunk
from checkers.screening.long.groups import Order
from checkers.screening.long.reading import Item, read_chunk
from checkers.screening.long.recognise import Resolved, Screened, Work, order_task, rows_of_values, screen_task


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
            yield from screen_task(items, self._work.facts, self._work.samples)

    def orders(self, resolved: Resolved) -> Iterable[tuple[GroupKey, Order]]:
        """Order some groups again."""
        for task in sorted({self._work.layout.task_of(key) for key in resolved}):
            yield from order_task(self._exchanged[task], resolved)

    def rows_of_values(self, values: Longs) -> Iterable[Mapping[str, pa.Table]]:
        """Read the rows of some values."""
        for chunk in self._work.chunks:
            if isinstance(chunk, ClientChunk):
                yield from rows_of_values(chunk, values)
