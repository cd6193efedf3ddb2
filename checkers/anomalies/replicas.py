"""Finds differences between the replicas' logs after the run, and corrupt records."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.findings import ACKS_ALL, KEY, findings, one_promise
from checkers.relations.base import Relations


def divergent_replicas(relations: Relations) -> DataFrame:
    """Find offsets below the high watermarks of two replicas at which their logs differ.

    ::

        replica 1 (hw 50):  … 45: 123 epoch 3 …
        replica 2 (hw 50):  … 45: 456 epoch 4 …

    They may differ in value, leader epoch or bytes, or one may have a hole. Replicas that had not yet agreed on an end
    when the logs were dumped may still have to truncate: after a loss within the contract that is no breach.
    """
    ends = relations.finals.select(*KEY, "agreed")
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
