"""Loads a stored run, whole or broken: its tables, small files and tails of logs, and columns as arrays.

No content of a run directory raises: it becomes a `Run`, and what could not be read becomes a line in
`Run.problems`, which reports show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from common.wording import FIRST_SERVER
from history.anomalies import Extent
from history.reader import load_table
from history.schema import TABLES
from incidents import Incident, diagnose, incidents_of
from incidents.evidence import Evidence, as_the_simulator_found, finding_rows
from incidents.node_logs import read_end

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


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
LOG_LINES_MAX = 40
LOGS_MAX = 24
LOG_LINE_CHARACTERS_MAX = 400
_TAIL_BYTES = 64 * 1024
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def integers(table: pa.Table, column: str, null: int) -> Integers:
    """Return an integer column, with nulls replaced by `null`."""
    filled = pc.fill_null(table.column(column).cast(pa.int64()), null)
    return np.asarray(filled.to_numpy(), dtype=np.int64)


def is_one_of(table: pa.Table, column: str, *values: object) -> Booleans:
    """Return which rows have one of these values; a null is none of them."""
    field = table.column(column)
    mask = pc.fill_null(pc.is_in(field, value_set=pa.array(values, field.type)), False)
    return np.asarray(mask.to_numpy(zero_copy_only=False), dtype=np.bool_)


def rows_where(table: pa.Table, **wanted: object) -> pa.Table:
    """Return the rows whose columns equal the given values."""
    mask = np.ones(table.num_rows, dtype=np.bool_)
    for column, value in wanted.items():
        mask &= is_one_of(table, column, value)
    return table.filter(pa.array(mask))


def partitions_of(table: pa.Table) -> list[tuple[str, int]]:
    """Return the distinct (topic, partition) of a table, sorted; rows without them are ignored."""
    pairs = table.select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([]).to_pylist()
    known = [pair for pair in pairs if pair["topic"] is not None and pair["partition"] is not None]
    return sorted((str(pair["topic"]), int(pair["partition"])) for pair in known)


def counts_by(table: pa.Table, *columns: str) -> dict[tuple[str, ...], int]:
    """Count rows by the values of some columns, a null counted as "unknown"."""
    rows = table.group_by(list(columns)).aggregate([([], "count_all")]).to_pylist()
    counts: dict[tuple[str, ...], int] = {}
    for row in rows:
        key = tuple("unknown" if row[column] is None else str(row[column]) for column in columns)
        counts[key] = counts.get(key, 0) + int(row["count_all"])
    return counts


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
    """Every table of the history, and "anomalies", whose rows have their place in it; a missing one is empty."""
    problems: tuple[str, ...]
    """What is missing from the directory or could not be read, one sentence each."""

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """The row of the table `runs`; empty if there is none."""
        rows: list[dict[str, Any]] = self.tables["runs"].slice(0, 1).to_pylist()
        return rows[0] if rows else {}

    @cached_property
    def incidents(self) -> list[Incident]:
        """What went wrong, by cause: from `results.json`, or found now if that is of an earlier release."""
        stored = incidents_of(self.results)
        return diagnose(self.directory, self.stated_totals, self.stated_extents) if stored is None else stored

    @cached_property
    def incident_of_place(self) -> Mapping[int, int]:
        """Place in the table of anomalies → number of the incident, from 1; none of what the simulator itself found."""
        return {
            place: number
            for number, incident in enumerate(self.incidents, start=1)
            for first, last in incident.rows
            for place in range(max(first, 0), min(last + 1, self.tables["anomalies"].num_rows))
        }

    @cached_property
    def stated_totals(self) -> Mapping[str, tuple[int, int]]:
        """What `results.json` counts: name → violations, and anomalies within the contract."""
        stated = self.results.get("anomalies")
        if not isinstance(stated, dict):
            return {}
        return {
            str(name): (_whole(numbers.get("violations")), _whole(numbers.get("within_contract")))
            for name, numbers in stated.items()
            if isinstance(numbers, dict)
        }

    @property
    def stated_extents(self) -> Mapping[str, Sequence[Extent]]:
        """Where `results.json` says that anomalies lie of which the table has not all."""
        stated = self.results.get("anomalies")
        found: dict[str, Sequence[Extent]] = {}
        for name, numbers in stated.items() if isinstance(stated, dict) else ():
            listed = numbers.get("partitions") if isinstance(numbers, dict) else None
            if isinstance(listed, list):
                found[name] = [_extent(one) for one in listed if isinstance(one, dict)]
        return found

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
    def on_zookeeper(self) -> bool:
        """Whether the quorum that was sampled is a ZooKeeper ensemble."""
        return bool((integers(self.tables["quorum"], "controller", null=-1) >= FIRST_SERVER).any())

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
    def main_start_ns(self) -> int | None:
        """When the main phase began; None without `phases`."""
        began = [phase["started_ns"] for phase in self.phases if phase["phase"] == "main"]
        return int(began[0]) if began and began[0] is not None else None

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
    tables["anomalies"] = with_places(_with_findings(directory, tables["anomalies"]))
    spec = _read_object(directory / "spec.json", problems) or _spec_of(tables["runs"])
    schedule = _read_json(directory / "schedule.json", problems)
    results = _read_object(directory / "results.json", problems)
    return Run(directory, spec, schedule, results, tables, tuple(problems))


def _with_findings(directory: Path, anomalies: pa.Table) -> pa.Table:
    """Add what the simulator found, unless the checkers found the same."""
    anomalies = as_the_simulator_found(anomalies, Evidence(directory).findings)
    rows = finding_rows(directory, anomalies.column("anomaly").unique().to_pylist())
    return pa.concat_tables([anomalies, pa.Table.from_pylist(rows, schema=anomalies.schema)]) if rows else anomalies


def with_places(anomalies: pa.Table) -> pa.Table:
    """Add the column `place`, from 0, by which incidents name their rows."""
    return anomalies.append_column("place", pa.array(range(anomalies.num_rows), pa.int64()))


def _extent(data: Mapping[str, Any]) -> Extent:
    topic = data.get("topic")
    partition, first, last = (
        None if data.get(key) is None else _whole(data[key]) for key in ("partition", "first_offset", "last_offset")
    )
    within = data.get("within_contract") is True
    return Extent(None if topic is None else str(topic), partition, within, _whole(data.get("number")), first, last)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


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
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} could not be read: {error}.")
    return None


class NodeLog(NamedTuple):
    """The tail of one log file, or why there is none."""

    node: str
    file: str
    lines: tuple[str, ...]


def node_logs(run_directory: Path) -> list[NodeLog]:
    """Return the tails of `nodes/<id>/*.log`, by node, at most `LOGS_MAX` of them."""
    paths = sorted((run_directory / "nodes").glob("*/*.log"), key=lambda path: (_number(path.parent.name), path.name))
    return [NodeLog(path.parent.name, path.name, _tail(path)) for path in paths[:LOGS_MAX]]


def _number(name: str) -> tuple[int, str]:
    return (int(name), name) if name.isdecimal() else (1 << 31, name)


def _tail(path: Path) -> tuple[str, ...]:
    try:
        text = read_end(path, _TAIL_BYTES)
    except OSError as error:
        return (f"could not be read: {error.strerror}",)
    return tuple(_printable(line) for line in text.splitlines()[-LOG_LINES_MAX:])


def _printable(line: str) -> str:
    line = _CONTROL.sub("�", line)
    return line if len(line) <= LOG_LINE_CHARACTERS_MAX else f"{line[:LOG_LINE_CHARACTERS_MAX]} …"
