"""Decides whether the final reads (FINAL) cover a partition from its start to an end that all replicas agree on."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from checkers.findings import KEY

_END_OF_LOGS = (1 << 63) - 1


def final_reads(ends: DataFrame, polls: DataFrame, cluster: DataFrame) -> DataFrame:
    """Return one row per partition that has an end: `complete`, `log_start`, `started_ns`, `read_to`.

    Complete: the replicas agreed on the end, and one process read from the start of the log to it without a gap::

        process 7:  [0 ---- 40)[40 ---- 90)[90 - 100)      end 100: complete
        process 8:  [0 ---- 40)        [90 - 100)          not by process 8

    Only whole polls count: one whose records are missing from the history proves nothing.
    """
    starts = cluster.groupBy(*KEY).agg(fn.max("log_start").alias("log_start"))
    known = ends.join(fn.broadcast(starts), list(KEY), "left").withColumn(
        "log_start", fn.coalesce(fn.greatest("log_start", fn.lit(0)), fn.lit(0))
    )
    before = (
        Window.partitionBy(*KEY, "process")
        .orderBy("position", "next_position")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    steps = (
        polls.where("whole and kind = 'poll' and phase = 'final'")
        .join(fn.broadcast(known), list(KEY))
        .withColumn("reached", fn.coalesce(fn.max("next_position").over(before), fn.col("log_start")))
        .withColumn("gap", fn.when(fn.col("position") > fn.col("reached"), 1).otherwise(0))
        .withColumn("gaps", fn.sum("gap").over(before.rowsBetween(Window.unboundedPreceding, 0)))
    )
    readers = (
        steps.where("gaps = 0")
        .groupBy(*KEY, "process")
        .agg(
            fn.max("next_position").alias("read_to"),
            fn.min("invoked_ns").alias("started_ns"),
        )
    )
    best = readers.groupBy(*KEY).agg(
        fn.max("read_to").alias("read_to"),
        fn.min("started_ns").alias("started_ns"),
    )
    empty = fn.col("end_offset") <= fn.col("log_start")
    reached = fn.coalesce(fn.col("read_to") >= fn.col("end_offset"), fn.lit(False))
    return known.join(best, list(KEY), "left").withColumn("complete", fn.col("agreed") & (empty | reached))


def deleted_finals(touched: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return, in the shape of `final_reads`, the partitions of topics that were deleted.

    Their logs are gone, so nothing of them has to be read, and nothing of them counts as lost.
    """
    return touched.join(fn.broadcast(deleted), ["run_id", "topic"], "left_semi").select(
        *KEY,
        fn.lit(None).cast("bigint").alias("end_offset"),
        fn.lit(False).alias("agreed"),
        fn.lit(_END_OF_LOGS).alias("log_start"),
        fn.lit(None).cast("bigint").alias("read_to"),
        fn.lit(None).cast("bigint").alias("started_ns"),
        fn.lit(True).alias("complete"),
    )
