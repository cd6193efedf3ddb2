"""Resolves unknown outcomes: a send that was not answered, and whose record was read, has happened.

It happened no later than the end of the first ok poll that returned it, at the offset at which it was read::

    process 1:  send a ──────────────── (no answer) …
    process 2:                poll ──ok, 45: a              a was at 45 when this ended

A record that was read at several offsets does not show when it was written where, so its send stays unknown. Resolving
changes no table of the history; each resolved outcome is a row of the table `repairs` of the run.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.findings import KEY, findings, operation

NAME = "repaired-outcome"
"""Marks resolved outcomes among the findings until they are separated."""


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


def resolved_findings(resolved: DataFrame) -> DataFrame:
    """Return the resolved outcomes in the shape of findings, so that they are collected with them."""
    return findings(
        resolved,
        NAME,
        broker=fn.col("node"),
        at_ns=fn.col("completed_ns"),
        promises=fn.array(),
        details={"operation": operation(), "read_op": fn.col("read_op"), "known_ns": fn.col("completed_ns")},
    )
