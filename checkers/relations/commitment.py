"""Finds polls that returned records before they were committed, from samples of the brokers."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from checkers.findings import KEY


def lagging_samples(cluster: DataFrame) -> DataFrame:
    """Return the samples of leaders: `sampled_ns`, `sampled_hw`, and since when (`since_ns`) they were known to lead.

    What a sample shows was so at some moment since the sample before it (`shown_ns`).
    """
    samples_of_one = Window.partitionBy(*KEY, "broker").orderBy("at_ns")
    leadership = Window.partitionBy(*KEY, "broker", "leader_epoch")
    return (
        cluster.withColumn("shown_ns", fn.lag("at_ns").over(samples_of_one))
        .where("role = 'leader' and leader_epoch is not null")
        .withColumn("since_ns", fn.min("at_ns").over(leadership))
        .where("shown_ns is not null and high_watermark is not null")
        .select(
            *KEY,
            fn.col("broker").alias("node"),
            "since_ns",
            "shown_ns",
            fn.col("at_ns").alias("sampled_ns"),
            fn.col("high_watermark").alias("sampled_hw"),
        )
    )


def not_yet_committed(polls: DataFrame, samples: DataFrame) -> DataFrame:
    """Join each poll with the first sample of its broker after it, if that broker led in the same epoch before it.

    The last record of a poll, in the column `furthest`, is enough to find it.
    """
    key = [*KEY, "node"]
    moments = samples.withColumn("moment", fn.col("shown_ns")).unionByName(
        polls.withColumn("moment", fn.col("completed_ns")), allowMissingColumns=True
    )
    backwards = Window.partitionBy(*key).orderBy(fn.desc("moment")).rowsBetween(Window.unboundedPreceding, -1)
    sample = fn.when(fn.col("sampled_ns").isNotNull(), fn.struct("sampled_ns", "sampled_hw", "since_ns"))
    return (
        moments.withColumn("next", fn.last(sample, ignorenulls=True).over(backwards))
        .where("furthest is not null and next.since_ns <= invoked_ns and next.sampled_hw <= furthest.offset")
        .select(*key, "op", "process", "furthest", "completed_ns", "next.sampled_ns", "next.sampled_hw")
    )
