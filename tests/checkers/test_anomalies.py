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


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, RunResult]:
    directory = tmp_path_factory.mktemp("cases")
    runs: list[Path] = [case.history.write(directory) for case in CASES]
    checked = check(runs, spark, acknowledged_min=0)
    assert [result.directory for result in checked] == runs
    return {result.run_id: result for result in checked}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.history.name)
def test_exactly_the_expected_anomalies_are_found(case: Case, results: Mapping[str, RunResult]) -> None:
    result = results[case.history.name]
    found = {name: (count.violations, count.within_contract) for name, count in result.anomalies.items()}
    assert (found, result.verdict) == (case.expected, case.verdict), result.reasons
