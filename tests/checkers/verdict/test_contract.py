"""The contract's decision on findings for which there are neither samples nor faults."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from checkers.anomalies.rows import findings
from checkers.relations.base import Relations
from checkers.verdict.collect import ROWS_MAX, collect_findings
from checkers.verdict.contract import classified
from history.anomalies import Extent

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


@pytest.mark.spark
@pytest.mark.parametrize("number", [3, ROWS_MAX, ROWS_MAX + 1, 3 * ROWS_MAX + 7])
def test_the_rows_that_are_kept_are_spread_evenly_over_all(spark: SparkSession, number: int) -> None:
    rows = spark.range(number).select(fn.lit("run").alias("run_id"), fn.lit("log").alias("topic"), "id")
    dated = rows.withColumn("partition", (fn.col("id") % 3).cast("int")).withColumnRenamed("id", "at_ns")
    found = findings(dated, "phantom-read", details={}, offset=fn.col("at_ns"))
    judged = found.withColumn("within_contract", fn.lit(False)).withColumn("undecided", fn.lit(False))

    (collected,) = collect_findings(judged).values()

    times = [row["at_ns"] for row in collected.rows]
    assert collected.totals == {("phantom-read", False): number}
    assert len(times) == min(number, ROWS_MAX)
    assert times[0] == 0
    steps = {later - earlier for earlier, later in zip(times, times[1:], strict=False)}
    assert max(steps) - min(steps) <= 1
    assert number - times[-1] <= max(steps) + 1
    where = [
        Extent("log", partition, False, len(offsets), offsets[0], offsets[-1])
        for partition in range(3)
        for offsets in [range(partition, number, 3)]
    ]
    assert collected.extents == ({"phantom-read": where} if number > ROWS_MAX else {})


@pytest.mark.spark
def test_where_no_row_of_a_partition_is_kept_no_extents_are_told(spark: SparkSession) -> None:
    rows = spark.range(3 * ROWS_MAX).select(fn.lit("run").alias("run_id"), fn.lit("log").alias("topic"), "id")
    one_of_its_own = (fn.col("id") == 3 * ROWS_MAX - 1).cast("int")
    dated = rows.withColumn("partition", one_of_its_own).withColumnRenamed("id", "at_ns")
    found = findings(dated, "phantom-read", details={}, offset=fn.col("at_ns"))
    judged = found.withColumn("within_contract", fn.lit(False)).withColumn("undecided", fn.lit(False))

    (collected,) = collect_findings(judged).values()

    assert {row["partition"] for row in collected.rows} == {0}
    assert collected.extents == {}
