"""Derives from samples of the cluster who led when, which replicas lost what they had, and unclean elections.

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

from checkers.input.frames import FOREVER, KEY, NEVER
from checkers.relations.base import Relations
from history.contract import too_many_shutdowns

ROUNDS = 5
"""Rounds of samples in a row in which all replicas name one leader, so that no other can have led meanwhile."""


def leadership_bounds(relations: Relations) -> DataFrame:
    """Return, per partition, the list `led` of its leader epochs in order.

    Each has `epoch`, `leader`, `seen_ns`, `not_before_ns`, `led_until_ns` (the leader believed in it no longer than
    that), `watermarks`: the samples of its leader in which the high watermark was higher than before, and
    `succeeds_itself`: whether the samples show that nobody else has led since its leader did so before, because they
    have every epoch in between, and no leader in any of them.
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
    in_order = Window.partitionBy(*KEY).orderBy("leader_epoch")
    numbered = (
        relations.cluster.where("leader_epoch is not null")
        .select(*epoch)
        .distinct()
        .withColumn("number", fn.row_number().over(in_order))
    )
    began_after = fn.col("leader_epoch") - fn.lag("leader_epoch").over(in_order)
    sampled_after = fn.col("number") - fn.lag("number").over(in_order)
    heirs = (
        begun.join(numbered, epoch)
        .withColumn(
            "succeeds_itself", (fn.lag("leader").over(in_order) == fn.col("leader")) & (began_after == sampled_after)
        )
        .select(*epoch, "succeeds_itself")
    )
    leadership = fn.struct(
        fn.col("leader_epoch").alias("epoch"),
        "leader",
        "seen_ns",
        fn.coalesce("not_before_ns", fn.lit(NEVER)).alias("not_before_ns"),
        fn.coalesce("led_until_ns", fn.lit(FOREVER)).alias("led_until_ns"),
        "watermarks",
        fn.coalesce("succeeds_itself", fn.lit(False)).alias("succeeds_itself"),
    )
    return (
        begun.join(heirs, epoch)
        .join(not_before, epoch, "left")
        .join(led, epoch, "left")
        .groupBy(*KEY)
        .agg(fn.sort_array(fn.collect_list(leadership)).alias("led"))
    )


def excuses(relations: Relations) -> DataFrame:
    """Return, per partition, what excuses the loss of records.

    `losses` for acks=all, each of more than f lossy shutdowns that overlapped, or of an allowed unclean election: the
    first moment at which it can have been (`moment_ns`), and until when a record had to be invoked to be lost by it
    (`until_ns`), the last moment at which one of these can have happened. `leader_lossy_until_ns`: the last lossy
    shutdown of any replica that ever led.
    """
    windows = lossy_windows(relations)
    min_isr = fn.broadcast(relations.runs.select("run_id", "min_insync_replicas", "unclean_election"))
    start = windows.select(*KEY, fn.col("started_ns").alias("moment_ns")).distinct()
    at_once = (
        start.join(windows, list(KEY))
        .where("started_ns <= moment_ns and moment_ns < back_ns")
        .groupBy(*KEY, "moment_ns", "broker")
        .agg(fn.max("crashed_by_ns").alias("crashed_by_ns"))
        .groupBy(*KEY, "moment_ns")
        .agg(fn.sort_array(fn.collect_list("crashed_by_ns"), asc=False).alias("crashes"))
        .join(min_isr, "run_id")
        .where(too_many_shutdowns(fn.size("crashes"), fn.col("min_insync_replicas")))
        .select(*KEY, "moment_ns", fn.element_at("crashes", fn.col("min_insync_replicas")).alias("until_ns"))
    )
    led = relations.cluster.where("role = 'leader'").select(*KEY, "broker").distinct()
    leader_lossy = (
        windows.join(led, [*KEY, "broker"]).groupBy(*KEY).agg(fn.max("crashed_by_ns").alias("leader_lossy_until_ns"))
    )
    unclean = (
        unclean_elections(relations)
        .join(min_isr.where("unclean_election").select("run_id"), "run_id")
        .join(_epoch_bounds(relations), [*KEY, "leader_epoch"])
        .select(*KEY, fn.col("not_before_ns").alias("moment_ns"), fn.col("elected_ns").alias("until_ns"))
    )
    losses = (
        at_once.union(unclean).groupBy(*KEY).agg(fn.collect_list(fn.struct("moment_ns", "until_ns")).alias("losses"))
    )
    return losses.join(leader_lossy, list(KEY), "full")


def shortened(relations: Relations) -> DataFrame:
    """Return, per partition, the list `shortened` of samples in which a leader's log ended before an earlier one's.

    Each has `since_ns` and `at_ns`, between which the log was seen like that, and `log_end`: no record from there on
    was in it. Only of leaders that were the latest ones then: a leader that was deposed may lack what the next one has
    acknowledged. Leader epochs tell which were; in a run without any, agreement of all replicas does.
    """
    return (
        _shortened_in_latest_epochs(relations)
        .unionByName(_shortened_undisputed(relations))
        .groupBy(*KEY)
        .agg(fn.collect_list(fn.struct("since_ns", "at_ns", "log_end")).alias("shortened"))
    )


def _shortened_in_latest_epochs(relations: Relations) -> DataFrame:
    """Return `shortened`, a row each, of leaders with an epoch: a later one began after the sample."""
    epoch = [*KEY, "leader_epoch"]
    samples_of_one = Window.partitionBy(*KEY, "broker").orderBy("at_ns")
    in_order = Window.partitionBy(*KEY).orderBy("leader_epoch")
    bounds = (
        _epoch_bounds(relations)
        .withColumn("latest_until_ns", fn.coalesce(fn.lead("not_before_ns").over(in_order), fn.lit(FOREVER)))
        .drop("not_before_ns")
    )
    earlier = Window.partitionBy(*KEY).orderBy("at_ns").rowsBetween(Window.unboundedPreceding, -1)
    return (
        relations.cluster.withColumn("since_ns", fn.lag("at_ns").over(samples_of_one))
        .where("role = 'leader' and broker = leader and leader_epoch is not null and log_end is not null")
        .join(bounds, epoch)
        .where("at_ns < latest_until_ns")
        .withColumn("highest", fn.max("log_end").over(earlier))
        .where("log_end < highest and since_ns is not null")
        .select(*KEY, "since_ns", "at_ns", "log_end")
    )


def _shortened_undisputed(relations: Relations) -> DataFrame:
    """Return `shortened`, a row each, of leaders that all replicas agreed on, in runs without leader epochs.

    A round ends with a sample of the leader, and begins after the one before. Proof is five rounds in a row without a
    sample that names another leader, or none; in each of them every replica answers, and the leader's log lacks the
    record in all of them. What a sample shows was so at some moment since the sample before it, hence five::

        record acknowledged
          │   since_ns
          │     │ round 1: all have answered
          │     │ round 2: all have followed this leader, also the one that acknowledged the record: it led before
          │     │ round 3: the leader's log has lacked the record since then
          │     │ round 4: all have answered since then
          │     │ round 5: all have followed this leader since then
          │   at_ns

    A replica that does not answer, whatever the reason, may be leading.
    """
    with_epochs = relations.cluster.where("leader_epoch is not null").select("run_id").distinct()
    samples = relations.cluster.join(with_epochs, "run_id", "left_anti")
    in_order = Window.partitionBy(*KEY).orderBy("at_ns", "broker")
    in_stretch = Window.partitionBy(*KEY, "stretch").orderBy("at_ns", "broker")
    named = "role in ('leader', 'follower') and leader >= 0 and (role = 'leader') = (broker = leader)"
    as_before = fn.col("named") == fn.lag("named").over(in_order)
    led = fn.col("broker") == fn.col("named")
    rounds = (
        samples.withColumn("named", fn.when(fn.expr(named), fn.col("leader")))
        .withColumn("differs", fn.when(as_before, 0).otherwise(1))
        .withColumn("stretch", fn.sum("differs").over(in_order.rowsBetween(Window.unboundedPreceding, 0)))
        .withColumn("turn", fn.count(fn.when(led, 1)).over(in_stretch.rowsBetween(Window.unboundedPreceding, -1)))
        .groupBy(*KEY, "stretch", "turn")
        .agg(
            fn.min("at_ns").alias("first_ns"),
            fn.max(fn.when(led, fn.col("at_ns"))).alias("at_ns"),
            fn.max(fn.when(led, fn.col("log_end"))).alias("log_end"),
            fn.size(fn.collect_set("broker")).alias("answered"),
        )
        .where("at_ns is not null and log_end is not null")
    )
    earlier = Window.partitionBy(*KEY).orderBy("at_ns").rowsBetween(Window.unboundedPreceding, -1)
    five = Window.partitionBy(*KEY, "stretch").orderBy("turn").rowsBetween(1 - ROUNDS, 0)
    return (
        rounds.withColumn("highest", fn.max("log_end").over(earlier))
        .join(_numbers_of_replicas(samples, relations), list(KEY))
        .withColumn("since_ns", fn.min("first_ns").over(five))
        .withColumn("whole", fn.count(fn.when(fn.col("answered") == fn.col("replicas"), 1)).over(five))
        .withColumn("turns", fn.col("turn") - fn.min("turn").over(five))
        .withColumn("log_end", fn.max("log_end").over(five))
        .where((fn.col("whole") == ROUNDS) & (fn.col("turns") == ROUNDS - 1) & (fn.col("log_end") < fn.col("highest")))
        .select(*KEY, "since_ns", "at_ns", "log_end")
    )


def _numbers_of_replicas(samples: DataFrame, relations: Relations) -> DataFrame:
    """Return, per partition, `replicas`: how many brokers may ever have led it, at least the replication factor."""
    in_sync, eligible = (fn.coalesce(name, _no_brokers()) for name in ("isr", "elr"))
    brokers = fn.concat(fn.array("broker", "leader"), in_sync, eligible)
    mentioned = samples.select(*KEY, fn.explode(brokers).alias("broker"))
    return (
        mentioned.where("broker >= 0")
        .union(relations.replicas.select(*KEY, "broker"))
        .groupBy(*KEY)
        .agg(fn.count_distinct("broker").alias("known"))
        .join(fn.broadcast(relations.runs.select("run_id", "replication_factor")), "run_id")
        .select(*KEY, fn.greatest("known", "replication_factor").alias("replicas"))
    )


def _epoch_bounds(relations: Relations) -> DataFrame:
    """Return, per leader epoch of a partition, `not_before_ns` of `leadership_bounds`."""
    return (
        leadership_bounds(relations)
        .select(*KEY, fn.explode("led").alias("led"))
        .select(*KEY, fn.col("led.epoch").alias("leader_epoch"), fn.col("led.not_before_ns").alias("not_before_ns"))
    )


def lossy_windows(relations: Relations) -> DataFrame:
    """Return one row per lossy shutdown of a replica: `started_ns`, `crashed_by_ns` (at the latest), `back_ns`.

    The replica is back when a leader's sample taken after the fault was healed has it in the ISR. A fault that crashes
    its targets first has done so when it is seen to have taken hold, any other at the latest when it is healed::

        started ── crash ── crashed by ── ended (healed) ───── leader's ISR has it again
           └────────────────────── window ───────────────────────────┘

    Without such a sample it is never known to be back.
    """
    lossy = relations.faults.where("lossy")
    replicas = (
        relations.cluster.where("role in ('leader', 'follower')")
        .select(*KEY, "broker")
        .union(relations.replicas)
        .distinct()
    )
    crashes = lossy.join(replicas, ["run_id", "broker"])
    samples_of_one = Window.partitionBy(*KEY, "broker").orderBy("at_ns")
    # What a sample shows was so at some moment since the sample before it.
    leader = (
        relations.cluster.withColumn("shown_ns", fn.lag("at_ns").over(samples_of_one))
        .where("role = 'leader'")
        .select(*KEY, "at_ns", "shown_ns", fn.explode("isr").alias("broker"))
    )
    back = (
        crashes.join(leader, [*KEY, "broker"])
        .where("shown_ns >= ended_ns")
        .groupBy(*KEY, "fault", "broker")
        .agg(fn.min("at_ns").alias("back_ns"))
    )
    return crashes.join(back, [*KEY, "fault", "broker"], "left").select(
        *KEY,
        "fault",
        "broker",
        "started_ns",
        fn.coalesce("crashed_by_ns", fn.lit(FOREVER)).alias("crashed_by_ns"),
        fn.coalesce("back_ns", fn.lit(FOREVER)).alias("back_ns"),
    )


def unclean_elections(relations: Relations) -> DataFrame:
    """Return the elections of a replica outside ISR and ELR, if the samples prove them: `leader_epoch`, `elected_ns`.

    Proof: the first sample of a new leader epoch has a leader that no broker's last sample of the epoch before had in
    its ISR or ELR, and an ISR of that leader alone (EL-9).
    """
    epoch = [*KEY, "leader_epoch"]
    sampled = relations.cluster.where("leader_epoch is not null")
    last_words = Window.partitionBy(*epoch, "broker").orderBy(fn.desc("at_ns"))
    eligible = (
        sampled.withColumn("turn", fn.row_number().over(last_words))
        .where("turn = 1")
        .groupBy(*epoch)
        .agg(
            fn.array_distinct(
                fn.flatten(
                    fn.collect_list(fn.concat(fn.coalesce("isr", _no_brokers()), fn.coalesce("elr", _no_brokers())))
                )
            ).alias("eligible")
        )
    )
    first = (
        sampled.where("leader >= 0")
        .groupBy(*epoch)
        .agg(fn.min_by(fn.struct("leader", "isr"), "at_ns").alias("first"), fn.min("at_ns").alias("elected_ns"))
    )
    before = Window.partitionBy(*KEY).orderBy("leader_epoch")
    return (
        eligible.join(first, epoch, "left")
        .withColumn("eligible_before", fn.lag("eligible").over(before))
        .where(
            (fn.size("eligible_before") > 0)
            & ~fn.array_contains("eligible_before", fn.col("first.leader"))
            & (fn.col("first.isr") == fn.array("first.leader"))
        )
        .select(*epoch, "elected_ns")
    )


def _no_brokers() -> Column:
    return fn.array().cast("array<int>")
