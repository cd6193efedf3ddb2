"""Derives who led a partition when, from samples of the cluster, and decides whether a leader gave a stale answer.

Samples are periodic, so a leadership began at some moment between two of them::

    before its leader's own last     first sample of
    sample of an older epoch         the new epoch
          │                               │
          not_before_ns ── begun here ── seen_ns ─────────────── led_until_ns
                                                    (its leader's first sample after its last as leader)
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.findings import KEY
from checkers.relations.base import Relations

NEVER = -1
"""Before every time of a run."""
FOREVER = (1 << 63) - 1
"""After every time of a run."""


def leaderships(relations: Relations) -> DataFrame:
    """Return, per partition, the list `led` of its leader epochs in order.

    Each has `epoch`, `leader`, `seen_ns`, `not_before_ns`, `led_until_ns` (the leader believed in it no longer than
    that), and `watermarks`: the samples of its leader in which the high watermark was higher than before.
    """
    epoch = [*KEY, "leader_epoch"]
    sampled = relations.cluster.where("leader_epoch is not null and leader >= 0")
    begun = sampled.groupBy(*epoch).agg(fn.min("at_ns").alias("seen_ns"), fn.min_by("leader", "at_ns").alias("leader"))
    samples_of_one = Window.partitionBy(*KEY, "broker").orderBy("at_ns")
    # What a sample shows was so at some moment since the sample before it.
    own = relations.cluster.withColumn("shown_ns", fn.lag("at_ns").over(samples_of_one)).select(
        *KEY, fn.col("broker").alias("leader"), "at_ns", "shown_ns", fn.col("leader_epoch").alias("own_epoch")
    )
    not_before = (
        begun.join(own, [*KEY, "leader"])
        .where("own_epoch < leader_epoch and at_ns <= seen_ns")
        .groupBy(*epoch)
        .agg(fn.max("shown_ns").alias("not_before_ns"))
    )
    rising = Window.partitionBy(*epoch, "broker").orderBy("at_ns").rowsBetween(Window.unboundedPreceding, -1)
    led = (
        relations.cluster.withColumn("next_ns", fn.lead("at_ns").over(samples_of_one))
        .where("role = 'leader' and broker = leader and leader_epoch is not null")
        .withColumn("highest", fn.coalesce(fn.max("high_watermark").over(rising), fn.lit(NEVER)))
        .groupBy(*epoch)
        .agg(
            fn.max(fn.coalesce("next_ns", fn.lit(FOREVER))).alias("led_until_ns"),
            fn.collect_list(
                fn.when(fn.col("high_watermark") > fn.col("highest"), fn.struct("at_ns", "high_watermark"))
            ).alias("watermarks"),
        )
    )
    leadership = fn.struct(
        fn.col("leader_epoch").alias("epoch"),
        "leader",
        "seen_ns",
        fn.coalesce("not_before_ns", fn.lit(NEVER)).alias("not_before_ns"),
        fn.coalesce("led_until_ns", fn.lit(FOREVER)).alias("led_until_ns"),
        "watermarks",
    )
    return (
        begun.join(not_before, epoch, "left")
        .join(led, epoch, "left")
        .groupBy(*KEY)
        .agg(fn.sort_array(fn.collect_list(leadership)).alias("led"))
    )


def stale_because() -> Column:
    """Return why a stale answer is no breach, from the columns `staleness`, `led` and `brokers`; null if it is one."""
    stale = fn.col("staleness")
    deposed_later = fn.exists(
        "led",
        lambda led: (led.seen_ns > stale.invoked_ns) & (led.not_before_ns < stale.completed_ns) & _is_change(led),
    )
    current = fn.element_at(fn.filter("led", lambda led: led.seen_ns <= stale.invoked_ns), -1)
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
