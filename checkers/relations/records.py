"""Joins what was sent to what was read: the fate of each value, resolved outcomes, and uneven paths of readers.

An unknown outcome is resolved if the record was read: then the send happened no later than the end of the first ok poll
that returned it, at the offset at which it was read::

    process 1:  send a ──────────────── (no answer) …
    process 2:                poll ──ok, 45: a              a was at 45 when this ended

A record that was read at several offsets does not show when it was written where, so its send stays unknown. Resolving
changes no table of the history; each resolved outcome is a row of the table `repairs` of the run.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.input.frames import FOREVER, KEY
from checkers.input.polls import with_legs
from history.contract import ACKS_ALL


def values_of(sends: DataFrame, reads: DataFrame) -> DataFrame:
    """Join sends and reads by value. Every value has one send at most, so that any aggregate returns its columns."""
    ok = fn.col("status") == "ok"
    read = reads.where("value is not null").select(
        *KEY,
        "value",
        fn.col("offset").alias("read_offset"),
        fn.col("op").alias("read_op"),
        fn.col("process").alias("read_process"),
        fn.col("node").alias("read_node"),
        fn.col("completed_ns").alias("read_ns"),
        fn.when(ok, fn.col("completed_ns")).alias("ok_read_ns"),
        fn.when(ok & fn.col("node").isNotNull(), fn.col("completed_ns")).alias("served_ns"),
        fn.when(ok & (fn.col("phase") == "final"), 1).alias("final_read"),
    )
    sent = sends.select(
        *KEY,
        "value",
        fn.lit(1).alias("sent"),
        *(
            fn.col(name).alias(f"send_{name}")
            for name in ("op", "process", "node", "acks", "offset", "invoked_ns", "completed_ns")
        ),
        # A number, because Spark must sort to take the maximum of a string.
        fn.array_position(_statuses(), fn.col("status")).alias("send_state"),
    )
    both = sent.unionByName(read, allowMissingColumns=True)
    return (
        both.groupBy(*KEY, "value")
        .agg(
            fn.count("sent").alias("sent"),
            *(fn.max(name).alias(name) for name in sent.columns if name.startswith("send_")),
            fn.count("read_offset").alias("reads"),
            fn.count("ok_read_ns").alias("ok_reads"),
            fn.count("final_read").alias("final_reads"),
            fn.min(fn.when(fn.col("final_read") == 1, fn.col("read_offset"))).alias("final_offset_min"),
            fn.max(fn.when(fn.col("final_read") == 1, fn.col("read_offset"))).alias("final_offset_max"),
            fn.min("read_offset").alias("read_offset_min"),
            fn.max("read_offset").alias("read_offset_max"),
            fn.min("ok_read_ns").alias("read_first_ns"),
            fn.max("ok_read_ns").alias("read_last_ns"),
            # Not only of the first: clients do not always know which broker served them.
            fn.min("served_ns").alias("served_ns"),
            fn.min_by("read_node", "served_ns").alias("read_node"),
            fn.min_by("read_op", fn.coalesce("read_ns", fn.lit(FOREVER))).alias("read_op"),
            fn.min_by("read_process", fn.coalesce("read_ns", fn.lit(FOREVER))).alias("read_process"),
            fn.min_by("read_offset", fn.coalesce("read_ns", fn.lit(FOREVER))).alias("read_offset"),
        )
        .withColumn("send_status", fn.get(_statuses(), (fn.col("send_state") - 1).cast("int")))
        .withColumn(
            "committed",
            fn.coalesce(
                (fn.col("send_status") == "ok") | ((fn.col("send_status") == "info") & (fn.col("ok_reads") > 0)),
                fn.lit(False),
            ),
        )
        .withColumn("acknowledged", _acknowledged())
    )


def _statuses() -> Column:
    return fn.array(fn.lit("ok"), fn.lit("fail"), fn.lit("info"))


def _acknowledged() -> Column:
    """Return whether a broker acknowledged the send with a promise: acks=0 promises nothing."""
    return fn.coalesce((fn.col("send_status") == "ok") & fn.col("send_acks").isin(ACKS_ALL, 1), fn.lit(False))


def uneven_reads(reads: DataFrame, polls: DataFrame) -> DataFrame:
    """Follow each process through a partition, and keep the records that are not at the offset after the one before.

    Only within a leg (`checkers.input.polls`) must positions follow each other, so the record and the one before
    it are of the same one.
    """
    path = Window.partitionBy(*KEY, "process").orderBy("invoked_ns", "op", "ordinal", "offset")
    before = fn.lag(fn.struct("offset", "op", "invoked_ns")).over(path)
    uneven = (
        reads.where("process is not null")
        .select(
            *KEY,
            "process",
            "op",
            "status",
            "ordinal",
            "offset",
            "value",
            "invoked_ns",
            "completed_ns",
            before.alias("before"),
        )
        .where("before is not null and offset != before.offset + 1")
        .select("*", *(fn.col(f"before.{name}").alias(f"previous_{name}") for name in ("offset", "op", "invoked_ns")))
        .drop("before")
    )
    legs = with_legs(polls).select(*KEY, "op", "leg")
    previous_legs = legs.select(*KEY, fn.col("op").alias("previous_op"), fn.col("leg").alias("previous_leg"))
    here = legs.join(fn.broadcast(uneven), [*KEY, "op"])
    return previous_legs.join(fn.broadcast(here), [*KEY, "previous_op"]).where("leg = previous_leg")


def resolved_sends(values: DataFrame, *, wanted: bool) -> DataFrame:
    """Return the sends whose outcome is resolved, in the columns of sends; `completed_ns` is when it was known.

    `node` is the first broker known to have served the record, at `served_ns`; both are null if none is known.
    """
    known = values.where(
        "sent > 0 and send_status = 'info' and ok_reads > 0 and read_offset_min = read_offset_max"
        " and send_invoked_ns is not null and read_first_ns is not null"
    )
    return (known if wanted else known.where(fn.lit(False))).select(
        *KEY,
        "value",
        fn.col("send_op").alias("op"),
        fn.col("send_process").alias("process"),
        fn.col("read_node").alias("node"),
        fn.lit("info").alias("status"),
        fn.col("send_acks").alias("acks"),
        fn.col("read_offset_min").alias("offset"),
        fn.col("send_invoked_ns").alias("invoked_ns"),
        fn.greatest("read_first_ns", "send_invoked_ns").alias("completed_ns"),
        fn.when(fn.col("served_ns").isNotNull(), fn.greatest("served_ns", "send_invoked_ns")).alias("served_ns"),
        "read_op",
    )


def given_again(lost: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return when the offsets of lost records were acknowledged to others: `given_again_ns` per row of `lost`.

    `lost` has `anomaly`, `offset`, `value` and `at_ns`, when the record was known to be in the log. A record that was
    sent after that and acknowledged with acks=all is in the log in its place, so it was gone by then::

        send 123 ──ok @45──           send 456 ──ok @45──           123 was gone when this ended
    """
    others = attempts.where(f"status = 'ok' and acks = {ACKS_ALL} and offset is not null").select(
        *KEY, "offset", fn.col("value").alias("other"), "invoked_ns", "completed_ns"
    )
    which = [*KEY, "anomaly", "offset", "value"]
    return (
        lost.select(*which, "at_ns")
        .join(others, [*KEY, "offset"])
        .where("other != value and invoked_ns >= at_ns")
        .groupBy(*which)
        .agg(fn.min("completed_ns").alias("given_again_ns"))
    )


def last_sent(shown: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return when the last record before an end of the log was sent: `last_sent_ns`.

    `shown` has the offset of that record, `record`, and when a client had learnt the end, `shown_ns`. An end is not in
    the result if no send was acknowledged with the last record's offset.
    """
    sent = attempts.where("status = 'ok' and offset is not null").select(
        *KEY, fn.col("offset").alias("record"), "invoked_ns"
    )
    which = [*KEY, "record", "shown_ns"]
    return (
        shown.select(*which)
        .distinct()
        .join(sent, [*KEY, "record"])
        .where("invoked_ns <= shown_ns")
        .groupBy(*which)
        .agg(fn.max("invoked_ns").alias("last_sent_ns"))
    )
