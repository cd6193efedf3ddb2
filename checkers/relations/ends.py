"""Derives what is known of a partition at the end of a run: whether final reads cover it, and where its logs differ."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.input.frames import KEY

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


def final_reads_of_deleted(used_partitions: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return, in the shape of `final_reads`, the partitions of topics that were deleted.

    Their logs are gone, so nothing of them has to be read, and nothing of them counts as lost.
    """
    return used_partitions.join(fn.broadcast(deleted), ["run_id", "topic"], "left_semi").select(
        *KEY,
        fn.lit(None).cast("bigint").alias("end_offset"),
        fn.lit(False).alias("agreed"),
        fn.lit(_END_OF_LOGS).alias("log_start"),
        fn.lit(None).cast("bigint").alias("read_to"),
        fn.lit(None).cast("bigint").alias("started_ns"),
        fn.lit(True).alias("complete"),
    )


def log_conflicts(logs: DataFrame, cluster: DataFrame) -> DataFrame:
    """Return one row per offset at which the logs of two replicas differ, or at which one has a hole.

    `value` and `other_value`, `leader_epoch` and `other_leader_epoch` are the least and the greatest that any replica
    holds there; `committed_value` and so on are those of the replicas whose high watermark is above the offset.
    `holders` and `expected_holders` count these; `committed_differ`: whether they differ. There are few such rows,
    or the replicas have nothing in common.
    """
    starts = cluster.groupBy(*KEY, "broker").agg(fn.max("log_start").alias("log_start"))
    replicas = (
        logs.groupBy(*KEY, "broker")
        .agg(fn.max("high_watermark").alias("high_watermark"), fn.min("offset").alias("first_offset"))
        .join(starts, [*KEY, "broker"], "left")
        .withColumn("log_start", fn.coalesce("log_start", "first_offset"))
    )
    everywhere = replicas.groupBy(*KEY).agg(
        fn.collect_list(fn.struct("broker", "log_start", "high_watermark")).alias("replicas")
    )
    high_watermarks = replicas.select(*KEY, "broker", fn.col("high_watermark").alias("hw"))
    is_committed = fn.col("offset") < fn.col("hw")
    compared = (
        logs.join(fn.broadcast(high_watermarks), [*KEY, "broker"])
        .groupBy(*KEY, "offset")
        .agg(
            fn.count(fn.when(is_committed, 1)).alias("holders"),
            *_extremes("", ("value", "leader_epoch")),
            *_extremes("committed_", ("value", "leader_epoch", "crc"), is_committed),
        )
    )
    expected = fn.size(
        fn.filter(
            "replicas",
            lambda replica: (replica.log_start <= fn.col("offset")) & (replica.high_watermark > fn.col("offset")),
        )
    )
    differ = fn.lit(False)
    for name in ("value", "leader_epoch", "crc"):
        differ = differ | fn.coalesce(fn.col(f"committed_{name}") != fn.col(f"committed_other_{name}"), fn.lit(False))
    return (
        compared.join(fn.broadcast(everywhere), list(KEY))
        .withColumn("expected_holders", expected)
        .withColumn("committed_differ", differ | ((fn.col("holders") > 0) & (fn.col("holders") < expected)))
        .where("committed_differ or value != other_value")
        .drop("replicas")
    )


def _extremes(prefix: str, names: Sequence[str], condition: Column | None = None) -> list[Column]:
    """Return the least and the greatest of some columns, of all replicas or of those that meet a condition."""
    columns = []
    for name in names:
        value = fn.col(name) if condition is None else fn.when(condition, fn.col(name))
        columns += [fn.min(value).alias(f"{prefix}{name}"), fn.max(value).alias(f"{prefix}other_{name}")]
    return columns
