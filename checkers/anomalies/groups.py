"""Finds anomalies of consumer groups: a committed offset is one register, and a partition has one owner at a time.

A commit takes effect between its invocation and its answer; one of unknown outcome at any time after its invocation, or
never. A finding belongs to the partition of the offsets topic that stores the group: the contract for a commit is
the contract for the record there, and a deposed coordinator that cannot know it yet may give an old answer (BL-10).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.anomalies.rows import findings, one_promise, operation
from checkers.input.frames import FOREVER, NEVER
from checkers.relations.base import GROUP_KEY, GroupRelations, Relations
from history.contract import ACKS_ALL

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The topic in which a cluster stores its groups: a promise about a group is a promise about a record there."""

_BEGINS, _ASKS, _ENDS = 0, 1, 2
"""The order at one instant: what only touches is concurrent."""


def lost_commit(relations: Relations) -> DataFrame:
    """Find answers that are not the last acknowledged commit, nor one that may have come after it.

    ::

        member 1:  commit 50 ──ok──   commit 90 ──ok──
        member 2:                                        committed? ──ok, 50──        or none, or 70, never committed

    In a history that lacks commits only an answer without any offset proves something.
    """
    groups = _groups(relations)
    event = fn.struct("invoked_ns", "completed_ns", "offset", "op", "process", "node", "generation", "member")
    before = _with_earlier_event(groups.commits.where("status = 'ok'").withColumn("event", event), groups.answers)
    explained = _latest_end_of_same_offset(groups, before)
    known = fn.broadcast(relations.runs.select("run_id", "sends_known"))
    lost = explained.join(known, "run_id").where(
        fn.col("before").isNotNull()
        & fn.when(fn.col("offset") < 0, fn.lit(True)).otherwise(
            fn.col("sends_known") & (fn.col("write_ns") < fn.col("before.invoked_ns"))
        )
    )
    return _answered(lost, "lost-commit", {"last_acknowledged": fn.col("before")})


def committed_offset_regression(relations: Relations) -> DataFrame:
    """Find committed offsets that go back: an answer below the one before, or a commit by a generation that is over.

    ::

        committed? ──ok, 90──      committed? ──ok, 50──        and no commit of 50 can have come in between

        generation 6:  commit 90 ──ok──
        generation 5:                      commit 50 ──ok──     the coordinator had to refuse it
    """
    groups = _groups(relations)
    event = fn.struct("invoked_ns", "completed_ns", "offset", "op", "process", "node")
    before = _with_earlier_event(groups.answers.withColumn("event", event), groups.answers)
    known = fn.broadcast(relations.runs.where("sends_known").select("run_id"))
    back = (
        _latest_end_of_same_offset(groups, before)
        .where("before.offset > offset and (offset < 0 or write_ns < before.invoked_ns)")
        .join(known, "run_id", "left_semi")
    )
    answered = _answered(back, "committed-offset-regression", {"earlier": fn.col("before")})
    return answered.unionByName(_commits_of_the_past(groups))


def double_ownership(relations: Relations) -> DataFrame:
    """Find partitions that two members owned at one moment of one generation.

    ::

        generation 6:  member a  ├── log-0 ───────────┤
                       member b            ├── log-0 ───────┤

    A member that a newer generation has left behind may not know it yet: that is no breach. An ownership of unknown
    length counts only for its known part.
    """
    until = fn.coalesce("until_ns", "since_ns")
    so_far = (
        Window.partitionBy(*GROUP_KEY, "generation")
        .orderBy("since_ns", "member")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    tenure = fn.struct(until.alias("until_ns"), fn.col("since_ns"), fn.col("member"), fn.col("process"))
    shared = (
        _groups(relations)
        .ownerships.withColumn("before", fn.max(tenure).over(so_far))
        .where("since_ns < before.until_ns and member != before.member")
    )
    return findings(
        shared,
        "double-ownership",
        **_kept_at(),
        at_ns=fn.col("since_ns"),
        promises=one_promise(ACKS_ALL, fn.col("before.since_ns")),
        details={
            **_whose(),
            "generation": fn.col("generation"),
            "member": fn.col("member"),
            "until_ns": fn.col("until_ns"),
            "earlier": fn.col("before"),
        },
    )


def _groups(relations: Relations) -> GroupRelations:
    if relations.groups is None:
        raise ValueError("these runs have no groups")
    return relations.groups


def _commits_of_the_past(groups: GroupRelations) -> DataFrame:
    """Find acknowledged commits below one that a later generation had been acknowledged before."""
    event = fn.struct("generation", "offset", "invoked_ns", "completed_ns", "op", "process", "member", "node")
    commits = groups.commits.where("status = 'ok' and generation >= 0")
    before = _with_earlier_event(commits.withColumn("event", event), commits)
    return findings(
        before.where("before.generation > generation and before.offset > offset"),
        "committed-offset-regression",
        **_kept_at(),
        offset=_not_of_a_log(),
        broker=fn.col("node"),
        at_ns=fn.col("completed_ns"),
        promises=one_promise(ACKS_ALL, fn.col("before.invoked_ns")),
        details={
            **_whose(),
            "operation": operation(),
            "offset": fn.col("offset"),
            "generation": fn.col("generation"),
            "earlier": fn.col("before"),
        },
    )


def _with_earlier_event(events: DataFrame, queries: DataFrame) -> DataFrame:
    """Give each query, in `before`, the greatest `event` of the events that had ended before it began."""
    ends = events.where("completed_ns is not null").select(
        *GROUP_KEY, fn.col("completed_ns").alias("moment_ns"), fn.lit(_ENDS).alias("turn"), "event"
    )
    asks = queries.where("invoked_ns is not null and completed_ns is not null").select(
        *queries.columns, fn.col("invoked_ns").alias("moment_ns"), fn.lit(_ASKS).alias("turn")
    )
    past = (
        Window.partitionBy(*GROUP_KEY)
        .orderBy("moment_ns", "turn")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        asks.unionByName(ends, allowMissingColumns=True)
        .withColumn("before", fn.max("event").over(past))
        .where(fn.col("turn") == _ASKS)
        .drop("moment_ns", "turn", "event")
    )


def _latest_end_of_same_offset(groups: GroupRelations, answers: DataFrame) -> DataFrame:
    """Add `write_ns`: until when, at the latest, a commit of the answered offset can have taken effect."""
    writes = groups.commits.where("invoked_ns is not null").select(
        *GROUP_KEY,
        "offset",
        fn.col("invoked_ns").alias("moment_ns"),
        fn.lit(_BEGINS).alias("turn"),
        fn.when(fn.col("status") == "ok", fn.col("completed_ns")).otherwise(fn.lit(FOREVER)).alias("ends_ns"),
    )
    begun = (
        Window.partitionBy(*GROUP_KEY, "offset")
        .orderBy("moment_ns", "turn")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    asked = answers.withColumn("moment_ns", fn.col("completed_ns")).withColumn("turn", fn.lit(_ASKS))
    return (
        asked.unionByName(writes, allowMissingColumns=True)
        .withColumn("write_ns", fn.coalesce(fn.max("ends_ns").over(begun), fn.lit(NEVER)))
        .where(fn.col("turn") == _ASKS)
        .drop("moment_ns", "turn", "ends_ns")
    )


def _answered(answers: DataFrame, anomaly: str, details: dict[str, Column]) -> DataFrame:
    return findings(
        answers,
        anomaly,
        **_kept_at(),
        offset=_not_of_a_log(),
        broker=fn.col("node"),
        at_ns=fn.col("completed_ns"),
        promises=one_promise(ACKS_ALL, fn.col("before.invoked_ns")),
        staleness=fn.struct(
            fn.lit("committed").alias("asked"),
            fn.col("node").alias("server"),
            fn.col("invoked_ns"),
            fn.col("completed_ns"),
            fn.col("before.offset").alias("witness_offset"),
            fn.col("before.node").alias("witness_node"),
            fn.col("before.invoked_ns").alias("witness_invoked_ns"),
            fn.col("before.completed_ns").alias("witness_ns"),
            fn.lit(None).cast("bigint").alias("witness_record"),
            fn.lit(False).alias("acknowledged"),
        ),
        details={**_whose(), "operation": operation(), "offset": fn.col("offset"), **details},
    )


def _whose() -> dict[str, Column]:
    return {"group": fn.col("group"), "of_topic": fn.col("topic"), "of_partition": fn.col("partition")}


def _not_of_a_log() -> Column:
    """A committed offset is no offset of the log that stores it."""
    return fn.lit(None)


def _kept_at() -> dict[str, Column]:
    """Assign a finding to the partition that stores the group, if known: the contract of that partition counts."""
    known = fn.col("kept_in").isNotNull()
    return {
        "topic": fn.when(known, fn.lit(OFFSETS_TOPIC)).otherwise(fn.col("topic")),
        "partition": fn.coalesce("kept_in", "partition"),
    }
