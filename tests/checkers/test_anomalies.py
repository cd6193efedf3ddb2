"""Every anomaly and every near miss: exactly what must be found is found, all histories in one set of Spark jobs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from checkers.verdict import RunResult
from tests.checkers.case_register import Case
from tests.checkers.conftest import CASES, checked

pytestmark = pytest.mark.spark


WITHOUT_DUPLICATES = [case for case in CASES if not case.history.has_duplicates()]
"""A batch of these is screened; one with others among them is looked at as a whole."""


@pytest.fixture(scope="module")
def results_of_screening(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, RunResult]:
    assert len(WITHOUT_DUPLICATES) < len(CASES)
    return checked([case.history for case in WITHOUT_DUPLICATES], spark, tmp_path_factory)


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
