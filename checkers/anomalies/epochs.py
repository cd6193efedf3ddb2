"""Finds leader epochs that go down along a log, and epochs in which two leaders wrote."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from checkers.findings import KEY, findings
from checkers.relations.base import Relations


def epoch_regression(relations: Relations) -> DataFrame:
    """Find logs of replicas, and polls, in which a record has a lower leader epoch than one before it.

    ::

        replica 1:  … 44 epoch 3, 45 epoch 3, 46 epoch 2 …

    Records of different polls are not compared: between them a log may have been truncated.
    """
    of_logs = _regressions(relations.logs.withColumn("rank", fn.col("offset")), "broker")
    of_polls = _regressions(relations.reads.withColumn("rank", fn.col("ordinal").cast("bigint")), "op")
    both = of_logs.withColumn("op", fn.lit(None).cast("bigint")).unionByName(
        of_polls.withColumn("broker", fn.lit(None).cast("int"))
    )
    return findings(
        both,
        "epoch-regression",
        details={
            "epoch": fn.col("leader_epoch"),
            "earlier_epoch": fn.col("before.epoch"),
            "earlier_offset": fn.col("before.offset"),
            "in_log": fn.col("broker").isNotNull(),
        },
    )


def _regressions(records: DataFrame, owner: str) -> DataFrame:
    """Compare stretches of one epoch rather than records: there are few of them, however long the log is."""
    stretches = (
        records.where("leader_epoch is not null and rank is not null")
        .groupBy(*KEY, owner, "leader_epoch")
        .agg(
            fn.min(fn.struct("rank", "offset")).alias("first"),
            fn.max(fn.struct(fn.col("rank"), fn.col("offset"), fn.col("leader_epoch").alias("epoch"))).alias("last"),
        )
    )
    lower = Window.partitionBy(*KEY, owner).orderBy("leader_epoch").rowsBetween(1, Window.unboundedFollowing)
    # Of the stretches of higher epochs, the one that begins first: what lies behind its beginning went down.
    return (
        stretches.withColumn(
            "before",
            fn.min(fn.struct(fn.col("first.rank"), fn.col("first.offset"), fn.col("leader_epoch").alias("epoch"))).over(
                lower
            ),
        )
        .where("before.rank < last.rank")
        .select(*KEY, owner, "leader_epoch", fn.col("last.offset").alias("offset"), "before")
    )


def two_leaders(relations: Relations) -> DataFrame:
    """Find leader epochs in which two brokers led, or in which two records were written at one offset.

    ::

        broker 1: leader, epoch 5          broker 2: leader, epoch 5
        log of 1: 45: 123 epoch 5          log of 2: 45: 456 epoch 5

    A leader gives each offset of its epoch to one record, so two of them are of two leaders, even if no
    sample shows both as leaders, and even above the high watermark.
    """
    led = (
        relations.cluster.where("role = 'leader' and leader_epoch is not null")
        .groupBy(*KEY, "leader_epoch")
        .agg(
            fn.sort_array(fn.collect_set("broker")).alias("leaders"),
            fn.max_by("broker", "at_ns").alias("broker"),
            fn.max("at_ns").alias("at_ns"),
        )
        .where("size(leaders) > 1")
        .select(*KEY, "leader_epoch", "leaders", "broker", "at_ns")
    )
    written = relations.conflicts.where("value != other_value and leader_epoch = other_leader_epoch").select(
        *KEY, "offset", "leader_epoch", fn.array("value", "other_value").alias("values")
    )
    return findings(
        led.unionByName(written, allowMissingColumns=True),
        "two-leaders",
        details={"epoch": fn.col("leader_epoch"), "leaders": fn.col("leaders"), "values": fn.col("values")},
    )
