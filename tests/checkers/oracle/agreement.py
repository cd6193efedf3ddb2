"""Compares the checkers with the oracle on many small random histories in one Spark job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from checkers.anomalies import SHOWN_BY, AnomalyFunction, find_anomalies
from checkers.anomalies.bookkeeping import malformed_history
from checkers.input import sizes
from checkers.input.frames import unite
from checkers.input.run_facts import facts_of
from checkers.input.sizes import Size, partitions_for, settings_for, size_of
from checkers.input.tables import survey_dataset
from checkers.relations.base import base_relations
from checkers.screening.exclusions import CONDITIONS_ON_VALUES, observed_after_heal
from checkers.screening.in_driver import screen_in_driver
from checkers.screening.long.recognise import SuspectRun
from checkers.screening.on_spark import partition_key
from checkers.screening.stretches import Suspicion
from checkers.spark import SQL_SETTINGS
from history.schema import TABLES
from tests.checkers.histories import History
from tests.checkers.oracle.arbitrary_histories import Wild
from tests.checkers.oracle.oracle import ORACLE, Key
from tests.checkers.oracle.oracle_rows import Rows
from tests.checkers.screening.local_engine import scatter, screened, small_pieces

_KEYS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(ORACLE, ("value",)),
    **dict.fromkeys(("inconsistent-offset", "divergent-replicas"), ("offset",)),
    **dict.fromkeys(("corrupt-record", "skipped-poll"), ("op", "offset")),
    **dict.fromkeys(("reordered-send", "nonmonotonic-send", "stale-read", "end-offset-regression"), ("op",)),
    **dict.fromkeys(("nonmonotonic-poll", "lost-commit", "committed-offset-regression"), ("op",)),
    "epoch-regression": ("broker", "op", "offset"),
    "two-leaders": ("offset", "at_ns"),
    "unavailable": ("what", "process"),
    "double-ownership": ("process", "at_ns"),
}
"""Columns that identify a finding among others of its kind, as the oracle has them."""


Screener = Literal["driver", "spark", "files"]
"""Who screens histories: this process, Spark, or the tasks that read the files of long runs."""


def _named(anomaly: AnomalyFunction) -> str:
    return anomaly.__name__.replace("_", "-")


_OF_VALUES, _OF_PARTITIONS = (
    frozenset(_named(anomaly) for anomaly in SHOWN_BY[what]) for what in ("values", "partitions")
)


@dataclass
class Agreement:
    """How far checkers and oracle agree."""

    histories: int = 0
    shown: Counter[str] = field(default_factory=Counter)
    """Histories that show an anomaly, by its name."""
    disagreements: list[tuple[int, str, list[Key], list[Key]]] = field(default_factory=list)
    """Seed, anomaly, what the oracle found, what the checkers did."""
    unsuspected: list[tuple[str, str]] = field(default_factory=list)
    """Run and anomaly of findings where screening suspects nothing: in a batch of its own, nothing is checked there."""

    def add(self, other: Agreement) -> None:
        """Count another batch."""
        self.histories += other.histories
        self.shown.update(other.shown)
        self.disagreements += other.disagreements
        self.unsuspected += other.unsuspected


def compare(spark: SparkSession, seeds: Sequence[int], screened_by: Screener | None) -> Agreement:
    """Check the histories of some seeds both ways. `screened_by`: None if every row is looked at."""
    histories = {seed: Wild(f"wild-{seed}", seed).history for seed in seeds}
    suspects = _suspect_runs(histories.values()) if screened_by == "files" else {}
    if screened_by == "files":
        histories = {seed: history for seed, history in histories.items() if history.name in suspects}
    result = Agreement(len(histories))
    found = _by_checkers(spark, list(histories.values()), screened_by, suspects, result.unsuspected)
    for seed, history in histories.items():
        rows = Rows.of(history)
        checked = found.get(history.name, {})
        wanted = {anomaly: set(find(rows)) for anomaly, find in ORACLE.items()}
        # The oracle does not say which of the two is reported where both are true.
        reported = checked.get("reordered-send", set())
        if reported <= wanted["reordered-send"]:
            checked["reordered-send"] = reported | checked.get("nonmonotonic-send", set())
        for anomaly in sorted(wanted.keys() | checked.keys()):
            expected, actual = wanted.get(anomaly, set()), checked.get(anomaly, set())
            result.shown[anomaly] += bool(expected)
            if expected != actual:
                result.disagreements.append((seed, anomaly, sorted(expected, key=str), sorted(actual, key=str)))
    return result


def _by_checkers(
    spark: SparkSession,
    histories: Iterable[History],
    screened_by: Screener | None,
    suspects: Mapping[str, SuspectRun],
    unsuspected: list[tuple[str, str]],
) -> dict[str, dict[str, set[Key]]]:
    with TemporaryDirectory() as directory, longer_than(sizes.ROWS_SHORT if screened_by == "driver" else 0):
        write_dataset(Path(directory), histories)
        runs = survey_dataset(Path(directory))
        assert (size_of(runs) is Size.SHORT) == (screened_by == "driver")
        for name, value in {**SQL_SETTINGS, **settings_for(runs)}.items():
            spark.conf.set(name, value)
        facts = [facts_of(run) for run in runs]
        in_driver = screen_in_driver(runs) if screened_by == "driver" else None
        relations = base_relations(
            spark, runs, facts, screening=screened_by is not None, in_driver=in_driver, from_files=suspects
        )
        findings = unite([*find_anomalies(relations), *malformed_history(relations)]).coalesce(partitions_for(runs))
        columns = ["run_id", "anomaly", "offset", "value", "op", "process", "broker", "at_ns"]
        what = fn.get_json_object("details", "$.what").alias("what")
        rows = findings.select(*columns, what, partition_key().alias("partition_key")).toArrow().to_pylist()
        if relations.suspicion is not None:
            unsuspected += _unsuspected(rows, relations.suspicion)
            unsuspected += _without_condition(rows, relations.values)
        if in_driver is not None:
            over = {run.run_id for run in facts if not observed_after_heal([run], in_driver.last_ns)}
            unsuspected += [
                (row["run_id"], row["anomaly"])
                for row in rows
                if row["anomaly"] == "unavailable" and row["run_id"] in over
            ]
    found: dict[str, dict[str, set[Key]]] = {}
    for row in rows:
        key = tuple(row[name] for name in _KEYS.get(row["anomaly"], ("op",)))
        found.setdefault(row["run_id"], {}).setdefault(row["anomaly"], set()).add(key)
    return found


def _suspect_runs(histories: Iterable[History]) -> dict[str, SuspectRun]:
    """Screen each history in small pieces; leave out those that are ordinary, and those that are broken."""
    found = {}
    with TemporaryDirectory() as directory, small_pieces():
        for history in histories:
            run = history.write(Path(directory))
            scatter(run)
            screened_run = screened(run)
            if isinstance(screened_run, SuspectRun):
                found[history.name] = screened_run
    return found


def _unsuspected(rows: Iterable[Mapping[str, Any]], suspicion: Suspicion) -> Iterator[tuple[str, str]]:
    suspect = {partition_key for partition_key, _ in suspicion.values}
    for row in rows:
        looked_for = suspicion.partition_keys | suspect if row["anomaly"] in _OF_VALUES else suspicion.partition_keys
        if row["anomaly"] in _OF_VALUES | _OF_PARTITIONS and row["partition_key"] not in looked_for:
            yield row["run_id"], row["anomaly"]


def _without_condition(rows: Iterable[Mapping[str, Any]], values: DataFrame) -> Iterator[tuple[str, str]]:
    met = {
        condition_name: {row.run_id for row in values.where(condition).select("run_id").distinct().collect()}
        for condition_name, condition in CONDITIONS_ON_VALUES.items()
    }
    conditions = {
        _named(anomaly): condition_name
        for condition_name in CONDITIONS_ON_VALUES
        for anomaly in SHOWN_BY.get(condition_name, ())
    }
    for row in rows:
        condition_name = conditions.get(row["anomaly"])
        if condition_name is not None and row["run_id"] not in met[condition_name]:
            yield row["run_id"], row["anomaly"]


@contextmanager
def longer_than(rows: int) -> Iterator[None]:
    """Have histories of more rows screened by Spark, and shuffled, as long ones are."""
    with mock.patch.object(sizes, "ROWS_SHORT", rows):
        yield


def write_dataset(directory: Path, histories: Iterable[History]) -> None:
    tables: dict[str, list[dict[str, object]]] = {table: [] for table in TABLES}
    for history in histories:
        for table, rows in history.tables.items():
            tables[table] += rows
    for table, rows in tables.items():
        parts = directory / "history" / table
        parts.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[table]), parts / "part-w-000000.parquet")
