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

from checkers.input.frames import FOREVER, KEY, NEVER
from checkers.relations.base import Relations
from checkers.relations.cluster_events import excuses, leadership_bounds, shortened
from checkers.relations.records import given_again, last_sent
from checkers.verdict.staleness import is_stale, stale_because, undecided, with_epochs
from history.contract import loss_is_allowed

LOST = ("lost-acked-write", "lost-read")
"""Anomalies that say that the record at their offset is gone."""

END_WENT_BACK = "end-offset-regression"

SHOWN_BY_AN_ANSWER = (
    *("inconsistent-offset", "stale-read", END_WENT_BACK),
    *("nonmonotonic-poll", "skipped-poll", "reordered-send", "nonmonotonic-send"),
)
"""Anomalies whose time is that of the answer that shows them: what crashed later has not led to them."""


def classified(findings: DataFrame, relations: Relations) -> DataFrame | None:
    """Add `within_contract`, `undecided` and, for stale answers, `stale_for_ns` (at least so long) and `stale_because`.

    `undecided`: nothing in the history tells whether it breaks the contract; it then counts as within it.

    Reads the findings once to see whether any of them needs samples and faults: most runs have none. Returns None if
    there are no findings at all.
    """
    depends = fn.coalesce((fn.size("promises") > 0) | fn.col("staleness").isNotNull(), fn.lit(False))
    lost = fn.col("anomaly").isin(*LOST)
    went_back = fn.col("anomaly") == END_WENT_BACK
    asked = {"depends": depends, "stale": is_stale(), "lost": lost, "went_back": went_back}
    kinds = findings.select(*(column.alias(name) for name, column in asked.items())).distinct().collect()
    if not kinds:
        return None
    if not any(row.depends for row in kinds):
        return findings.select(
            "*",
            fn.col("promises").isNotNull().alias("within_contract"),
            fn.lit(None).cast("string").alias("stale_because"),
            fn.lit(None).cast("bigint").alias("stale_for_ns"),
            fn.lit(False).alias("undecided"),
        )
    judged = (
        findings.join(fn.broadcast(excuses(relations)), list(KEY), "left")
        .join(fn.broadcast(leadership_bounds(relations)), list(KEY), "left")
        .join(fn.broadcast(relations.runs.select("run_id", "brokers")), "run_id", "left")
    )
    judged = with_epochs(judged, relations, wanted=any(row.stale for row in kinds))
    gone_ns = _shown_by_ns()
    if any(row.lost for row in kinds):
        again = given_again(findings.where(lost), relations.attempts)
        judged = judged.join(fn.broadcast(shortened(relations)), list(KEY), "left")
        judged = judged.join(again, [*KEY, "anomaly", "offset", "value"], "left")
        gone_ns = fn.when(lost, _gone_by_ns()).otherwise(gone_ns)
    last_sent_ns: Column = fn.lit(None)
    if any(row.went_back for row in kinds):
        judged = _with_last_sent(judged, relations)
        last_sent_ns = fn.col("last_sent_ns")
    kept = fn.size(fn.filter("promises", lambda promise: ~_excused(promise, gone_ns, last_sent_ns)))
    loss_excused = fn.when(fn.col("promises").isNull(), fn.lit(False)).otherwise(kept < fn.col("promises_needed"))
    return (
        judged.withColumn("stale_because", fn.when(fn.col("staleness").isNotNull(), stale_because()))
        .withColumn("within_contract", loss_excused | fn.col("stale_because").isNotNull())
        .withColumn("stale_for_ns", fn.col("staleness.invoked_ns") - fn.col("staleness.witness_ns"))
        .withColumn("undecided", undecided() & ~loss_excused)
        .select(*findings.columns, "within_contract", "stale_because", "stale_for_ns", "undecided")
    )


def _with_last_sent(judged: DataFrame, relations: Relations) -> DataFrame:
    """Add, for an end of the log that went back, `last_sent_ns`: when the last record below the earlier end was sent.

    What a loss may take goes by when a record was sent, not by when a client learnt that it was there.
    """
    shown = judged.withColumn("record", fn.when(fn.col("anomaly") == END_WENT_BACK, fn.col("staleness.witness_record")))
    shown = shown.withColumn("shown_ns", fn.col("staleness.witness_ns"))
    known = last_sent(shown.where("record is not null"), relations.attempts)
    return shown.join(known, [*KEY, "record", "shown_ns"], "left")


def _excused(promise: Column, gone_ns: Column, last_sent_ns: Column) -> Column:
    """Whether a promise need not hold: by a loss that came after it was made, and not after the record was gone."""
    since_ns = fn.least(promise.at_ns, last_sent_ns)
    lost = fn.coalesce(
        fn.exists("losses", lambda loss: (since_ns <= loss.until_ns) & (loss.moment_ns <= gone_ns)), fn.lit(False)
    )
    leader_lost = promise.at_ns <= fn.coalesce("leader_lossy_until_ns", fn.lit(NEVER))
    last_epoch = fn.get("led", fn.size("led") - 1).epoch
    # The leader that acknowledged it may have been deposed since, or before without knowing it yet (BL-10).
    changed = fn.exists("led", lambda led: (led.led_until_ns >= promise.at_ns) & (led.epoch < last_epoch))
    excused = loss_is_allowed(
        promise.acks, replicas_failed=lost, leader_failed=leader_lost | fn.coalesce(changed, fn.lit(False))
    )
    return fn.coalesce(excused, fn.lit(False))


def _gone_by_ns() -> Column:
    """When a lost record is known to be gone: what came later has not taken it, and excuses nothing.

    The latest leader's log ended before it, in a sample of the time after its acknowledgement, or after it was read; or
    its offset was acknowledged to another record that was sent after that.
    """
    gone = fn.filter("shortened", lambda one: (one.log_end <= fn.col("offset")) & (one.since_ns >= fn.col("at_ns")))
    earliest = fn.least(fn.array_min(fn.transform(gone, lambda one: one.at_ns)), "given_again_ns")
    return fn.coalesce(earliest, fn.lit(FOREVER))


def _shown_by_ns() -> Column:
    """When an anomaly had shown itself, of those whose time says so; else for ever."""
    return fn.coalesce(fn.when(fn.col("anomaly").isin(*SHOWN_BY_AN_ANSWER), fn.col("at_ns")), fn.lit(FOREVER))
