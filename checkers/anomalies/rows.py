"""Defines the rows that anomaly functions return: one per anomaly, with what the contract needs to judge it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

PROMISE = "struct<acks:int,at_ns:bigint>"
"""A promise that a record lasts: by acks, made for a record that was invoked (or read) at this time."""

STALENESS = (
    "struct<asked:string,server:int,invoked_ns:bigint,completed_ns:bigint,"
    "witness_offset:bigint,witness_node:int,witness_invoked_ns:bigint,witness_ns:bigint,"
    "witness_record:bigint,acknowledged:boolean>"
)
"""An answer that lacked what had been shown before: its broker and times, and the witness that it contradicts.

`witness_record` is the offset of the last record that the witness shows, and `acknowledged` whether it is a send that
was acknowledged with acks=all."""

_COLUMNS = {
    "run_id": "string",
    "anomaly": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "value": "bigint",
    "op": "bigint",
    "process": "bigint",
    "broker": "int",
    "at_ns": "bigint",
    "details": "string",
    "promises": f"array<{PROMISE}>",
    "promises_needed": "int",
    "staleness": STALENESS,
}


def findings(
    frame: DataFrame,
    anomaly: str | Column,
    *,
    details: Mapping[str, Column],
    promises: Column | None = None,
    promises_needed: int = 1,
    staleness: Column | None = None,
    **columns: Column,
) -> DataFrame:
    """Bring rows of an anomaly function into the common shape.

    `promises` are those that the anomaly breaks, null if no loss would excuse it; it is a violation
    when at least `promises_needed` of them hold. `staleness` is given for answers that a deposed leader may give.
    A column of the shape that is not given is taken from the frame, and is null if it is not there either.
    """
    given: dict[str, Column] = {
        "anomaly": fn.lit(anomaly) if isinstance(anomaly, str) else anomaly,
        "details": fn.to_json(fn.struct(*(column.alias(name) for name, column in details.items()))),
        "promises_needed": fn.lit(promises_needed),
        **columns,
    }
    if promises is not None:
        given["promises"] = promises
    if staleness is not None:
        given["staleness"] = staleness
    present = {*frame.columns, *given}
    return frame.select(
        *(
            (given.get(name, fn.col(name)) if name in present else fn.lit(None)).cast(kind).alias(name)
            for name, kind in _COLUMNS.items()
        )
    )


def promise(acks: Column | int, at_ns: Column) -> Column:
    """Make one promise."""
    acks = fn.lit(acks) if isinstance(acks, int) else acks
    return fn.struct(acks.cast("int").alias("acks"), at_ns.cast("bigint").alias("at_ns"))


def one_promise(acks: Column | int, at_ns: Column) -> Column:
    """Make the list that holds one promise."""
    return fn.array(promise(acks, at_ns))


def operation(prefix: str = "") -> Column:
    """Describe an operation from the columns `op`, `process`, `status`, `node`, `invoked_ns` and `completed_ns`."""
    names = ("op", "process", "status", "node", "invoked_ns", "completed_ns")
    return fn.struct(*(fn.col(prefix + name).alias(name) for name in names))
