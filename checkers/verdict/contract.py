"""Decides which findings break the contract, and which are within what the configuration allows.

The promises, with `min.insync.replicas` = f + 1:

- acks=all (and every record that was read): it lasts unless more than f replicas suffered lossy unclean shutdowns
  whose windows overlap, each from the crash until the replica is back in the ISR; with unclean election on, also
  unless such an election happened.
- acks=1: it lasts as long as the leader neither changes nor loses anything.
- acks=0: nothing.
- Reads are linearizable per partition, if the partition's leader served them. A leader that was deposed and
  could not know it yet may serve stale, committed data (BL-10); a new leader may hold a poll back until its high
  watermark has caught up (HW-6, FE-8), but not answer a query for the end of the log before (LO-2).

Flaws and protocol versions do not change the contract. Only what the cluster's samples show excuses a loss.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.findings import ACKS_ALL, KEY
from checkers.relations.base import Relations
from checkers.relations.leadership import FOREVER, NEVER, leaderships, stale_because


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
        .join(fn.broadcast(leaderships(relations)), list(KEY), "left")
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


def excuses(relations: Relations) -> DataFrame:
    """Return, per partition, until when records had to be invoked for their loss to be excused.

    `lost_until_ns` for acks=all: the last moment at which one of more than f overlapping lossy shutdowns, or an allowed
    unclean election, can have happened. `leader_lossy_until_ns`: the last lossy shutdown of any replica that ever led.
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
        .where(fn.size("crashes") >= fn.col("min_insync_replicas"))
        .groupBy(*KEY)
        .agg(fn.max(fn.element_at("crashes", fn.col("min_insync_replicas"))).alias("shutdowns_ns"))
    )
    led = relations.cluster.where("role = 'leader'").select(*KEY, "broker").distinct()
    leader_lossy = (
        windows.join(led, [*KEY, "broker"]).groupBy(*KEY).agg(fn.max("crashed_by_ns").alias("leader_lossy_until_ns"))
    )
    unclean = (
        unclean_elections(relations)
        .join(min_isr.where("unclean_election").select("run_id"), "run_id")
        .groupBy(*KEY)
        .agg(fn.max("elected_ns").alias("unclean_ns"))
    )
    return (
        at_once.join(leader_lossy, list(KEY), "full")
        .join(unclean, list(KEY), "full")
        .select(
            *KEY,
            fn.greatest("shutdowns_ns", "unclean_ns").alias("lost_until_ns"),
            "leader_lossy_until_ns",
        )
    )


def lossy_windows(relations: Relations) -> DataFrame:
    """Return one row per lossy shutdown of a replica: `started_ns`, `crashed_by_ns` (at the latest), `back_ns`.

    The replica is back when a leader's sample taken after the fault was healed has it in the ISR::

        started ── crash ── ended (healed) ───── leader's ISR has it again
           └────────────── window ───────────────────┘

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
        fn.coalesce("ended_ns", fn.lit(FOREVER)).alias("crashed_by_ns"),
        fn.coalesce("back_ns", fn.lit(FOREVER)).alias("back_ns"),
    )


def unclean_elections(relations: Relations) -> DataFrame:
    """Return the elections of a replica outside ISR and ELR, if the samples prove them: `elected_ns`.

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
        .select(*KEY, "elected_ns")
    )


def _no_brokers() -> Column:
    return fn.array().cast("array<int>")


def _excused(promise: Column) -> Column:
    lost = promise.at_ns <= fn.coalesce("lost_until_ns", fn.lit(NEVER))
    leader_lost = promise.at_ns <= fn.coalesce("leader_lossy_until_ns", fn.lit(NEVER))
    last_epoch = fn.get("led", fn.size("led") - 1).epoch
    # The leader that acknowledged it may have been deposed since, or before without knowing it yet (BL-10).
    changed = fn.exists("led", lambda led: (led.led_until_ns >= promise.at_ns) & (led.epoch < last_epoch))
    excused = (
        fn.when(promise.acks == ACKS_ALL, lost)
        .when(promise.acks == 1, lost | leader_lost | fn.coalesce(changed, fn.lit(False)))
        .otherwise(promise.acks == 0)
    )
    return fn.coalesce(excused, fn.lit(False))
