"""Finds offsets at which the dumped logs of replicas differ, for the anomalies of replicas and epochs."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.findings import KEY


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
