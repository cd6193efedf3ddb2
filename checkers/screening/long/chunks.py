"""Divides the files of a long run into chunks for tasks: operations with all their rows, and rows of dumped logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.input.tables import RunFiles
from checkers.screening.columns import numbers, read_part, united
from history.schema import TABLES

ROWS_OF_A_CHUNK: Final = 600_000
"""A task that reads a chunk takes some 500 bytes for each row."""
LARGER_CHUNKS: Final = (1, 2, 4)
"""How many times as large chunks may be where row groups are so large that each would be read by many tasks."""
TIMES_READ_MAX: Final = 3
"""If operations are so scattered over the files that a row would be read more often, the run is not divided."""
CLIENT_TABLES: Final = ("operations", "sends", "polls", "reads")


@dataclass(frozen=True)
class RowGroup:
    """A part of a Parquet file."""

    path: Path
    number: int
    rows: int
    first_op: int = 0
    last_op: int = 0


@dataclass(frozen=True)
class ClientChunk:
    """The operations with numbers from `first_op` to `last_op`, and the row groups that have any row of them."""

    first_op: int
    last_op: int
    row_groups: Mapping[str, tuple[RowGroup, ...]]

    def read(self, table: str) -> pa.Table:
        """Read the rows of these operations. Raises `OSError`, `pa.ArrowException` and `UnicodeDecodeError`."""
        parts = []
        for path, chosen in _by_path(self.row_groups[table]):
            part = read_part(path, TABLES[table], [each.number for each in chosen])
            if any(each.first_op < self.first_op or each.last_op > self.last_op for each in chosen):
                op = numbers(part, "op")
                part = part.filter(pa.array((op >= self.first_op) & (op <= self.last_op)))
            parts.append(part)
        return united(parts, TABLES[table])


@dataclass(frozen=True)
class LogChunk:
    """Some row groups of dumped logs."""

    row_groups: tuple[RowGroup, ...]

    def read(self) -> pa.Table:
        """Read all rows. Raises `OSError`, `pa.ArrowException` and `UnicodeDecodeError`."""
        groups = _by_path(self.row_groups)
        parts = [read_part(path, TABLES["logs"], [each.number for each in chosen]) for path, chosen in groups]
        return united(parts, TABLES["logs"])


def client_chunks(run: RunFiles) -> list[ClientChunk] | None:
    """Divide operations and their rows by number; None if the files do not say which operations they hold.

    A worker numbers its operations in the order of time, so each of its files holds a range of numbers.
    """
    found = {table: list(_row_groups(run.large[table].files, "op")) for table in CLIENT_TABLES}
    row_groups: dict[str, list[RowGroup]] = {}
    for table, some in found.items():
        row_groups[table] = [each for each in some if each is not None]
        if len(row_groups[table]) < len(some):
            return None
    there = sum(each.rows for some in row_groups.values() for each in some)
    for times in LARGER_CHUNKS:
        chunks = _chunks(row_groups, times * ROWS_OF_A_CHUNK)
        read = sum(each.rows for chunk in chunks for some in chunk.row_groups.values() for each in some)
        if read <= TIMES_READ_MAX * there:
            return chunks
    return None


def _chunks(row_groups: Mapping[str, Sequence[RowGroup]], rows: int) -> list[ClientChunk]:
    """Divide operations into chunks of so many rows."""
    bounds = _bounds([each for of_table in row_groups.values() for each in of_table], rows)
    chunks = []
    for first, following in zip(bounds[:-1], bounds[1:], strict=True):
        overlapping = {
            table: tuple(each for each in some if each.first_op < following and each.last_op >= first)
            for table, some in row_groups.items()
        }
        chunks.append(ClientChunk(first, following - 1, overlapping))
    return chunks


def log_chunks(run: RunFiles) -> list[LogChunk]:
    """Divide the dumped logs."""
    chunks, taken, rows = [], list[RowGroup](), 0
    for each in _row_groups(run.large["logs"].files):
        if each is not None:
            taken.append(each)
            rows += each.rows
            if rows >= ROWS_OF_A_CHUNK:
                chunks.append(LogChunk(tuple(taken)))
                taken, rows = [], 0
    return [*chunks, LogChunk(tuple(taken))] if taken else chunks


def _row_groups(files: Iterable[Path], column: str | None = None) -> Iterator[RowGroup | None]:
    """Yield the row groups of some files, None for one that does not tell the least and greatest of a column."""
    for path in files:
        metadata = pq.read_metadata(path)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if not group.num_rows:
                continue
            if column is None:
                yield RowGroup(path, number, group.num_rows)
                continue
            columns = map(group.column, range(group.num_columns))
            found = next((each.statistics for each in columns if each.path_in_schema == column), None)
            if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
                yield None
            else:
                yield RowGroup(path, number, group.num_rows, found.min, found.max)


def _bounds(row_groups: Sequence[RowGroup], rows_of_a_chunk: int) -> list[int]:
    """Return where chunks begin, and one more than the greatest number: as if rows lay evenly in each row group."""
    if not row_groups:
        return []
    edges = np.array(sorted({number for each in row_groups for number in (each.first_op, each.last_op + 1)}))
    first, end, rows = (
        np.array(column)
        for column in zip(*((each.first_op, each.last_op + 1, each.rows) for each in row_groups), strict=True)
    )
    slope = np.zeros(edges.size)
    density = rows / (end - first)
    np.add.at(slope, np.searchsorted(edges, first), density)
    np.add.at(slope, np.searchsorted(edges, end), -density)
    before = np.append(0.0, np.cumsum(np.cumsum(slope)[:-1] * np.diff(edges).astype(np.float64)))
    wanted = np.arange(rows_of_a_chunk, before[-1] - rows_of_a_chunk // 2, rows_of_a_chunk)
    at = np.searchsorted(before, wanted)
    left, right = edges[at - 1], edges[at]
    share = (wanted - before[at - 1]) / np.maximum(before[at] - before[at - 1], 1e-9)
    inner = left + np.ceil(share * (right - left)).astype(np.int64)
    return sorted({int(edges[0]), int(edges[-1]), *np.minimum(inner, right).tolist()})


def _by_path(row_groups: Iterable[RowGroup]) -> Iterator[tuple[Path, list[RowGroup]]]:
    of_path: dict[Path, list[RowGroup]] = {}
    for each in row_groups:
        of_path.setdefault(each.path, []).append(each)
    yield from of_path.items()
