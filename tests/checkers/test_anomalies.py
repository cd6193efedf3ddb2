"""Every anomaly and every near miss: exactly what must be found is found, all histories in one set of Spark jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.check import check
from checkers.verdict import RunResult
from tests.checkers import cases, group_cases
from tests.checkers.case_register import Case

CASES = [*cases.CASES, *group_cases.CASES]

pytestmark = pytest.mark.spark


WITHOUT_DUPLICATES = [case for case in CASES if not case.history.has_duplicates()]
"""A batch of these is screened; one with others among them is looked at as a whole."""


def results_of(batch: list[Case], spark: SparkSession, directory: Path) -> Mapping[str, RunResult]:
    runs: list[Path] = [case.history.write(directory) for case in batch]
    checked = check(runs, spark, acknowledged_min=0)
    assert [result.directory for result in checked] == runs
    return {result.run_id: result for result in checked}


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, RunResult]:
    assert len(WITHOUT_DUPLICATES) < len(CASES)
    return results_of(CASES, spark, tmp_path_factory.mktemp("cases"))


@pytest.fixture(scope="module")
def results_of_screening(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, RunResult]:
    return results_of(WITHOUT_DUPLICATES, spark, tmp_path_factory.mktemp("screened"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.history.name)
def test_exactly_the_expected_anomalies_are_found(case: Case, results: Mapping[str, RunResult]) -> None:
    expect_exactly(case, results)


@pytest.mark.parametrize("case", WITHOUT_DUPLICATES, ids=lambda case: case.history.name)
def test_screening_loses_none_of_them(case: Case, results_of_screening: Mapping[str, RunResult]) -> None:
    expect_exactly(case, results_of_screening)


def expect_exactly(case: Case, results: Mapping[str, RunResult]) -> None:
    result = results[case.history.name]
    found = {name: (count.violations, count.within_contract) for name, count in result.anomalies.items()}
    assert (found, result.verdict) == (case.expected, case.verdict), result.reasons
