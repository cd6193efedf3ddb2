"""The checkers find what the oracle finds. `benchmarks/checkers/anomaly_agreement.py` tries many more histories."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from tests.checkers.oracle.agreement import compare
from tests.checkers.oracle.oracle import ORACLE

pytestmark = pytest.mark.spark

HISTORIES = 450
SHOWN_MIN = 5


@pytest.mark.slow
def test_the_checkers_agree_with_loops_over_the_rows(spark: SparkSession) -> None:
    seeds = range(first := random.randrange(1 << 40), first + HISTORIES)
    agreement = compare(spark, seeds[::4], "driver")
    agreement.add(compare(spark, seeds[1::4], "spark"))
    agreement.add(compare(spark, seeds[2::4], None))
    of_files = compare(spark, seeds[3::4], "files")
    assert of_files.histories > 0
    agreement.add(of_files)
    assert agreement.disagreements == [], f"of {len(agreement.disagreements)}"
    assert agreement.unsuspected == [], "a run of its own would not show these"
    rare = {name: agreement.shown[name] for name in ORACLE if agreement.shown[name] < SHOWN_MIN}
    assert rare == {}, "these would not be missed"
