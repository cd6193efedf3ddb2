"""The contract's decision on findings for which there are neither samples nor faults."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from checkers.anomalies.rows import findings
from checkers.relations.base import Relations
from checkers.verdict.contract import classified

NOT_NEEDED = cast("Relations", None)


@pytest.mark.spark
def test_what_promises_nothing_is_judged_without_samples(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("run", "log", 0, 7)], "run_id string, topic string, partition int, offset bigint")
    excusable = findings(rows, "malformed-history", promises=fn.array(), details={})
    inexcusable = findings(rows, "phantom-read", details={})

    classified_findings = classified(excusable.union(inexcusable), NOT_NEEDED)

    assert classified_findings is not None
    judged = classified_findings.collect()
    assert {row.anomaly: row.within_contract for row in judged} == {"malformed-history": True, "phantom-read": False}
    assert all((row.offset, row.stale_because, row.stale_for_ns) == (7, None, None) for row in judged)


@pytest.mark.spark
def test_where_nothing_is_found_nothing_is_judged(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "run_id string, topic string, partition int, offset bigint")

    assert classified(findings(rows, "phantom-read", details={}), NOT_NEEDED) is None
