"""Reads a run's tables, whole or broken.

A part that cannot be read is left out and named; the rest is still a table of the right schema. Nothing
here needs Spark: it serves reports, and users who analyse one run.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from history.parts import part_files
from history.schema import ANOMALIES, TABLES

_log = logging.getLogger("harrow.history")


@dataclass(frozen=True)
class LoadedTable:
    """A table and what is known to be missing from it."""

    table: pa.Table
    parts: int
    """Part files that were read; 0 means that the run has no such table."""
    skipped: tuple[str, ...]
    """One line for each part that could not be read: its name and why."""


def load_table(run_directory: Path, table: str, columns: Sequence[str] | None = None) -> LoadedTable:
    """Unite the part files of `table`, which is a name of `history.schema.TABLES` or "anomalies".

    Columns that a part does not have are null, columns that the schema does not have are dropped. `columns`
    limits the result. Raises `KeyError` for a name that is no table.
    """
    schema = ANOMALIES if table == "anomalies" else TABLES[table]
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    parts: list[pa.Table] = []
    skipped: list[str] = []
    for path in part_files(table_directory(run_directory, table)):
        try:
            parts.append(_read_part(path, schema))
        except (OSError, pa.ArrowException) as error:
            skipped.append(f"{path.name}: {_first_line(error)}")
    united = pa.concat_tables(parts) if parts else schema.empty_table()
    return LoadedTable(united, len(parts), tuple(skipped))


def read_table(run_directory: Path, table: str) -> pa.Table:
    """Unite the part files of `table`; parts that cannot be read are left out, with a warning in the log."""
    loaded = load_table(run_directory, table)
    for line in loaded.skipped:
        _log.warning("left out of table %s: %s", table, line)
    return loaded.table


def table_directory(run_directory: Path, table: str) -> Path:
    """Return the directory of a table's part files."""
    return run_directory / table if table == "anomalies" else run_directory / "history" / table


def _read_part(path: Path, schema: pa.Schema) -> pa.Table:
    with pq.ParquetFile(path) as file:
        present = set(file.schema_arrow.names)
        part = file.read(columns=[name for name in schema.names if name in present])
    return pa.table(
        [
            part.column(field.name).cast(field.type) if field.name in present else pa.nulls(part.num_rows, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
