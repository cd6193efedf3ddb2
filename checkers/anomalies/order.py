"""Finds sends, reads and end offsets whose order contradicts real time.

A send or a query takes effect between its invocation and its completion; if one was over before the other began, the
log must show them in this order. Each rule is one pass over events sorted by time, with a running maximum.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.anomalies.rows import findings, one_promise, operation
from checkers.input.frames import KEY
from checkers.relations.base import Relations
from history.contract import ACKS_ALL

_ASKS, _ANSWERS = 0, 1
"""At one instant queries come before answers: only what was answered strictly before counts."""


def reordered_send(relations: Relations) -> DataFrame:
    """Find sends that began after another had been acknowledged at a higher offset.

    ::

        process 1:  send a ──ok @50──
        process 2:                      send b ──ok @47──        b is before a in the log, after it in time

    Sends are compared with those of the same acks: one that was acknowledged by its leader alone may be lost, and then
    its offset says nothing about others. The same within one process is `nonmonotonic-send`.
    """
    sends = _acknowledged_sends(relations)
    later = _with_earlier_witness(sends.withColumn("witness", _witness()), "acks")
    return _reordered(later.where("process != before.process"), "reordered-send")


def nonmonotonic_send(relations: Relations) -> DataFrame:
    """Find sends of one process that were acknowledged below an earlier one of the same process.

    ::

        process 1:  send a ──ok @50──   send b ──ok @47──

    An operation that a process begins at the very moment at which it ends another comes after it. A send without an
    answer, which was read, may have taken effect at any time before it was read, also after later sends.
    """
    sends = _acknowledged_sends(relations).withColumn("witness", _witness())
    return _reordered(_with_earlier_witness(sends, "process", "acks", one_by_one=True), "nonmonotonic-send")


def stale_read(relations: Relations) -> DataFrame:
    """Find answers that lacked a record that had been acknowledged (acks=all) before the query.

    ::

        send a ──ok @50──
                            poll from 50 ──ok, nothing──      or: latest ──ok, end 50──

    An empty poll counts only if a broker is known to have answered it (`node` or `high_watermark`): a client that gives
    up waiting has no answer. The contract decides whether the answer came from the leader, or from a deposed one that
    could not know it yet.
    """
    sends = relations.sends.where(
        f"status = 'ok' and acks = {ACKS_ALL} and offset is not null and completed_ns is not null"
    )
    # A record that was read is below the high watermark of the broker that served it, whatever its acks.
    read = relations.resolved.where("served_ns is not null").withColumn("completed_ns", fn.col("served_ns"))
    witnesses = sends.unionByName(read, allowMissingColumns=True).withColumn("witness", _witness())
    questions = relations.polls.where(
        "status = 'ok' and (kind = 'latest' or (whole and records = 0"
        " and (node is not null or high_watermark is not null)))"
    ).withColumn("offset", fn.when(fn.col("kind") == "latest", fn.col("next_position")).otherwise(fn.col("position")))
    answered = _with_earlier_witness(witnesses.unionByName(questions, allowMissingColumns=True))
    stale = answered.where("kind is not null and before.offset >= offset")
    return findings(
        stale,
        "stale-read",
        value=fn.col("before.value"),
        broker=fn.col("node"),
        at_ns=fn.col("completed_ns"),
        promises=one_promise(ACKS_ALL, fn.col("before.invoked_ns")),
        staleness=_staleness(fn.col("before.offset"), acknowledged=fn.col("before.status") == "ok"),
        details={
            "operation": operation(),
            "asked": fn.col("kind"),
            "position": fn.col("position"),
            "answered_end": fn.col("next_position"),
            "witness": fn.col("before"),
        },
    )


def end_offset_regression(relations: Relations) -> DataFrame:
    """Find end offsets that are below one that had been returned before the query.

    ::

        latest ──ok, end 50──
                                latest ──ok, end 47──

    High watermarks that come with a poll count too.
    """
    answers = relations.polls.where("status = 'ok'").withColumn(
        "offset",
        fn.when(fn.col("kind") == "latest", fn.col("next_position")).otherwise(fn.col("high_watermark")),
    )
    shown = answers.where("offset is not null").withColumn("witness", _witness(value=False))
    answered = _with_earlier_witness(shown)
    return findings(
        answered.where("before.offset > offset"),
        "end-offset-regression",
        broker=fn.col("node"),
        at_ns=fn.col("completed_ns"),
        promises=one_promise(ACKS_ALL, fn.col("before.invoked_ns")),
        staleness=_staleness(fn.col("before.offset") - 1, acknowledged=fn.lit(False)),
        details={
            "operation": operation(),
            "asked": fn.col("kind"),
            "answered_end": fn.col("offset"),
            "witness": fn.col("before"),
        },
    )


def nonmonotonic_poll(relations: Relations) -> DataFrame:
    """Find polls whose position is below the position that the same process had reached, or whose records go backwards.

    ::

        process 7:  poll [40 ── 50)   poll (nothing)   poll from 45      back by 5, without seek or assignment
        process 7:  poll returned 40, 42, 41

    An empty poll does not make a process forget its position; an assignment or a seek does.
    """
    so_far = Window.partitionBy(*KEY, "process").orderBy("invoked_ns", "op").rowsBetween(Window.unboundedPreceding, -1)
    back = (
        relations.polls.where("kind = 'poll' and process is not null and position is not null")
        .withColumn("reached", fn.last(fn.coalesce("next_position", "position")).over(so_far))
        .withColumn("previous_ns", fn.last("invoked_ns").over(so_far))
        .where("position < reached and not coalesce(assigned, false)")
        .select(
            *KEY, "op", "process", "status", "node", "invoked_ns", "completed_ns", "reached", "position", "previous_ns"
        )
        .withColumn("within_poll", fn.lit(False))
    )
    within = (
        relations.uneven_reads.where("offset <= previous_offset and op = previous_op")
        .withColumn("node", fn.lit(None).cast("int"))
        .select(
            *KEY,
            "op",
            "process",
            "status",
            "node",
            "invoked_ns",
            "completed_ns",
            "previous_offset",
            "offset",
            "previous_invoked_ns",
        )
        .withColumn("within_poll", fn.lit(True))
    )
    return findings(
        back.union(within),
        "nonmonotonic-poll",
        offset=fn.col("position"),
        broker=fn.col("node"),
        at_ns=fn.coalesce("completed_ns", "invoked_ns"),
        promises=one_promise(ACKS_ALL, fn.col("previous_ns")),
        details={
            "operation": operation(),
            "from_offset": fn.col("reached"),
            "to_offset": fn.col("position"),
            "within_poll": fn.col("within_poll"),
        },
    )


def skipped_poll(relations: Relations) -> DataFrame:
    """Find records of a process that follow each other although known records lie between them.

    ::

        process 7:  poll … 44, 45        poll 48 …            46 and 47 are known from others, or from their sends
    """
    jumps = relations.uneven_reads.where("offset > previous_offset and status = 'ok'")
    rank = _ranks(relations, jumps)
    rank_before = rank.select(*KEY, fn.col("offset").alias("previous_offset"), fn.col("rank").alias("previous_rank"))
    ranked = rank.join(fn.broadcast(jumps), [*KEY, "offset"])
    skipped = (
        rank_before.join(fn.broadcast(ranked), [*KEY, "previous_offset"])
        .where("rank > previous_rank + 1")
        .withColumn("node", fn.lit(None).cast("int"))
    )
    return findings(
        skipped,
        "skipped-poll",
        at_ns=fn.coalesce("completed_ns", "invoked_ns"),
        promises=one_promise(ACKS_ALL, fn.col("previous_invoked_ns")),
        details={
            "operation": operation(),
            "from_offset": fn.col("previous_offset"),
            "to_offset": fn.col("offset"),
            "previous_op": fn.col("previous_op"),
            "skipped": fn.col("rank") - fn.col("previous_rank") - 1,
        },
    )


def _ranks(relations: Relations, jumps: DataFrame) -> DataFrame:
    """Rank the offsets known to be taken, in the partitions in which a reader jumped.

    Ranks, not offsets, are compared, so that gaps in a log (control records, retention) do not count.
    """
    sent = relations.values.where("committed and send_offset is not null")
    taken = relations.reads.select(*KEY, "offset").union(sent.select(*KEY, "send_offset"))
    in_question = fn.broadcast(jumps.select(*KEY).distinct())
    return (
        taken.join(in_question, list(KEY), "left_semi")
        .distinct()
        .withColumn("rank", fn.row_number().over(Window.partitionBy(*KEY).orderBy("offset")))
    )


def _acknowledged_sends(relations: Relations) -> DataFrame:
    """Return sends at known offsets that are known to have happened: acknowledged ones, and those that were read."""
    acknowledged = relations.sends.where(
        "status = 'ok' and acks != 0 and offset is not null and completed_ns is not null"
    )
    return acknowledged.unionByName(relations.resolved.where("acks != 0"), allowMissingColumns=True)


def _witness(*, value: bool = True) -> Column:
    """Return what a completed operation shows, greatest offset first."""
    return fn.struct(
        "offset",
        "completed_ns",
        "op",
        "process",
        "status",
        "node",
        "invoked_ns",
        *([fn.col("value")] if value else []),
    )


def _with_earlier_witness(operations: DataFrame, *alike: str, one_by_one: bool = False) -> DataFrame:
    """Give each operation, in the column `before`, the greatest `witness` of those that completed before it began.

    Only operations with the same values of the columns `alike` are compared. With `one_by_one` these are begun in the
    order of their numbers, and one that completed at the instant at which the next began counts too.
    """
    turns = ("op", "moment.turn") if one_by_one else ("moment.turn",)
    moments = operations.withColumn(
        "moment",
        fn.explode(
            fn.array(
                fn.struct(fn.col("invoked_ns").alias("ns"), fn.lit(_ASKS).alias("turn")),
                fn.struct(fn.col("completed_ns").alias("ns"), fn.lit(_ANSWERS).alias("turn")),
            )
        ),
    )
    witness = fn.when(fn.col("moment.turn") == _ANSWERS, fn.col("witness"))
    past = (
        Window.partitionBy(*KEY, *alike)
        .orderBy("moment.ns", *turns)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        moments.withColumn("before", fn.max(witness).over(past))
        .where((fn.col("moment.turn") == _ASKS) & fn.col("before").isNotNull())
        .drop("moment", "witness")
    )


def _reordered(sends: DataFrame, anomaly: str) -> DataFrame:
    return findings(
        sends.where("before.offset > offset"),
        anomaly,
        broker=fn.col("node"),
        at_ns=fn.col("completed_ns"),
        promises=one_promise(fn.col("acks"), fn.col("before.invoked_ns")),
        details={"operation": operation(), "earlier": fn.col("before")},
    )


def _staleness(record: Column, *, acknowledged: Column) -> Column:
    return fn.struct(
        fn.col("kind").alias("asked"),
        fn.col("node").alias("server"),
        fn.col("invoked_ns"),
        fn.col("completed_ns"),
        fn.col("before.offset").alias("witness_offset"),
        fn.col("before.node").alias("witness_node"),
        fn.col("before.invoked_ns").alias("witness_invoked_ns"),
        fn.col("before.completed_ns").alias("witness_ns"),
        record.alias("witness_record"),
        acknowledged.alias("acknowledged"),
    )
