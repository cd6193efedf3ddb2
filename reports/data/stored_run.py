"""Loads a stored run: its files, and a list of what was missing or broken.

No content of a run directory raises: it becomes a `Run`, and what could not be read becomes a line in
`Run.problems`, which reports show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from history.reader import load_table
from history.schema import TABLES
from reports.data.columns import integers, rows_where

EXPECTED_TABLES = (
    "runs",
    "operations",
    "sends",
    "polls",
    "reads",
    "cluster",
    "logs",
    "ends",
    "phases",
    "workers",
)
"""Tables that every whole run has. Without faults there is no `faults`, without anomalies no `anomalies`."""


class RunNotFoundError(Exception):
    """The directory holds no run. The message is one line: what was expected."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run directory, in memory."""

    directory: Path
    spec: Mapping[str, Any]
    """`spec.json`, or else the specification kept in the table `runs`; empty if there is neither."""
    schedule: object
    results: Mapping[str, Any]
    """`results.json`; empty if the run was not checked."""
    tables: Mapping[str, pa.Table]
    """Every table of the history, and "anomalies"; a missing one is empty."""
    problems: tuple[str, ...]
    """What is missing from the directory or could not be read, one sentence each."""

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """The row of the table `runs`; empty if there is none."""
        rows: list[dict[str, Any]] = self.tables["runs"].slice(0, 1).to_pylist()
        return rows[0] if rows else {}

    def number(self, name: str) -> int | None:
        """Return an integer setting by its name in the table `runs` or in the specification, if it is known."""
        value = self._setting(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, name: str) -> bool | None:
        """Return a yes-or-no setting, if it is known."""
        value = self._setting(name)
        return value if isinstance(value, bool) else None

    def text(self, name: str) -> str | None:
        """Return a setting as text, if it is known."""
        value = self._setting(name)
        return None if value is None else str(value)

    def _setting(self, name: str) -> object:
        for source in (self.settings, self.spec):
            value = source.get(name)
            if value is not None:
                return value
        return None

    @cached_property
    def faults(self) -> list[dict[str, Any]]:
        """The rows of `faults`, in the order of their start."""
        rows: list[dict[str, Any]] = self.tables["faults"].to_pylist()
        return sorted(rows, key=lambda row: (row["started_ns"] or 0, row["fault"] or 0))

    @cached_property
    def troubles(self) -> list[dict[str, Any]]:
        """The rows of `troubles`, in the order of their times."""
        rows: list[dict[str, Any]] = self.tables["troubles"].to_pylist()
        return sorted(rows, key=lambda row: row["at_ns"] or 0)

    @cached_property
    def phases(self) -> list[dict[str, Any]]:
        """The rows of `phases`, in the order of their start."""
        rows: list[dict[str, Any]] = self.tables["phases"].to_pylist()
        return sorted(rows, key=lambda row: row["started_ns"] or 0)

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """The first and the last moment that anything is known of; (0, 0) for an empty history."""
        times = [
            integers(self.tables[table], column, null=-1)
            for table, column in (
                ("operations", "invoked_ns"),
                ("operations", "completed_ns"),
                ("faults", "started_ns"),
                ("faults", "ended_ns"),
                ("cluster", "at_ns"),
                ("quorum", "at_ns"),
            )
        ]
        known = [(int(column[column >= 0].min()), int(column.max())) for column in times if (column >= 0).any()]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else (0, 0)

    @cached_property
    def main_end_ns(self) -> int:
        """When the main phase ended: from `phases`, or else the last completion of one of its operations."""
        for phase in self.phases:
            if phase["phase"] == "main" and phase["ended_ns"] is not None:
                return int(phase["ended_ns"])
        main = rows_where(self.tables["operations"], phase="main")
        completed = integers(main, "completed_ns", null=-1)
        return int(completed.max()) if completed.size else self.span_ns[1]


def load_run(directory: Path) -> Run:
    """Load a run directory; `RunNotFoundError` if there is none; any other defect becomes a problem of the run."""
    if not directory.is_dir():
        raise RunNotFoundError(
            f"expected the directory of a run, found nothing at {directory}: name one under the store"
        )
    problems: list[str] = []
    tables: dict[str, pa.Table] = {}
    for name in (*TABLES, "anomalies"):
        loaded = load_table(directory, name)
        tables[name] = loaded.table
        if not loaded.parts and name in EXPECTED_TABLES:
            problems.append(f"The table {name} is missing.")
        problems += [f"A part of the table {name} could not be read: {line}." for line in loaded.skipped]
    spec = _read_object(directory / "spec.json", problems) or _spec_of(tables["runs"])
    schedule = _read_json(directory / "schedule.json", problems)
    results = _read_object(directory / "results.json", problems)
    return Run(directory, spec, schedule, results, tables, tuple(problems))


def _spec_of(runs: pa.Table) -> Mapping[str, Any]:
    for text in runs.column("spec").to_pylist():
        try:
            spec = json.loads(text or "null")
        except ValueError:
            continue
        if isinstance(spec, dict):
            return spec
    return {}


def _read_object(path: Path, problems: list[str]) -> Mapping[str, Any]:
    content = _read_json(path, problems)
    if content is None:
        return {}
    if not isinstance(content, dict):
        problems.append(f"{path.name} should hold a JSON object and holds a {type(content).__name__}.")
        return {}
    return content


def _read_json(path: Path, problems: list[str]) -> object:
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
        return content
    except FileNotFoundError:
        problems.append(f"{path.name} is missing.")
    except (OSError, ValueError) as error:
        problems.append(f"{path.name} could not be read: {error}.")
    return None
