"""What the replicas' logs hold after the run."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.findings import ACKS_ALL, KEY, findings, one_promise
from checkers.relations import Relations


def divergent_replicas(relations: Relations) -> DataFrame:
    """Find offsets below the high watermarks of two replicas at which their logs differ.

    ::

        replica 1 (hw 50):  … 45: 123 epoch 3 …
        replica 2 (hw 50):  … 45: 456 epoch 4 …

    They may differ in value, leader epoch or bytes, or one may have a hole. Replicas that had not yet agreed on an end
    when the logs were dumped may still owe each other a truncation:
    after a loss within the contract that is no breach.
    """
    starts = relations.cluster.groupBy(*KEY, "broker").agg(fn.max("log_start").alias("log_start"))
    replicas = (
        relations.logs.groupBy(*KEY, "broker")
        .agg(fn.max("high_watermark").alias("high_watermark"), fn.min("offset").alias("first_offset"))
        .join(starts, [*KEY, "broker"], "left")
        .withColumn("log_start", fn.coalesce("log_start", "first_offset"))
    )
    everywhere = replicas.groupBy(*KEY).agg(
        fn.collect_list(fn.struct("broker", "log_start", "high_watermark")).alias("replicas")
    )
    committed = (
        relations.logs.join(
            fn.broadcast(replicas.select(*KEY, "broker", fn.col("high_watermark").alias("hw"))), [*KEY, "broker"]
        )
        .where("offset < hw")
        .groupBy(*KEY, "offset")
        .agg(
            fn.count("broker").alias("holders"),
            fn.min("value").alias("value"),
            fn.max("value").alias("other_value"),
            fn.min("leader_epoch").alias("epoch"),
            fn.max("leader_epoch").alias("other_epoch"),
            fn.min("crc").alias("crc"),
            fn.max("crc").alias("other_crc"),
        )
    )
    expected = fn.size(
        fn.filter(
            "replicas",
            lambda replica: (replica.log_start <= fn.col("offset")) & (replica.high_watermark > fn.col("offset")),
        )
    )
    ends = relations.finals.select(*KEY, "agreed")
    different = (
        committed.join(fn.broadcast(everywhere), list(KEY))
        .where(
            (fn.col("holders") < expected)
            | (fn.col("value") != fn.col("other_value"))
            | (fn.col("epoch") != fn.col("other_epoch"))
            | (fn.col("crc") != fn.col("other_crc"))
        )
        .join(fn.broadcast(ends), list(KEY), "left")
    )
    settled = fn.coalesce(fn.col("agreed"), fn.lit(False))
    return findings(
        different,
        "divergent-replicas",
        promises=fn.when(~settled, one_promise(ACKS_ALL, fn.lit(0))),
        details={
            "values": fn.array_distinct(fn.array("value", "other_value")),
            "epochs": fn.array_distinct(fn.array("epoch", "other_epoch")),
            "crcs": fn.array_distinct(fn.array("crc", "other_crc")),
            "holders": fn.col("holders"),
            "expected_holders": expected,
        },
    )
