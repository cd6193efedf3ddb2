"""Reads data sets: the histories of many runs in the same part files, as a sweep of simulations writes them.

A data set is a directory like a run's: `history/<table>/part-*.parquet`. Only the column `run_id` separates its runs,
so that ten thousand of them are a few files, and one job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from checkers.input.tables import LARGE_TABLES, REQUIRED_TABLES, Gap, Parts, RunFiles, survey_parts
from history.reader import load_table
from history.schema import TABLES


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
