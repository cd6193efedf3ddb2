"""No run with an anomaly is ordinary, most others are, and what is told of these is what frames tell."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers import check as checking
from checkers.input.run_facts import facts_of
from checkers.input.tables import survey, survey_dataset
from checkers.screening.ordinary import recognise
from checkers.screening.ordinary.availability import unavailable
from checkers.screening.ordinary.recognise import RunsOfTask, recognised_runs
from tests.checkers.anomalies.cases import CASES
from tests.checkers.anomalies.mutations import MUTATIONS, Log, acknowledged
from tests.checkers.histories import History
from tests.checkers.oracle.agreement import write_dataset
from tests.checkers.oracle.arbitrary_histories import Wild
from tests.checkers.screening.disturbed import disturbed, loaded, ordinary, shown_by

HISTORIES = 600
COMPARED = 30


def correct(name: str) -> History:
    history = History(name)
    history.written([100, 101, 102])
    history.final([100, 101, 102])
    return history


def task_of(run: Path) -> RunsOfTask:
    found = survey(run)
    return RunsOfTask({table: parts.files for table, parts in found.large.items()}, (facts_of(found),))


def test_no_history_with_an_anomaly_is_ordinary_and_most_others_are() -> None:
    first = random.randrange(1 << 40)
    histories = {history.name: history for history in map(disturbed, range(first, first + HISTORIES))}
    found = ordinary(histories.values())
    shown = {name: shown_by(history) for name, history in histories.items()}
    assert {name: shown[name] for name in found if shown[name]} == {}
    without = {name for name, anomalies in shown.items() if anomalies == set()}
    assert 0 < len(without) < HISTORIES
    assert len(found) > len(without) // 2


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.history.name)
def test_no_planted_anomaly_is_in_an_ordinary_run(case: Any) -> None:
    """Lost nodes and malformed small tables are told of every run, and a run with objects never gets here."""
    history = loaded([case.history])
    told_anyway = any(facts.losses or facts.malformed for facts in history.facts)
    if case.expected and not told_anyway and not case.history.tables["commands"]:
        assert recognise.recognised(history) == {}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_no_mutated_log_is_ordinary(mutation: Any) -> None:
    log = next(log for seed in range(100) if len(acknowledged(log := Log("log", seed))) >= 5)
    assert "log" in ordinary([log.history])
    mutation(log)
    assert ordinary([log.history]) == {}


def test_unavailability_is_suspected_where_loops_over_the_rows_find_it() -> None:
    first = random.randrange(1 << 40)
    histories = [Wild(f"wild-{seed}", seed).history for seed in range(first, first + HISTORIES)]
    history = loaded(histories)
    runs = np.concatenate(list(unavailable(history)))
    suspected = {history.run_ids[run] for run in runs.tolist()}
    found = {each.name for each in histories if shown_by(each, ["unavailable"])}
    assert found
    assert suspected == found


def unreadable(run: Path) -> None:
    (part,) = (run / "history" / "reads").glob("*.parquet")
    whole = part.read_bytes()
    part.write_bytes(whole[:4] + bytes(40) + whole[44:])


def of_another_run(run: Path) -> None:
    (part,) = (run / "history" / "sends").glob("*.parquet")
    rows = pq.read_table(part).to_pylist()
    rows[-1]["run_id"] = "another"
    pq.write_table(pq.read_table(part).from_pylist(rows, schema=pq.read_schema(part)), part)


@pytest.mark.parametrize("spoil", [unreadable, of_another_run])
def test_no_run_is_ordinary_whose_files_do_not_hold_it_alone_and_whole(spoil: Any, tmp_path: Path) -> None:
    run = correct("spoilt").write(tmp_path)
    assert list(recognise.recognise(task_of(run))) == ["spoilt"]
    spoil(run)
    assert recognise.recognise(task_of(run)) == {}


def test_a_run_with_a_deleted_topic_is_not_ordinary() -> None:
    history = correct("deleted")
    assert "deleted" in ordinary([history])
    history.administered("delete", "other", (1, 2))
    assert ordinary([history]) == {}


def test_a_run_without_large_tables_is_ordinary_and_has_no_numbers() -> None:
    history = History("empty")
    for table in ("operations", "sends"):
        history.tables[table] = []
    (run,) = ordinary([history]).values()
    assert (run.numbers, run.resolved) == ({}, ())


@pytest.mark.spark
def test_runs_with_objects_or_groups_and_runs_elsewhere_are_not_ordinary(spark: SparkSession, tmp_path: Path) -> None:
    plain, of_group, of_object = (correct(name) for name in ("plain", "of-group", "of-object"))
    of_group.commit(1, (1, 2))
    of_object.command(1, (1, 2), "write", 1)
    runs = [survey(history.write(tmp_path)) for history in (plain, of_group, of_object)]
    elsewhere = replace(
        survey(correct("elsewhere").write(tmp_path)),
        large={table: replace(parts, remote=("hdfs://x",)) for table, parts in runs[0].large.items()},
    )
    assert list(recognised_runs(spark, [*runs, elsewhere], [facts_of(run) for run in [*runs, elsewhere]])) == ["plain"]


@pytest.mark.spark
def test_runs_are_judged_in_one_job_and_runs_of_a_data_set_in_one_task(spark: SparkSession, tmp_path: Path) -> None:
    histories = [correct(f"run-{number}") for number in range(6)]
    runs = [survey(history.write(tmp_path / "runs")) for history in histories]
    facts = [facts_of(run) for run in runs]
    with mock.patch.object(recognise, "ROWS_OF_A_TASK_MIN", 1):
        assert len(recognised_runs(spark, runs, facts)) == len(runs)
    write_dataset(tmp_path / "set", histories)
    of_set = survey_dataset(tmp_path / "set")
    assert len(recognised_runs(spark, of_set, [facts_of(run) for run in of_set])) == len(runs)


@pytest.mark.spark
def test_a_longer_run_is_read_by_one_task_only_where_it_is_alone(spark: SparkSession, tmp_path: Path) -> None:
    runs = [survey(correct(name).write(tmp_path)) for name in ("long", "other")]
    facts = [facts_of(run) for run in runs]
    undivided = mock.patch.object(recognise, "work_on", return_value=None)
    with undivided, mock.patch.object(recognise, "ROWS_OF_A_RUN_MAX", 10):
        assert recognised_runs(spark, runs, facts) == {}
        assert list(recognised_runs(spark, runs[:1], facts[:1])) == ["long"]
        with mock.patch.object(recognise, "ROWS_OF_A_LONE_RUN_MAX", 10):
            assert recognised_runs(spark, runs[:1], facts[:1]) == {}


def results_in(run: Path) -> Iterator[tuple[str, Any]]:
    yield "results", json.loads((run / "results.json").read_text())
    for table in ("anomalies", "repairs"):
        yield table, pq.read_table(run / table / "part-000000.parquet").to_pylist()


@pytest.mark.slow
@pytest.mark.spark
def test_what_is_told_of_ordinary_runs_is_what_frames_tell(spark: SparkSession, tmp_path: Path) -> None:
    first = random.randrange(1 << 40)
    histories = [disturbed(seed) for seed in range(first, first + COMPARED)]
    for number, history in enumerate(histories):
        if number % 2:
            history.fault("kill", [1], (20 + number, 60 + number))
            history.fault("pause", [2], (200, 230))
    recognised = ordinary(histories)
    assert any(run.resolved for run in recognised.values())
    runs = [history.write(tmp_path) for history in histories]
    checking.check(runs, spark, acknowledged_min=0)
    by_recognition = {run: dict(results_in(run)) for run in runs}
    with mock.patch.object(checking, "recognised_runs", return_value={}):
        checking.check(runs, spark, acknowledged_min=0)
    assert by_recognition == {run: dict(results_in(run)) for run in runs}
