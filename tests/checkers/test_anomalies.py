"""Every anomaly and every near miss: exactly what must be found is found, all histories in one set of Spark jobs."""

from __future__ import annotations

import pytest

from checkers.verdict import RunResult
from tests.checkers.case_register import Case
from tests.checkers.conftest import CASES, WITHOUT_DUPLICATES, Batches

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.history.name)
def test_exactly_the_expected_anomalies_are_found(case: Case, batches: Batches) -> None:
    expect_exactly(case, batches.whole[case.history.name])


@pytest.mark.parametrize("case", WITHOUT_DUPLICATES, ids=lambda case: case.history.name)
def test_screening_loses_none_of_them(case: Case, batches: Batches) -> None:
    assert len(WITHOUT_DUPLICATES) < len(CASES)
    expect_exactly(case, batches.screened[case.history.name])


def expect_exactly(case: Case, result: RunResult) -> None:
    found = {name: (count.violations, count.within_contract) for name, count in result.anomalies.items()}
    assert (found, result.verdict) == (case.expected, case.verdict), result.reasons


def test_copies_of_one_run_do_not_mix(batches: Batches) -> None:
    whole, lossy = batches.whole["copied"], batches.screened["copied"]
    assert (whole.verdict, lossy.verdict) == ("valid", "invalid")
    assert (whole.anomalies, list(lossy.anomalies)) == ({}, ["lost-acked-write"])
