"""Checks the histories of runs: finds anomalies, forms verdicts, writes results. One set of Spark jobs for all runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from checkers.anomalies import find_anomalies
from checkers.anomalies.bookkeeping import RESOLVED, malformed_history, resolved_findings, resolved_rows
from checkers.anomalies.objects import Decided, decide, nonlinearizable, write_verdict
from checkers.explanations.explanation import explained
from checkers.input.frames import unite
from checkers.input.room import BYTES_OF_A_ROW, need_room
from checkers.input.run_facts import RunFacts, facts_of
from checkers.input.sizes import Size, partitions_for, rows_of, settings_for, size_of
from checkers.input.tables import RunFiles, share_files, survey, survey_dataset
from checkers.relations.base import base_relations
from checkers.screening.in_driver import screen_in_driver
from checkers.screening.long.recognise import SuspectRun
from checkers.screening.ordinary.counting import OrdinaryRun
from checkers.screening.ordinary.recognise import recognised_runs
from checkers.spark import SQL_SETTINGS, is_usable, start_session
from checkers.verdict.collect import (
    ROWS_MAX,
    Collected,
    Row,
    add_lost_nodes,
    add_malformed_small_rows,
    collect_findings,
    held_at,
    positions_of,
)
from checkers.verdict.contract import classified
from checkers.verdict.metrics import metrics, numbers_by_run
from checkers.verdict.verdict import ACKNOWLEDGED_MIN, Metrics, RunResult, judge
from common.atomic_files import replacing
from history.schema import ANOMALIES as ANOMALIES_SCHEMA
from incidents import diagnose


class NoHistoryError(Exception):
    """A directory holds no run. The message is one line."""


def check(
    run_directories: Sequence[Path],
    spark: SparkSession | None = None,
    master: str | None = None,
    *,
    acknowledged_min: int = ACKNOWLEDGED_MIN,
    resolve_outcomes: bool = True,
) -> list[RunResult]:
    """Check runs; write `anomalies/`, `repairs/` and `results.json` into each directory; return the results in order.

    `resolve_outcomes`: a send of unknown outcome whose record was read is taken to have happened
    (`checkers.relations.records`). Without `spark`, or if one of its calls was interrupted, a session is
    started on `master` (all cores of this machine by default) and kept for the next call.
    No content of a history raises. Raises `NoHistoryError` for a directory without a history,
    `checkers.spark.SparkUnavailableError` where Spark cannot start, `checkers.input.room.NoRoomError` where the disk
    has too little room, `OSError` where results cannot be written.
    """
    for directory in run_directories:
        if not (directory / "history").is_dir():
            raise NoHistoryError(f"{directory} holds no run: expected the directory {directory / 'history'}")
    if not run_directories:
        return []
    surveyed = [survey(directory) for directory in dict.fromkeys(run_directories)]
    results: dict[Path, RunResult] = {}
    session = _session(spark, master, surveyed)
    for batch in _with_distinct_ids(surveyed):
        for result in _check_batch(session, batch, acknowledged_min, resolve_outcomes=resolve_outcomes):
            results[result.directory] = result
    return [results[directory] for directory in run_directories]


def check_dataset(
    directory: Path,
    spark: SparkSession | None = None,
    master: str | None = None,
    *,
    acknowledged_min: int = ACKNOWLEDGED_MIN,
) -> list[RunResult]:
    """Check all runs of a data set in one job; write into `directory`/runs/<run id> what `check` writes into a run.

    Raises what `check` raises.
    """
    runs = survey_dataset(directory) if (directory / "history").is_dir() else []
    if not runs:
        raise NoHistoryError(f"{directory} holds no runs: expected the table {directory / 'history' / 'runs'}")
    for run in runs:
        run.directory.mkdir(parents=True, exist_ok=True)
    session = _session(spark, master, runs)
    return _check_batch(session, runs, acknowledged_min)


def _session(spark: SparkSession | None, master: str | None, runs: Sequence[RunFiles]) -> SparkSession:
    if spark is not None and is_usable(spark):
        return spark
    # Short runs are judged apart, however many they are; those of a data set are not.
    longest = runs if share_files(runs) else [max(runs, key=lambda run: rows_of([run]))]
    return start_session(master, large=size_of(longest) is Size.LONG)


def _with_distinct_ids(runs: Iterable[RunFiles]) -> list[list[RunFiles]]:
    """Put copies of one run into different batches: within a batch all rows are keyed by the run id."""
    batches: list[dict[str, RunFiles]] = []
    for run in runs:
        free = next((batch for batch in batches if run.run_id not in batch), None)
        if free is None:
            batches.append(free := {})
        free[run.run_id] = run
    return [list(batch.values()) for batch in batches]


def _check_batch(
    spark: SparkSession, runs: Sequence[RunFiles], acknowledged_min: int, *, resolve_outcomes: bool = True
) -> list[RunResult]:
    """Judge ordinary runs by their numbers, and the others by all that their rows show."""
    facts = {run.run_id: facts_of(run) for run in runs}
    recognised = recognised_runs(spark, runs, list(facts.values()))
    ordinary = {run_id: run for run_id, run in recognised.items() if isinstance(run, OrdinaryRun)}
    if share_files(runs) and len(ordinary) < len(runs):
        ordinary = {}  # what is checked as frames is all rows of some files
    results = {}
    for run in runs:
        if run.run_id in ordinary:
            found = resolved_rows(ordinary[run.run_id].resolved if resolve_outcomes else ())
            collected = Collected(found[:ROWS_MAX], {(RESOLVED, True): len(found)} if found else {})
            numbers = Metrics(ordinary[run.run_id].numbers)
            results[run.run_id] = _judged(run, facts[run.run_id], numbers, collected, {}, acknowledged_min)
    others = [run for run in runs if run.run_id not in ordinary]
    if others:
        suspects = {run_id: run for run_id, run in recognised.items() if isinstance(run, SuspectRun)}
        for result in _check_closely(
            spark, others, facts, suspects, acknowledged_min, resolve_outcomes=resolve_outcomes
        ):
            results[result.run_id] = result
    return [results[run.run_id] for run in runs]


def _check_closely(
    spark: SparkSession,
    runs: Sequence[RunFiles],
    facts_by_run: Mapping[str, RunFacts],
    suspects: Mapping[str, SuspectRun],
    acknowledged_min: int,
    *,
    resolve_outcomes: bool,
) -> list[RunResult]:
    size, partitions = size_of(runs), partitions_for(runs)
    need_room(spark, rows_of(runs), BYTES_OF_A_ROW)
    in_driver = screen_in_driver(runs) if size is Size.SHORT else None
    # Runs that are checked together are screened in one way.
    from_files = suspects if suspects.keys() == {run.run_id for run in runs} else {}
    for name, value in {**SQL_SETTINGS, **settings_for(runs)}.items():
        spark.conf.set(name, value)
    facts = [facts_by_run[run.run_id] for run in runs]
    relations = base_relations(
        spark,
        runs,
        facts,
        resolve_outcomes=resolve_outcomes,
        screening=True,
        in_driver=in_driver,
        from_files=from_files,
    )
    decided = decide(relations, runs, facts)
    # A union has as many tasks as all its parts together, and each task carries the whole plan: bring them down again.
    counting = metrics(relations, counted=bool(from_files)).coalesce(partitions)
    with ThreadPoolExecutor(1) as counter:
        # The findings are planned while Spark reads the history and counts.
        counted = counter.submit(counting.collect)
        found = unite(
            [
                *find_anomalies(relations),
                *malformed_history(relations),
                *nonlinearizable(spark, relations, decided, facts),
                resolved_findings(relations.resolved),
            ]
        )
        found = size.kept(found.coalesce(partitions))
        judged = classified(found, relations)
        collected = {} if judged is None else collect_findings(judged)
        numbers = numbers_by_run(counted.result(), {run_id: run.numbers for run_id, run in from_files.items()})
    positions = positions_of(
        [row for of_run in collected.values() for row in of_run.rows if row["anomaly"] != RESOLVED]
    )
    replicas = held_at(relations, positions) if in_driver is None else in_driver.held_at(positions)
    return [
        _judged(
            run,
            of_run,
            Metrics(numbers.get(run.run_id, {})),
            collected.get(run.run_id, Collected()),
            replicas,
            acknowledged_min,
            decided.get(run.run_id),
        )
        for run, of_run in zip(runs, facts, strict=True)
    ]


def _judged(
    run: RunFiles,
    facts: RunFacts,
    numbers: Metrics,
    found: Collected,
    replicas: Mapping[tuple[Any, ...], dict[int, int | None]],
    acknowledged_min: int,
    objects: Decided | None = None,
) -> RunResult:
    """Form the verdict of a run, and write all results into its directory."""
    resolved = found.take(RESOLVED)
    add_lost_nodes(found, facts)
    add_malformed_small_rows(found, facts)
    result = judge(run, facts, numbers, found, acknowledged_min, resolved.total, objects)
    write_verdict(objects, run.directory)
    _write_rows(run, "anomalies", [explained(row, facts, replicas) for row in found.rows])
    _write_rows(run, "repairs", [explained(row, facts, {}) for row in resolved.rows])
    result = _with_incidents(result)
    _write_results(run.directory, result)
    return result


def _with_incidents(result: RunResult) -> RunResult:
    """Add the incidents of a run that lies beside its history: they are found from both."""
    if not result.anomalies or not (result.directory / "history").is_dir():
        return result
    totals = {name: (count.violations, count.within_contract) for name, count in result.anomalies.items()}
    extents = {name: count.partitions for name, count in result.anomalies.items()}
    return replace(result, incidents=tuple(diagnose(result.directory, totals, extents)))


def _write_rows(run: RunFiles, table: str, rows: Sequence[Row]) -> None:
    directory = run.directory / table
    directory.mkdir(exist_ok=True)
    name = "part-000000.parquet"
    with replacing(directory / name) as unfinished:
        pq.write_table(pa.Table.from_pylist(list(rows), schema=ANOMALIES_SCHEMA), unfinished)
    for earlier in directory.glob("part-*.parquet"):
        if earlier.name != name:
            earlier.unlink()


def _write_results(directory: Path, result: RunResult) -> None:
    with replacing(directory / "results.json", sync=True) as unfinished:
        unfinished.write_text(json.dumps(result.to_json(), indent=2) + "\n")
