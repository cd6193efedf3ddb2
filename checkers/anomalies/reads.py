"""Finds records that no client should ever have been given."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.anomalies.loss import never_acknowledged_and_gone
from checkers.anomalies.rows import findings, one_promise, operation
from checkers.input.frames import KEY
from checkers.input.polls import lagging_samples, not_yet_committed
from checkers.relations.base import Relations
from history.contract import ACKS_ALL


def phantom_read(relations: Relations) -> DataFrame:
    """Find polled values that no client sent to the partition.

    ::

        poll: … 45: 999 …              no send of 999 anywhere

    In a history that lacks sends (a worker died, a part is unreadable) nothing follows from a missing send.
    """
    known = relations.runs.where("sends_known").select("run_id")
    phantoms = relations.values.where("reads > 0 and sent = 0").join(fn.broadcast(known), "run_id", "left_semi")
    return _read(phantoms, "phantom-read")


def aborted_read(relations: Relations) -> DataFrame:
    """Find polled values whose send certainly failed.

    ::

        send 123 ──fail──              poll: … 45: 123 …

    A send of unknown outcome (`info`) may well be read.
    """
    return _read(relations.values.where("reads > 0 and send_status = 'fail'"), "aborted-read")


def dirty_read(relations: Relations) -> DataFrame:
    """Find values that were read before they were committed.

    ::

        broker 1, leader in epoch 5:   sampled ──── poll: … 45: 123 ──── sampled, high watermark 45

    The leader that served the poll had not committed the record even afterwards; its high watermark never goes down
    while it leads. Or the record was never acknowledged, was read, and is gone (`lost-read`): then it never was
    committed.
    """
    furthest = (
        relations.reads.where("node is not null and completed_ns is not null")
        .groupBy(*KEY, "op", "node", "process", "invoked_ns", "completed_ns")
        .agg(fn.max(fn.struct("offset", "value")).alias("furthest"))
    )
    seen = not_yet_committed(furthest, lagging_samples(relations.cluster)).select(
        *KEY,
        "op",
        "process",
        fn.col("node").alias("broker"),
        fn.col("furthest.offset").alias("offset"),
        fn.col("furthest.value").alias("value"),
        fn.col("completed_ns").alias("at_ns"),
        "sampled_ns",
        "sampled_hw",
    )
    gone = never_acknowledged_and_gone(relations).select(
        *KEY,
        fn.col("read_op").alias("op"),
        fn.col("read_process").alias("process"),
        fn.col("read_offset").alias("offset"),
        "value",
        fn.col("read_first_ns").alias("at_ns"),
        fn.coalesce("send_invoked_ns", "read_first_ns").alias("promised_ns"),
    )
    found = seen.unionByName(gone, allowMissingColumns=True)
    return findings(
        found,
        "dirty-read",
        promises=fn.when(fn.col("promised_ns").isNotNull(), one_promise(ACKS_ALL, fn.col("promised_ns"))),
        details={
            "sampled_ns": fn.col("sampled_ns"),
            "sampled_high_watermark": fn.col("sampled_hw"),
        },
    )


def _read(values: DataFrame, anomaly: str) -> DataFrame:
    return findings(
        values,
        anomaly,
        offset=fn.col("read_offset"),
        op=fn.col("read_op"),
        process=fn.col("read_process"),
        at_ns=fn.col("read_first_ns"),
        details={
            "operation": fn.when(fn.col("sent") > 0, operation("send_")),
            "read_op": fn.col("read_op"),
            "read_process": fn.col("read_process"),
            "reads": fn.col("reads"),
        },
    )
