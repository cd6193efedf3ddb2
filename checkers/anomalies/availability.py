"""Finds services that did not recover within a bound after the last fault was healed: `unavailable`.

Only a failure that was observed over the whole bound counts, in each quarter of it::

    last heal ───────────── unavailable_after_ms ─────────────▶
       try ✗      │    try ✗     │    try ✗     │    try ✗

If a fault was not healed, or no client tried for that long, nothing follows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.anomalies.rows import findings
from checkers.input.frames import KEY
from checkers.relations.base import Relations
from history.contract import ACKS_ALL

_QUARTERS = 4


def no_acknowledged_write(relations: Relations) -> DataFrame:
    """Find partitions to which records were sent during the whole bound, and none was acknowledged."""
    sends = _not_deleted(relations.attempts, relations).join(fn.broadcast(_bounds(relations)), "run_id")
    acknowledged = fn.coalesce((fn.col("status") == "ok") & _between("completed_ns"), fn.lit(False))
    silent = (
        sends.groupBy(*KEY, "healed_ns", "bound_ns")
        .agg(
            fn.sum(acknowledged.cast("int")).alias("successes"),
            fn.sum(_between("invoked_ns").cast("int")).alias("attempts"),
            _quarters_tried().alias("quarters"),
        )
        .where(f"successes = 0 and quarters = {_QUARTERS}")
    )
    return _unavailable(silent, "no-acknowledged-write")


def no_progress_of_readers(relations: Relations) -> DataFrame:
    """Find processes that polled during the whole bound, had acknowledged records before them, and got none.

    An unanswered poll covers no partition, so attempts are counted per process and answers per partition.
    """
    bounds = fn.broadcast(_bounds(relations))
    trying = (
        relations.operations.where("kind = 'poll'")
        .join(bounds, "run_id")
        .groupBy("run_id", "process")
        .agg(
            fn.sum(_between("invoked_ns").cast("int")).alias("attempts"),
            _quarters_tried().alias("quarters"),
        )
        .where(f"quarters = {_QUARTERS}")
    )
    readable = (
        _not_deleted(relations.attempts, relations)
        .where(f"status = 'ok' and acks = {ACKS_ALL}")
        .join(bounds, "run_id")
        .where("completed_ns <= healed_ns")
        .groupBy(*KEY)
        .agg(fn.max("offset").alias("readable"))
    )
    progress = (fn.col("records") > 0) & _between("completed_ns")
    stuck = (
        relations.polls.where("kind = 'poll' and status = 'ok'")
        .join(bounds, "run_id")
        .groupBy(*KEY, "process", "healed_ns", "bound_ns")
        .agg(
            fn.max(fn.when(fn.col("completed_ns") <= fn.col("healed_ns"), fn.col("next_position"))).alias("reached"),
            fn.sum(fn.coalesce(progress, fn.lit(False)).cast("int")).alias("successes"),
        )
        .where("successes = 0")
        .join(fn.broadcast(readable), list(KEY))
        .where("reached <= readable")
        .join(fn.broadcast(trying), ["run_id", "process"])
    )
    return _unavailable(stuck, "no-progress-of-readers")


def isr_not_full(relations: Relations) -> DataFrame:
    """Find partitions without a full in-sync set in any sample of their leader during the whole bound."""
    bounds = _bounds(relations).where("replicas_wanted is not null")
    samples = (
        _not_deleted(relations.cluster, relations)
        .join(fn.broadcast(bounds), "run_id")
        .where(fn.col("at_ns") > fn.col("healed_ns"))
    )
    leads = fn.col("role") == "leader"
    by_leader = fn.coalesce(leads & _between("at_ns"), fn.lit(False))
    full = by_leader & (fn.size("isr") >= fn.col("replicas_wanted"))
    partial = (
        samples.groupBy(*KEY, "healed_ns", "bound_ns")
        .agg(
            fn.sum(fn.coalesce(full, fn.lit(False)).cast("int")).alias("successes"),
            fn.sum(by_leader.cast("int")).alias("attempts"),
            _quarters_tried("at_ns", "at_ns").alias("quarters"),
        )
        .where(f"successes = 0 and quarters = {_QUARTERS}")
    )
    return _unavailable(partial, "isr-not-full")


def _not_deleted(frame: DataFrame, relations: Relations) -> DataFrame:
    """Drop deleted topics: they need not be available, whenever they were deleted."""
    return frame.join(fn.broadcast(relations.deleted), ["run_id", "topic"], "left_anti")


def _bounds(relations: Relations) -> DataFrame:
    return relations.runs.where("healed_ns is not null and unavailable_after_ns is not null").select(
        "run_id",
        "healed_ns",
        (fn.col("healed_ns") + fn.col("unavailable_after_ns")).alias("bound_ns"),
        fn.least("replication_factor", "brokers").alias("replicas_wanted"),
    )


def _quarters_tried(begins_at: str = "invoked_ns", ends_at: str = "completed_ns") -> Column:
    """Count the quarters of the bound during which some attempt was under way."""
    quarter = (fn.col("bound_ns") - fn.col("healed_ns")) / _QUARTERS
    until = fn.coalesce(ends_at, begins_at)
    tried = fn.lit(0)
    for number in range(_QUARTERS):
        begins = fn.col("healed_ns") + quarter * number
        under_way = (fn.col(begins_at) <= begins + quarter) & (until >= begins)
        tried = tried + fn.max(fn.coalesce(under_way, fn.lit(False)).cast("int"))
    return tried


def _between(column: str) -> Column:
    within = (fn.col(column) > fn.col("healed_ns")) & (fn.col(column) <= fn.col("bound_ns"))
    return fn.coalesce(within, fn.lit(False))


def _unavailable(silent: DataFrame, what: str) -> DataFrame:
    return findings(
        silent,
        "unavailable",
        at_ns=fn.col("bound_ns"),
        details={
            "what": fn.lit(what),
            "attempts": fn.col("attempts"),
            "healed_ns": fn.col("healed_ns"),
            "bound_ns": fn.col("bound_ns"),
        },
    )
