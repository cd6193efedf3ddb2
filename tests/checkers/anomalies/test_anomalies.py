"""Every anomaly and every near miss: exactly what must be found is found, all histories in one set of Spark jobs.

Of random histories a correct one, however its clients interleave, is valid; one with one thing broken shows the anomaly
that belongs to it. They are here because those jobs are the dearest of all tests, and a file's tests share them. (That
a check ends with a verdict, whatever is in the tables, is in `test_check`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.check import check
from checkers.verdict.verdict import RunResult
from tests.checkers.anomalies.case_register import Case
from tests.checkers.conftest import CASES, WITHOUT_DUPLICATES, Batches
from tests.checkers.histories import History
from tests.checkers.oracle.agreement import longer_than

pytestmark = pytest.mark.spark


EVERY_FOURTH = WITHOUT_DUPLICATES[::4]
"""Each costs a second on Spark; `tests/checkers/screening/test_long.py` tries them all without it."""


@pytest.fixture(scope="module")
def of_long_histories(
    start_spark: Callable[[], SparkSession], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, RunResult]:
    directory = tmp_path_factory.mktemp("long")
    with longer_than(0):
        runs = [case.history.write(directory) for case in EVERY_FOURTH]
        return {result.run_id: result for result in check(runs, start_spark(), acknowledged_min=0)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.history.name)
def test_exactly_the_expected_anomalies_are_found(case: Case, batches: Batches) -> None:
    expect_exactly(case, batches.whole[case.history.name])


@pytest.mark.parametrize("case", WITHOUT_DUPLICATES, ids=lambda case: case.history.name)
def test_screening_loses_none_of_them(case: Case, batches: Batches) -> None:
    assert len(WITHOUT_DUPLICATES) < len(CASES)
    expect_exactly(case, batches.screened[case.history.name])


@pytest.mark.slow
@pytest.mark.parametrize("case", EVERY_FOURTH, ids=lambda case: case.history.name)
def test_screening_by_spark_loses_none_of_them(case: Case, of_long_histories: Mapping[str, RunResult]) -> None:
    expect_exactly(case, of_long_histories[case.history.name])


def expect_exactly(case: Case, result: RunResult) -> None:
    found = {name: (count.violations, count.within_contract) for name, count in result.anomalies.items()}
    assert (found, result.verdict) == (case.expected, case.verdict), result.reasons


def test_copies_of_one_run_do_not_mix(batches: Batches) -> None:
    whole, lossy = batches.whole["copied"], batches.screened["copied"]
    assert (whole.verdict, lossy.verdict) == ("valid", "invalid")
    assert (whole.anomalies, list(lossy.anomalies)) == ({}, ["lost-acked-write"])


def test_what_is_correct_is_valid_and_each_mutation_shows_its_anomaly(
    mutated: Sequence[tuple[History, str | None]], batches: Batches
) -> None:
    for history, wanted in mutated:
        result = batches.whole[history.name]
        if wanted is None:
            assert (result.verdict, result.anomalies) == ("valid", {}), history.name
        else:
            assert result.verdict == "invalid", (wanted, history.name)
            assert result.anomalies[wanted].violations >= 1, (wanted, history.name)


@pytest.mark.slow
def test_without_repair_a_record_that_was_read_proves_nothing_of_its_send(spark: SparkSession, tmp_path: Path) -> None:
    history = History("unanswered")
    history.send(100, (10, 20), status="info")
    history.poll(1, [100], (30, 40), assigned=True)
    history.send(101, (50, 60), offset=0, process=2)
    history.final([101, 100])
    run = history.write(tmp_path)

    (left,) = check([run], spark, acknowledged_min=0, resolve_outcomes=False)
    assert (left.verdict, left.anomalies, left.counts["sends_repaired"]) == ("valid", {}, 0)
    assert pq.read_table(run / "repairs").num_rows == 0
