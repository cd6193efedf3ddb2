"""Judges stale answers: whether the history shows why a correct broker may have given one.

An answer that lacks what had been shown before is no breach if a deposed leader gave it that could not know it yet, or
if a new leader held a poll back. Samples of the cluster show who led. Where none does, leader epochs decide: those of
samples in which the partition has no leader, and those of the records in the dumped logs::

    send a ──ok──                                    a is in the log with epoch e
                    latest ──ok, end before a──      answered in epoch f

    f < e   a leader that was deposed before a was acknowledged: only if e > 0, for 0 is the first
    f = e   the leader that acknowledged a: a breach
    f > e   a new leader: it may hold back a poll (HW-6), but not name an end below a (LO-2)

Where no epoch is known either, as of a topic that was deleted at once, the answer is undecided.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.input.frames import KEY
from checkers.relations.base import Relations

UNDECIDED = "no sample and no log tells the leader epoch, so it is undecided whether it was allowed"

_FIRST_EPOCH = 0
"""The leader epoch with which a partition is created."""


def is_stale() -> Column:
    """Whether a finding is a stale answer about a partition's log."""
    return fn.coalesce(fn.col("staleness").isNotNull() & (fn.col("staleness.asked") != "committed"), fn.lit(False))


def with_epochs(findings: DataFrame, relations: Relations, *, wanted: bool) -> DataFrame:
    """Add `witness_epoch`, that of the record which the answer lacks, and `last_epoch`, the partition's latest known.

    Both are null where they are not known, and in all rows unless they are `wanted`.
    """
    if not wanted:
        return findings.withColumns({name: fn.lit(None).cast("int") for name in ("witness_epoch", "last_epoch")})
    lacking = findings.where(is_stale()).select(*KEY, fn.col("staleness.witness_record").alias("offset")).distinct()
    partitions = fn.broadcast(lacking.select(*KEY).distinct())
    logged = relations.dumped.where("leader_epoch is not null")
    of_witness = (
        logged.join(fn.broadcast(lacking), [*KEY, "offset"])
        .groupBy(*KEY, fn.col("offset").alias("witness_record"))
        .agg(fn.min("leader_epoch").alias("witness_epoch"))
    )
    sampled = relations.cluster.where("leader_epoch is not null").select(*KEY, "leader_epoch")
    last = (
        logged.select(*KEY, "leader_epoch")
        .union(sampled)
        .join(partitions, list(KEY))
        .groupBy(*KEY)
        .agg(fn.max("leader_epoch").alias("last_epoch"))
    )
    return (
        findings.withColumn("witness_record", fn.col("staleness.witness_record"))
        .join(fn.broadcast(of_witness), [*KEY, "witness_record"], "left")
        .join(fn.broadcast(last), list(KEY), "left")
    )


def stale_because() -> Column:
    """Return why a stale answer is no breach; null if it is one.

    From the columns `staleness`, `led` (`leadership_bounds`), `brokers` and those of `with_epochs`.
    """
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
    return (
        fn.when(unknown_leader, _because_of_epochs())
        .when(
            current.isNull(),
            fn.when(~_by_the_first_leader(), fn.lit("no sample had shown yet who led the partition")),
        )
        .when(deposed_later, fn.lit("the leadership of the partition was changing at the time"))
        .when(stale.server != current.leader, fn.lit("the broker that answered was no longer the leader"))
        .when(
            stale.server.isNull() & deposed_believer,
            fn.lit("a deposed leader that could not know it yet may have answered"),
        )
        .when(
            (stale.asked == "poll") & ~acknowledged_itself & ~fn.coalesce(caught_up, fn.lit(False)),
            fn.lit("the leader was new, and its high watermark had not been seen to pass the write"),
        )
    )


def undecided() -> Column:
    """Whether nothing in the history tells if a stale answer is a breach."""
    return fn.coalesce(fn.col("stale_because") == UNDECIDED, fn.lit(False))


def _because_of_epochs() -> Column:
    """Return why a stale answer is no breach though no sample shows any leader of the partition."""
    stale, last = fn.col("staleness"), fn.col("last_epoch")
    alone = fn.coalesce(fn.col("brokers") == 1, fn.lit(False))
    by_the_witness = fn.coalesce(stale.server == stale.witness_node, fn.lit(False))
    # Only an acknowledgement tells in which epoch the record was committed; another witness may be of a later one.
    committed_in = fn.when(stale.acknowledged, fn.coalesce("witness_epoch", last)).otherwise(last)
    another_led_before = ~by_the_witness & (committed_in > _FIRST_EPOCH)
    another_led_after = (stale.asked == "poll") & (last > fn.coalesce("witness_epoch", fn.lit(_FIRST_EPOCH)))
    return (
        fn.when(alone | (by_the_witness & (stale.asked != "poll")), fn.lit(None))
        # The partition that keeps a group is not sampled of every system.
        .when(stale.asked == "committed", fn.lit("no sample shows who led the partition"))
        .when(last.isNull(), fn.lit(UNDECIDED))
        .when(another_led_before, fn.lit("leader epochs show that a deposed leader may have answered"))
        .when(another_led_after, fn.lit("leader epochs show that the leader may have been new, and held it back"))
    )


def _by_the_first_leader() -> Column:
    """Whether a query for the end lacked what was acknowledged in the first epoch: no leader before may answer it."""
    stale = fn.col("staleness")
    first = stale.acknowledged & (fn.col("witness_epoch") == _FIRST_EPOCH) & (stale.asked == "latest")
    return fn.coalesce(first, fn.lit(False))


def _is_change(led: Column) -> Column:
    return led.epoch > fn.get("led", fn.lit(0)).epoch
