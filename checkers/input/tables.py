"""Reads the history tables of run directories, whole or broken, and of data sets.

Small tables (settings, faults, phases, ends, workers) are read at once; large ones become Spark frames over all
runs. Whatever cannot be read is left out and named: a `Gap` is a reason for the verdict `unknown`, never an error.

A data set holds the histories of many runs in the same part files, as a sweep of simulations writes them: a directory
like a run's, `history/<table>/part-*.parquet`. Only the column `run_id` separates its runs, so that ten thousand of
them are a few files, and one job.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from history.parts import part_files
from history.reader import load_table
from history.schema import LATER_COLUMNS, TABLES

LARGE_TABLES = ("operations", "sends", "polls", "reads", "commands", "commits", "ownerships", "cluster", "logs")
"""Tables that grow with the length of a run; only Spark reads them."""

REQUIRED_TABLES = ("runs", "operations", "sends", "polls", "ends", "phases", "workers")
"""Without one of these a history cannot be decided. A run may well have no faults, no commands, no groups, no
administration, no samples and no dumped logs; and if `reads` is missing, the polls say how many records it should
hold."""

REMOTE_PARTS = "remote.json"
"""Beside the parts of a large table: a list of parts that only Spark can reach (`checkers.input.remote`)."""

_SPARK_GLOB = re.compile(r"([\[\]{}*?\\])")


@dataclass(frozen=True)
class Gap:
    """Something that a history should hold and does not."""

    table: str
    reason: str


@dataclass(frozen=True)
class Parts:
    """The part files of one large table of one run that can be read, and the rows that they promise."""

    files: tuple[Path, ...]
    rows: int
    remote: tuple[str, ...] = ()
    """URIs of parts that are not on this machine."""


@dataclass(frozen=True)
class RunFiles:
    """What one run directory holds."""

    directory: Path
    run_id: str
    small: Mapping[str, tuple[Mapping[str, Any], ...]]
    """Rows of the small tables that belong to this run."""
    large: Mapping[str, Parts]
    gaps: tuple[Gap, ...]


def survey(directory: Path) -> RunFiles:
    """Look at a run directory: read its small tables, find the readable parts of its large ones."""
    gaps: list[Gap] = []
    small: dict[str, list[Mapping[str, Any]]] = {}
    large: dict[str, Parts] = {}
    for table, schema in TABLES.items():
        if table in LARGE_TABLES:
            large[table] = survey_parts(directory, table, schema, gaps)
        else:
            loaded = load_table(directory, table)
            small[table] = loaded.table.to_pylist()
            gaps += [Gap(table, f"a part of the table {table} cannot be read ({line})") for line in loaded.skipped]
        found = large[table].rows > 0 if table in LARGE_TABLES else bool(small[table])
        if not found and table in REQUIRED_TABLES:
            gaps.append(Gap(table, f"the table {table} is missing or empty"))
    run_id = _run_id(directory, small, large)
    own: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for table, rows in small.items():
        own[table] = tuple(row for row in rows if row["run_id"] == run_id)
        if len(own[table]) < len(rows):
            gaps.append(Gap(table, f"the table {table} holds rows of another run"))
    return RunFiles(directory, run_id, own, large, tuple(gaps))


def read_large(spark: SparkSession, runs: Sequence[RunFiles], table: str) -> DataFrame:
    """Unite one large table over all runs; empty, with the right columns, when no run has it."""
    schema = from_arrow_schema(TABLES[table])
    paths = [path for run in runs for path in _spark_paths(run.large[table])]
    if not paths:
        return spark.createDataFrame(TABLES[table].empty_table())
    return spark.read.schema(schema).parquet(*paths).where(fn.col("run_id").isNotNull())


def survey_parts(directory: Path, table: str, schema: pa.Schema, gaps: list[Gap]) -> Parts:
    """Find the readable parts of a large table; the others are added to `gaps`."""
    files = []
    rows = 0
    for path in part_files(directory / "history" / table):
        try:
            with pq.ParquetFile(path) as file:
                problem = schema_problem(file.schema_arrow, schema)
                count = int(file.metadata.num_rows)
        except (OSError, pa.ArrowException) as error:
            problem = next(iter(str(error).splitlines()), "") or type(error).__name__
        if problem is not None:
            gaps.append(Gap(table, f"a part of the table {table} cannot be read ({path.name}: {problem})"))
        elif count:
            files.append(path)
            rows += count
    remote = _remote_parts(directory / "history" / table / REMOTE_PARTS, table, gaps)
    return Parts(tuple(files), rows + sum(remote.values()), tuple(remote))


def _remote_parts(listed: Path, table: str, gaps: list[Gap]) -> dict[str, int]:
    """Return the rows of each readable part on a list, by its URI; the others are added to `gaps`."""
    rows = {}
    for part in json.loads(listed.read_text()) if listed.is_file() else ():
        if "problem" in part:
            gaps.append(Gap(table, f"a part of the table {table} cannot be read ({part['uri']}: {part['problem']})"))
        elif part["rows"]:
            rows[part["uri"]] = part["rows"]
    return rows


def schema_problem(found: pa.Schema, wanted: pa.Schema) -> str | None:
    """Return what a part's columns lack of those wanted, or None."""
    for field in wanted:
        index = found.get_field_index(field.name)
        if index < 0 and field.name in LATER_COLUMNS:
            continue  # null in all rows
        if index < 0:
            return f"no column {field.name}"
        if not _same_type(found.field(index).type, field.type):
            return f"column {field.name} is {found.field(index).type}, not {field.type}"
    return None


def _same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_list(wanted):
        return bool(pa.types.is_list(found) and found.value_type == wanted.value_type)
    return bool(found == wanted)


def _run_id(directory: Path, small: Mapping[str, list[Mapping[str, Any]]], large: Mapping[str, Parts]) -> str:
    """Take the id from the table of runs, else from any row, else from the directory's name."""
    rows = (row["run_id"] for table in ("runs", *small) for row in small[table])
    return next((run_id for run_id in (*rows, *_ids_in_parts(large)) if run_id is not None), directory.name)


def _ids_in_parts(large: Mapping[str, Parts]) -> Iterator[str | None]:
    for parts in large.values():
        for path in parts.files[:1]:
            try:
                with pq.ParquetFile(path) as file:
                    batch = next(file.iter_batches(batch_size=1, columns=["run_id"]), None)
            except (OSError, pa.ArrowException):
                continue
            if batch is not None:
                yield from batch.column(0).to_pylist()


def _spark_paths(parts: Parts) -> Iterator[str]:
    yield from ("file://" + _literal(str(file.resolve())) for file in parts.files)
    yield from map(_literal, parts.remote)


def _literal(path: str) -> str:
    """Escape a path so that Spark does not expand it."""
    return _SPARK_GLOB.sub(r"\\\1", path)


def survey_dataset(directory: Path) -> list[RunFiles]:
    """Return the runs in a data set's table `runs`, sorted. Results of a run are written to `runs/<run id>` in it."""
    gaps: list[Gap] = []
    small = {table: _rows_by_run(directory, table, gaps) for table in TABLES if table not in LARGE_TABLES}
    parts = {table: survey_parts(directory, table, TABLES[table], gaps) for table in LARGE_TABLES}
    rows = {table: _counts_by_run(directory, table) for table in LARGE_TABLES}
    runs = []
    for index, run_id in enumerate(sorted(small["runs"])):
        missing = [
            Gap(table, f"the table {table} is missing or empty")
            for table in REQUIRED_TABLES
            if not (rows[table][run_id] if table in LARGE_TABLES else small[table].get(run_id))
        ]
        runs.append(
            RunFiles(
                directory / "runs" / run_id,
                run_id,
                {table: tuple(by_run.get(run_id, ())) for table, by_run in small.items()},
                # the files hold the rows of all runs: only the first run lists them, so that they are read once
                {table: Parts(parts[table].files if index == 0 else (), rows[table][run_id]) for table in LARGE_TABLES},
                (*gaps, *missing),
            )
        )
    return runs


def share_files(runs: Iterable[RunFiles]) -> bool:
    """Whether some runs are of a data set: their rows are in files that only the first of them lists."""
    return any(parts.rows and not parts.files and not parts.remote for run in runs for parts in run.large.values())


def _rows_by_run(directory: Path, table: str, gaps: list[Gap]) -> Mapping[str, list[Mapping[str, Any]]]:
    loaded = load_table(directory, table)
    gaps += [Gap(table, f"a part of the table {table} cannot be read ({line})") for line in loaded.skipped]
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for row in loaded.table.to_pylist():
        if row["run_id"] is not None:
            by_run.setdefault(row["run_id"], []).append(row)
    return by_run


def _counts_by_run(directory: Path, table: str) -> Counter[str]:
    column = load_table(directory, table, ["run_id"]).table.column("run_id")
    counts: Counter[str] = Counter()
    for entry in pc.value_counts(column).to_pylist():
        counts[entry["values"]] = entry["counts"]
    return counts
