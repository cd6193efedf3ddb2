"""What Spark counts of a run's latencies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from checkers.relations.base import Relations
from checkers.verdict import metrics

SENDS = 7_242


@pytest.mark.spark
def test_quantiles_of_latency_are_those_of_the_sorted_sends(spark: SparkSession) -> None:
    operations = spark.range(1, SENDS + 1).select(
        fn.lit("run").alias("run_id"),
        fn.lit("send").alias("kind"),
        fn.lit("ok").alias("status"),
        fn.lit(0).alias("invoked_ns"),
        (fn.col("id") * fn.col("id")).alias("completed_ns"),
    )
    rows = metrics._latency(cast("Relations", SimpleNamespace(operations=operations))).collect()
    ranks = {"0.5": 3_621, "0.95": 6_880, "0.99": 7_170, "1.0": SENDS}
    assert {row["name"]: row["number"] for row in rows} == {name: rank * rank for name, rank in ranks.items()}
