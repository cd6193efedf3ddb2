"""Finds offsets with several values, and values with several or wrong offsets."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.anomalies.rows import findings, one_promise, operation, promise
from checkers.input.frames import KEY
from checkers.relations.base import Relations
from history.contract import ACKS_ALL


def inconsistent_offset(relations: Relations) -> DataFrame:
    """Find offsets at which the log held two values, according to polls and acknowledgements together.

    ::

        send 123 ──ok @45──            poll: 45: 456          offset 45 held 123 and 456

    The same of two dumped replicas is `divergent-replicas`. It is a violation only if both values were promised
    to last at this offset: the loss of an acks=1 record leaves its offset to another, and an earlier copy of it that
    was read promises nothing here.
    """
    polled = relations.reads.where("value is not null").select(*KEY, "offset", "value", fn.lit(True).alias("polled"))
    sent = relations.values.where("committed and send_offset is not null").select(
        *KEY, fn.col("send_offset").alias("offset"), "value", fn.lit(False).alias("polled")
    )
    lowest, highest = fn.struct("value", fn.expr("not polled").alias("unpolled")), fn.struct("value", "polled")
    taken_twice = (
        polled.union(sent)
        .groupBy(*KEY, "offset")
        .agg(fn.min(lowest).alias("lowest"), fn.max(highest).alias("highest"))
        .where("lowest.value != highest.value")
    )
    entries = taken_twice.select(
        *KEY,
        fn.col("offset").alias("disputed_offset"),
        fn.inline(
            fn.expr("array(struct(lowest.value, not lowest.unpolled as polled), struct(highest.value, highest.polled))")
        ),
    )
    entry = fn.struct(
        fn.coalesce("send_completed_ns", "read_first_ns").alias("known_ns"),
        fn.col("value").alias("value"),
        fn.col("send_op").alias("op"),
        fn.col("send_process").alias("process"),
        fn.col("send_status").alias("status"),
        fn.col("send_node").alias("node"),
        fn.col("send_acks").alias("acks"),
        fn.col("send_offset").alias("acknowledged_offset"),
        fn.col("send_invoked_ns").alias("invoked_ns"),
        fn.col("send_completed_ns").alias("completed_ns"),
        fn.col("ok_reads").alias("reads"),
        fn.col("final_reads").alias("final_reads"),
    )
    disputes = (
        relations.values.join(fn.broadcast(entries), [*KEY, "value"])
        .groupBy(*KEY, "disputed_offset")
        .agg(
            fn.sort_array(fn.collect_list(entry)).alias("entries"),
            fn.collect_list(_entry_promise()).alias("promises"),
        )
        .withColumn("last", fn.element_at("entries", -1))
    )
    return findings(
        disputes,
        "inconsistent-offset",
        offset=fn.col("disputed_offset"),
        value=fn.col("last.value"),
        op=fn.col("last.op"),
        process=fn.col("last.process"),
        broker=fn.col("last.node"),
        at_ns=fn.col("last.known_ns"),
        promises=fn.col("promises"),
        promises_needed=2,
        details={"entries": fn.col("entries")},
    )


def wrong_offset(relations: Relations) -> DataFrame:
    """Find acknowledged values that are polled at another offset than the broker acknowledged.

    ::

        send 123 ──ok @45──            poll: 47: 123

    Without idempotence a retry may leave a second copy at another offset, so there it counts only once the
    acknowledged offset has been read without finding the value, and not if that offset has been deleted since. An
    allowed loss may have removed the record and left an earlier attempt that had not been answered. What a client has
    sent again under a later epoch of its producer is no breach (`duplicate`).
    """
    values = relations.values.where(
        "acknowledged and send_offset is not null and ok_reads > 0"
        " and (read_offset_min != send_offset or read_offset_max != send_offset)"
    ).join(fn.broadcast(relations.runs.select("run_id", "idempotence", "unclean_election")), "run_id")
    found_there = fn.col("send_offset").between(fn.col("read_offset_min"), fn.col("read_offset_max"))
    ends = relations.final_reads.where("complete").select(*KEY, fn.lit(True).alias("complete"), "log_start")
    wrong = (
        values.join(fn.broadcast(ends), list(KEY), "left")
        .where(
            fn.col("idempotence")
            | (~found_there & fn.coalesce("complete", fn.lit(False)) & (fn.col("send_offset") >= fn.col("log_start")))
        )
        .drop("log_start")
    )
    wrong = _with_copies(wrong, relations, "send_offset", "read_offset_min", "read_offset_max")
    return findings(
        wrong,
        "wrong-offset",
        offset=fn.col("send_offset"),
        op=fn.col("send_op"),
        process=fn.col("send_process"),
        broker=fn.col("send_node"),
        at_ns=fn.col("send_completed_ns"),
        promises=fn.when(
            (fn.col("idempotence") & fn.col("unclean_election")) | fn.col("resent").isNotNull(), fn.array()
        ).otherwise(one_promise(fn.col("send_acks"), fn.col("send_invoked_ns"))),
        details={
            "operation": operation("send_"),
            "polled_at": fn.array_distinct(fn.array("read_offset_min", "read_offset_max")),
            "resent": fn.col("resent"),
        },
    )


def duplicate(relations: Relations) -> DataFrame:
    """Find values at two offsets.

    ::

        poll: … 45: 123 … 48: 123 …

    Without idempotence a retry may have written the record twice, which is no breach. Nor is it one if the final logs
    hold both copies under different epochs of one producer, the later one higher: a broker recognizes a retry only
    within one epoch (KIP-98), so the client has sent the record again after it had raised its epoch. A record may also
    be lost at one offset and survive at another, by an attempt that was not answered: that is a breach unless the loss
    is excused.
    If unclean elections are allowed, not all losses are known, so there it must be at both offsets at the end.
    """
    acknowledged_at = fn.when(fn.col("committed"), fn.col("send_offset"))
    lowest = fn.least(acknowledged_at, fn.col("read_offset_min"))
    highest = fn.greatest(acknowledged_at, fn.col("read_offset_max"))
    twice = (
        relations.values.withColumn("lowest", lowest)
        .withColumn("highest", highest)
        .where("lowest != highest")
        .join(fn.broadcast(relations.runs.select("run_id", "idempotence", "unclean_election")), "run_id")
        .withColumn("at_once", fn.coalesce(fn.col("final_offset_min") != fn.col("final_offset_max"), fn.lit(False)))
        .where("at_once or not idempotence or not unclean_election")
    )
    twice = _with_copies(twice, relations, "lowest", "highest")
    moved = ~fn.col("at_once")
    since_ns = fn.coalesce("send_invoked_ns", "read_first_ns")
    return findings(
        twice,
        "duplicate",
        offset=fn.col("highest"),
        op=fn.col("send_op"),
        process=fn.col("send_process"),
        broker=fn.col("send_node"),
        at_ns=fn.coalesce("send_completed_ns", "read_last_ns"),
        promises=fn.when(~fn.col("idempotence") | fn.col("resent").isNotNull(), fn.array()).when(
            moved, one_promise(ACKS_ALL, since_ns)
        ),
        details={
            "operation": operation("send_"),
            "offsets": fn.array("lowest", "highest"),
            "idempotence": fn.col("idempotence"),
            "resent": fn.col("resent"),
        },
    )


def _with_copies(values: DataFrame, relations: Relations, *offsets: str) -> DataFrame:
    """Add `resent`: producer and copies of a record that a client has sent again, if these explain all the offsets."""
    explained = fn.lit(True)
    for offset in offsets:
        explained &= fn.array_contains("copies", fn.col(offset))
    copies = fn.struct("producer_id", fn.col("copies").alias("offsets"), "producer_epochs")
    return (
        values.join(fn.broadcast(relations.resent), [*KEY, "value"], "left")
        .withColumn("resent", fn.when(fn.coalesce(explained, fn.lit(False)), copies))
        .drop("producer_id", "copies", "producer_epochs")
    )


def _entry_promise() -> Column:
    """Return the promise for one value at an offset: a record that was read there was committed, whatever its acks."""
    at_ns = fn.coalesce("send_invoked_ns", "read_first_ns")
    return promise(fn.when(fn.col("polled"), fn.lit(ACKS_ALL)).otherwise(fn.col("send_acks")), at_ns)
