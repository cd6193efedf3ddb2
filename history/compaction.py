"""Unites the part files of a run once nobody writes to it any more, so that checks and reports open few files.

A run of an hour has thousands of parts of two seconds each. Those of a writer follow each other in time, and become
files of up to two million rows in the same order, whose row groups say which operations they hold
(`checkers.screening.long.chunks` divides a run by them). A file is renamed, when it is whole and on the disk, to a name
that says which parts it holds, and only then are these removed: `history.parts` lists each row once at any moment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from common.atomic_files import replacing
from history.parts import PartName, parsed, part_files
from history.schema import TABLES

ROWS_OF_A_FILE: Final = 2_000_000
ROWS_OF_A_ROW_GROUP: Final = 131_072

_log = logging.getLogger("harrow.history")


def compact(run_directory: Path) -> None:
    """Unite the parts of each table of a run.

    Parts that cannot be read, and those that the disk has no room to unite, stay as they are. However this ends, no row
    is lost, and none counts twice.
    """
    for table, schema in TABLES.items():
        directory = run_directory / "history" / table
        for parts in _ranges(directory, schema):
            try:
                _unite(directory, parts, schema)
            except (OSError, pa.ArrowException) as error:
                _log.warning("left %s to %s of table %s as they are: %s", parts[0], parts[-1], table, error)


def _ranges(directory: Path, schema: pa.Schema) -> Iterator[list[PartName]]:
    """Yield parts of one writer that follow each other, two or more, and have no more rows than a file may have."""
    taken, rows = list[PartName](), 0
    for part in sorted(filter(None, (parsed(path.name) for path in part_files(directory)))):
        number = _rows(directory / str(part), schema)
        follows = bool(taken) and part.writer == taken[-1].writer and part.first == taken[-1].last + 1
        if number is None or not follows or rows + number > ROWS_OF_A_FILE:
            if len(taken) > 1:
                yield taken
            taken, rows = [], 0
        if number is not None:
            taken.append(part)
            rows += number
    if len(taken) > 1:
        yield taken


def _rows(path: Path, schema: pa.Schema) -> int | None:
    """Return how many rows a part says it has; None if it cannot be read, or has other columns."""
    try:
        with pq.ParquetFile(path) as file:
            return int(file.metadata.num_rows) if file.schema_arrow.equals(schema) else None
    except (OSError, pa.ArrowException):
        return None


def _unite(directory: Path, parts: Sequence[PartName], schema: pa.Schema) -> None:
    paths = [directory / str(part) for part in parts]
    united = directory / str(parts[0]._replace(last=parts[-1].last))
    with replacing(united, sync=True) as unfinished, pq.ParquetWriter(unfinished, schema) as writer:
        for rows in _row_groups(paths):
            writer.write_table(rows, row_group_size=ROWS_OF_A_ROW_GROUP)
    for path in paths:
        path.unlink()


def _row_groups(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield the rows of some parts, in tables of a row group or a little more."""
    waiting, rows = list[pa.Table](), 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            waiting.append(file.read())
        rows += waiting[-1].num_rows
        if rows >= ROWS_OF_A_ROW_GROUP:
            yield pa.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)
