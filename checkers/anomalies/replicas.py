"""Finds what is wrong in logs: replicas that differ, corrupt records, epochs that go down or that two leaders wrote."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from checkers.anomalies.rows import findings, one_promise
from checkers.input.frames import KEY
from checkers.relations.base import Relations
from history.contract import ACKS_ALL


def divergent_replicas(relations: Relations) -> DataFrame:
    """Find offsets below the high watermarks of two replicas at which their logs differ.

    ::

        replica 1 (hw 50):  … 45: 123 epoch 3 …
        replica 2 (hw 50):  … 45: 456 epoch 4 …

    They may differ in value, leader epoch or bytes, or one may have a hole. Replicas that had not yet agreed on an end
    when the logs were dumped may still have to truncate: after a loss within the contract that is no breach.
    """
    ends = relations.final_reads.select(*KEY, "agreed")
    different = relations.conflicts.where("committed_differ").join(fn.broadcast(ends), list(KEY), "left")
    settled = fn.coalesce(fn.col("agreed"), fn.lit(False))
    return findings(
        different,
        "divergent-replicas",
        promises=fn.when(~settled, one_promise(ACKS_ALL, fn.lit(0))),
        details={
            "values": fn.array_distinct(fn.array("committed_value", "committed_other_value")),
            "epochs": fn.array_distinct(fn.array("committed_leader_epoch", "committed_other_leader_epoch")),
            "crcs": fn.array_distinct(fn.array("committed_crc", "committed_other_crc")),
            "holders": fn.col("holders"),
            "expected_holders": fn.col("expected_holders"),
        },
    )


def corrupt_record(relations: Relations) -> DataFrame:
    """Find records that were read, or lie below the high watermark of a replica, and hold no value that a client wrote.

    ::

        poll: … 45: (12 bytes whose checksum does not match) …

    A record's value is its number and the checksum of that number, so bytes that were changed anywhere between the
    producer and the reader show. Only the harness's producers write to the topic; internal topics of the cluster, whose
    names begin with `__`, are not checked.
    """
    ours = ~fn.col("topic").startswith("__")
    polled = (
        relations.reads.where("value is null")
        .where(ours)
        .select(*KEY, "offset", "op", "process", fn.coalesce("completed_ns", "invoked_ns").alias("at_ns"))
    )
    dumped = (
        relations.logs.where("value is null and offset < high_watermark").where(ours).select(*KEY, "offset", "broker")
    )
    return findings(
        polled.unionByName(dumped, allowMissingColumns=True),
        "corrupt-record",
        details={"in_log": fn.col("broker").isNotNull()},
    )


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
