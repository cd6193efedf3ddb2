"""Decides which findings break the contract, and which are within what the configuration allows.

Which losses are allowed is decided by `history.contract`, here for each promise that a finding breaks, from what the
cluster's samples show: nothing else excuses a loss.

Reads are linearizable per partition, if the partition's leader served them. A leader that was deposed and could not
know it yet may serve stale, committed data (BL-10); a new leader may hold a poll back until its high watermark has
caught up (HW-6, FE-8), but not answer a query for the end of the log before (LO-2).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.input.frames import KEY, NEVER
from checkers.relations.base import Relations
from checkers.relations.cluster_events import excuses, leadership_bounds
from history.contract import loss_is_allowed


def classified(findings: DataFrame, relations: Relations) -> DataFrame | None:
    """Add `within_contract` and, for stale answers, `stale_for_ns` (at least so long) and `stale_because`.

    Reads the findings once to see whether any of them needs samples and faults: most runs have none. Returns None if
    there are no findings at all.
    """
    depends = fn.coalesce((fn.size("promises") > 0) | fn.col("staleness").isNotNull(), fn.lit(False))
    kinds = {row.depends for row in findings.select(depends.alias("depends")).distinct().collect()}
    if not kinds:
        return None
    if True not in kinds:
        return findings.select(
            "*",
            fn.col("promises").isNotNull().alias("within_contract"),
            fn.lit(None).cast("string").alias("stale_because"),
            fn.lit(None).cast("bigint").alias("stale_for_ns"),
        )
    judged = (
        findings.join(fn.broadcast(excuses(relations)), list(KEY), "left")
        .join(fn.broadcast(leadership_bounds(relations)), list(KEY), "left")
        .join(fn.broadcast(relations.runs.select("run_id", "brokers")), "run_id", "left")
    )
    kept = fn.size(fn.filter("promises", lambda promise: ~_excused(promise)))
    loss_excused = fn.when(fn.col("promises").isNull(), fn.lit(False)).otherwise(kept < fn.col("promises_needed"))
    return (
        judged.withColumn("stale_because", fn.when(fn.col("staleness").isNotNull(), stale_because()))
        .withColumn("within_contract", loss_excused | fn.col("stale_because").isNotNull())
        .withColumn("stale_for_ns", fn.col("staleness.invoked_ns") - fn.col("staleness.witness_ns"))
        .select(*findings.columns, "within_contract", "stale_because", "stale_for_ns")
    )


_FIRST_EPOCH = 0
"""The leader epoch with which a partition is created."""


def _excused(promise: Column) -> Column:
    lost = promise.at_ns <= fn.coalesce("lost_until_ns", fn.lit(NEVER))
    leader_lost = promise.at_ns <= fn.coalesce("leader_lossy_until_ns", fn.lit(NEVER))
    last_epoch = fn.get("led", fn.size("led") - 1).epoch
    # The leader that acknowledged it may have been deposed since, or before without knowing it yet (BL-10).
    changed = fn.exists("led", lambda led: (led.led_until_ns >= promise.at_ns) & (led.epoch < last_epoch))
    excused = loss_is_allowed(
        promise.acks, replicas_failed=lost, leader_failed=leader_lost | fn.coalesce(changed, fn.lit(False))
    )
    return fn.coalesce(excused, fn.lit(False))


def stale_because() -> Column:
    """Return why a stale answer is no breach, from the columns `staleness`, `led` and `brokers`; null if it is one."""
    stale = fn.col("staleness")
    deposed_later = fn.exists(
        "led",
        lambda led: (
            (led.seen_ns > stale.invoked_ns)
            & (led.not_before_ns < stale.completed_ns)
            & _is_change(led)
            # A leader that follows itself was never deposed in favour of another. It may hold a poll back once more.
            & ((stale.asked != "latest") | ~led.succeeds_itself)
        ),
    )
    first = fn.get("led", fn.lit(0))
    current = fn.coalesce(
        fn.element_at(fn.filter("led", lambda led: led.seen_ns <= stale.invoked_ns), -1),
        fn.when(first.epoch == _FIRST_EPOCH, first),  # nobody led before, sampled or not
    )
    deposed_believer = fn.exists(
        "led",
        lambda led: (
            (led.epoch < current.epoch) & (led.leader != current.leader) & (led.led_until_ns > stale.invoked_ns)
        ),
    )
    # A deposed leader may show what its successor has not seen committed again (KIP-207). The broker that gave an
    # answer without records is often unknown, and may have been that leader.
    shown_by_a_believer = fn.exists(
        "led",
        lambda led: (
            (led.epoch < current.epoch) & (led.leader != current.leader) & (led.led_until_ns > stale.witness_invoked_ns)
        ),
    )
    acknowledged_itself = (current.seen_ns <= stale.witness_ns) & fn.coalesce(
        stale.witness_node == current.leader, ~shown_by_a_believer
    )
    caught_up = fn.exists(
        current.watermarks,
        lambda seen: (seen.at_ns <= stale.invoked_ns) & (seen.high_watermark > stale.witness_offset),
    )
    unknown_leader = fn.coalesce(fn.size("led") < 1, fn.lit(True))
    alone = fn.coalesce(fn.col("brokers") == 1, fn.lit(False))
    same_broker = (stale.asked != "poll") & (stale.server == stale.witness_node)
    return (
        fn.when(
            unknown_leader,
            fn.when(~alone & ~fn.coalesce(same_broker, fn.lit(False)), fn.lit("no sample shows who led the partition")),
        )
        .when(current.isNull(), fn.lit("no sample had shown yet who led the partition"))
        .when(deposed_later, fn.lit("the leadership of the partition was changing at the time"))
        .when(stale.server != current.leader, fn.lit("the broker that answered was no longer the leader"))
        .when(
            stale.server.isNull() & deposed_believer,
            fn.lit("a deposed leader that could not know it yet may have answered"),
        )
        .when(
            (stale.asked == "poll") & ~acknowledged_itself & ~fn.coalesce(caught_up, fn.lit(False)),
            fn.lit("the leader was new, and its high watermark had not been seen to catch up"),
        )
    )


def _is_change(led: Column) -> Column:
    return led.epoch > fn.get("led", fn.lit(0)).epoch
