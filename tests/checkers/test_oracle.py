"""The checkers find what loops over the rows find. `benchmarks/anomaly_agreement.py` tries many more histories."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from tests.checkers.agreement import compare
from tests.checkers.oracle import ORACLE

pytestmark = pytest.mark.spark

HISTORIES = 400
SHOWN_MIN = 5


def test_the_checkers_agree_with_loops_over_the_rows(spark: SparkSession) -> None:
    first = random.randrange(1 << 40)
    half = HISTORIES // 2
    agreement = compare(spark, range(first, first + half))
    agreement.add(compare(spark, range(first + half, first + HISTORIES), screening=False))
    assert agreement.disagreements == [], f"of {len(agreement.disagreements)}"
    assert agreement.unsuspected == [], "a run of its own would not show these"
    rare = {name: agreement.shown[name] for name in ORACLE if agreement.shown[name] < SHOWN_MIN}
    assert rare == {}, "these would not be missed"
