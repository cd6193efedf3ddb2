"""Finds values whose fate breaks a promise: promised and gone, or read though never sent, failed or not committed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.anomalies.rows import findings, one_promise, operation
from checkers.input.frames import KEY
from checkers.input.polls import lagging_samples, not_yet_committed
from checkers.relations.base import Relations
from history.contract import ACKS_ALL


def lost_acked_write(relations: Relations) -> DataFrame:
    """Find acknowledged values that the FINAL does not show, or that polls passed over.

    ::

        send 123 ──ok @45──┐
        final:  … 44, 45: 456, 46 …        123 is lost, whether the FINAL goes on to the end or not
        poll:   [40 ── 50) returned 40-44, 46-49     lost too, if nobody ever read it

    Values acknowledged with acks=1 are included; the contract decides whether their loss is a violation. A value above
    the records that were read is unseen, not lost, unless a complete FINAL shows that the log ends there.
    """
    return findings(
        _lost_acked_writes(relations),
        "lost-acked-write",
        offset=fn.col("send_offset"),
        op=fn.col("send_op"),
        process=fn.col("send_process"),
        broker=fn.col("send_node"),
        at_ns=fn.col("send_completed_ns"),
        promises=one_promise(fn.col("send_acks"), fn.col("send_invoked_ns")),
        details={
            "operation": operation("send_"),
            "acks": fn.col("send_acks"),
            "reads": fn.col("reads"),
            "final_complete": fn.col("final_complete"),
        },
    )


def _lost_acked_writes(relations: Relations) -> DataFrame:
    acknowledged = relations.values.where("acknowledged and final_reads = 0")
    with_final = (
        acknowledged.join(fn.broadcast(_shown(relations)), list(KEY), "left")
        .withColumn("final_complete", fn.coalesce("complete", fn.lit(False)))
        .withColumn("absent", _absent_from_final("send_completed_ns", "send_offset"))
    )
    absent = with_final.where("absent").select(*acknowledged.columns, "final_complete")
    passed = _passed_over(
        with_final.where("ok_reads = 0 and send_offset is not null and not final_complete and not absent"), relations
    ).select(*acknowledged.columns, "final_complete")
    return absent.union(passed)


def lost_read(relations: Relations) -> DataFrame:
    """Find values that an ok poll returned and that the FINAL does not show: the high watermark went back.

    ::

        poll:   … 45: 123 …
        final:  … 45: 456 …                123 was read, and is gone
    """
    return findings(
        _lost_reads(relations),
        "lost-read",
        offset=fn.col("read_offset"),
        op=fn.col("read_op"),
        process=fn.col("read_process"),
        at_ns=fn.col("read_first_ns"),
        promises=one_promise(ACKS_ALL, fn.coalesce("send_invoked_ns", "read_first_ns")),
        details={
            "operation": operation("send_"),
            "read_op": fn.col("read_op"),
            "read_process": fn.col("read_process"),
            "read_ns": fn.col("read_first_ns"),
            "told_high_watermark": fn.col("told_high_watermark"),
            "reads": fn.col("reads"),
            "final_complete": fn.col("complete"),
        },
    )


def _never_committed_and_gone(relations: Relations) -> DataFrame:
    """Return the values of `lost_read` that no broker ever called committed, by an acknowledgement or to a reader."""
    unpromised = _lost_reads(relations).where("sent > 0 and not acknowledged")
    return unpromised.where(~fn.coalesce("called_committed", fn.lit(False)))


def _lost_reads(relations: Relations) -> DataFrame:
    """Return the values of `lost_read`, with what the answers told that showed them first.

    `told_high_watermark` is theirs, the highest, and `called_committed` whether one was above the record.
    """
    read = relations.values.where("ok_reads > 0 and final_reads = 0")
    gone = read.join(fn.broadcast(_shown(relations)), list(KEY)).where(
        _absent_from_final("read_first_ns", "read_offset")
    )
    first = (
        relations.reads.where("status = 'ok'")
        .join(fn.broadcast(gone.select(*KEY, "value", "read_first_ns")), [*KEY, "value"])
        .where("completed_ns = read_first_ns")
        .select(*KEY, "value", "op", "offset")
    )
    told = (
        relations.polls.where("kind = 'poll'")
        .select(*KEY, "op", "high_watermark")
        .join(fn.broadcast(first), [*KEY, "op"])
        .groupBy(*KEY, "value")
        .agg(
            fn.max("high_watermark").alias("told_high_watermark"),
            fn.max(fn.col("high_watermark") > fn.col("offset")).alias("called_committed"),
        )
    )
    return gone.join(told, [*KEY, "value"], "left")


def unseen(relations: Relations) -> DataFrame:
    """Find the acknowledged values of partitions without a complete FINAL that no client ever polled, nor passed over.

    That is no fault of the system: no client looked. The verdict of the run is unknown because of it.
    """
    return findings(
        _unseen(relations),
        "unseen",
        offset=fn.col("send_offset"),
        op=fn.col("send_op"),
        process=fn.col("send_process"),
        broker=fn.col("send_node"),
        at_ns=fn.col("send_completed_ns"),
        promises=fn.array(),
        details={"operation": operation("send_"), "acks": fn.col("send_acks")},
    )


def unseen_numbers(relations: Relations) -> DataFrame:
    """Count them per partition (`unseen`)."""
    return _unseen(relations).groupBy(*KEY).agg(fn.count("*").alias("unseen"))


def _unseen(relations: Relations) -> DataFrame:
    complete = relations.final_reads.where("complete").select(*KEY)
    values = relations.values.where("acknowledged and reads = 0")
    lost = _lost_acked_writes(relations).select(*KEY, "value")
    return values.join(fn.broadcast(complete), list(KEY), "left_anti").join(lost, [*KEY, "value"], "left_anti")


def _shown(relations: Relations) -> DataFrame:
    return relations.final_reads.select(*KEY, "complete", "read_to", "started_ns", "log_start")


def _absent_from_final(known_since: str, offset: str) -> Column:
    """Whether a value that the FINAL does not show should be there: it was in the log before, and was passed over.

    A complete FINAL passes over every offset, another one over those below `read_to`, up to which one reader got from
    the start of the log without a gap. A value may be at several offsets, if it was sent again.
    """
    passed = fn.col(offset).isNotNull() & (fn.greatest("send_offset", "read_offset_max") < fn.col("read_to"))
    covered = fn.coalesce(fn.col("complete"), fn.lit(False)) | fn.coalesce(passed, fn.lit(False))
    return covered & _before_final(known_since) & _within_log(offset)


def _before_final(column: str) -> Column:
    return fn.coalesce(fn.col(column) <= fn.col("started_ns"), fn.lit(True))


def _within_log(column: str) -> Column:
    """Exclude records that retention or deletion removed; one without a known offset may be among them."""
    nothing_deleted = fn.coalesce(fn.col("log_start"), fn.lit(0)) <= 0
    return fn.coalesce(fn.col(column) >= fn.col("log_start"), nothing_deleted)


def _passed_over(candidates: DataFrame, relations: Relations) -> DataFrame:
    """Keep those whose offset a whole poll passed over, unless another record was read there before they were sent."""
    steps = relations.polls.where("whole and kind = 'poll'").select(
        *KEY, fn.col("position").alias("at"), "next_position", fn.lit(0).alias("turn")
    )
    points = candidates.withColumn("at", fn.col("send_offset")).withColumn("turn", fn.lit(1))
    so_far = Window.partitionBy(*KEY).orderBy("at", "turn").rowsBetween(Window.unboundedPreceding, 0)
    passed = (
        points.unionByName(steps, allowMissingColumns=True)
        .withColumn("reached", fn.max("next_position").over(so_far))
        .where("turn = 1 and reached > send_offset")
    )
    earlier = relations.reads.select(
        *KEY,
        fn.col("offset").alias("send_offset"),
        fn.col("value").alias("other_value"),
        fn.col("completed_ns").alias("other_ns"),
    )
    taken_before = (fn.col("other_value") != fn.col("value")) & (fn.col("other_ns") < fn.col("send_invoked_ns"))
    same_offset = [fn.col(f"passed.{name}") == fn.col(f"earlier.{name}") for name in (*KEY, "send_offset")]
    condition = taken_before
    for equal in same_offset:
        condition = condition & equal
    return passed.alias("passed").join(earlier.alias("earlier"), condition, "left_anti")


def phantom_read(relations: Relations) -> DataFrame:
    """Find polled values that no client sent to the partition.

    ::

        poll: … 45: 999 …              no send of 999 anywhere

    In a history that lacks sends (a worker died, a part is unreadable) nothing follows from a missing send.
    """
    known = relations.runs.where("sends_known").select("run_id")
    phantoms = relations.values.where("reads > 0 and sent = 0").join(fn.broadcast(known), "run_id", "left_semi")
    return _read(phantoms, "phantom-read")


def aborted_read(relations: Relations) -> DataFrame:
    """Find polled values whose send certainly failed.

    ::

        send 123 ──fail──              poll: … 45: 123 …

    A send of unknown outcome (`info`) may well be read.
    """
    return _read(relations.values.where("reads > 0 and send_status = 'fail'"), "aborted-read")


def dirty_read(relations: Relations) -> DataFrame:
    """Find values that were read before they were committed.

    ::

        broker 1, leader in epoch 5:   sampled ──── poll: … 45: 123 ──── sampled, high watermark 45

    The leader that served the poll had not committed the record even afterwards; its high watermark never goes down
    while it leads. Or the record was never acknowledged, was read, and is gone (`lost-read`): unless it was lost with
    others, it never was committed. An answer whose high watermark was above the record called it committed: its loss
    is a `lost-read` alone.
    """
    furthest = (
        relations.reads.where("node is not null and completed_ns is not null")
        .groupBy(*KEY, "op", "node", "process", "invoked_ns", "completed_ns")
        .agg(fn.max(fn.struct("offset", "value")).alias("furthest"))
    )
    seen = not_yet_committed(furthest, lagging_samples(relations.cluster)).select(
        *KEY,
        "op",
        "process",
        fn.col("node").alias("broker"),
        fn.col("furthest.offset").alias("offset"),
        fn.col("furthest.value").alias("value"),
        fn.col("completed_ns").alias("at_ns"),
        "sampled_ns",
        "sampled_hw",
    )
    gone = _never_committed_and_gone(relations).select(
        *KEY,
        fn.col("read_op").alias("op"),
        fn.col("read_process").alias("process"),
        fn.col("read_offset").alias("offset"),
        "value",
        fn.col("read_first_ns").alias("at_ns"),
        fn.coalesce("send_invoked_ns", "read_first_ns").alias("promised_ns"),
    )
    found = seen.unionByName(gone, allowMissingColumns=True)
    return findings(
        found,
        "dirty-read",
        promises=fn.when(fn.col("promised_ns").isNotNull(), one_promise(ACKS_ALL, fn.col("promised_ns"))),
        details={
            "sampled_ns": fn.col("sampled_ns"),
            "sampled_high_watermark": fn.col("sampled_hw"),
        },
    )


def _read(values: DataFrame, anomaly: str) -> DataFrame:
    return findings(
        values,
        anomaly,
        offset=fn.col("read_offset"),
        op=fn.col("read_op"),
        process=fn.col("read_process"),
        at_ns=fn.col("read_first_ns"),
        details={
            "operation": fn.when(fn.col("sent") > 0, operation("send_")),
            "read_op": fn.col("read_op"),
            "read_process": fn.col("read_process"),
            "reads": fn.col("reads"),
        },
    )
