"""Tells what a history is certainly free of, so that Spark need not plan the anomalies that it would show.

Planning is most of the work on a short history, and most runs have suspect values (a send that failed, one that was not
answered) but none that any anomaly could be about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from checkers.input.run_facts import RunFacts
from checkers.screening.on_spark import partition_key

_OF_A_DISORDER = ("partition_key", "offset_min", "invoked_ns_max")

CONDITIONS_ON_VALUES: Final[Mapping[str, str]] = {
    "absent": "acknowledged and final_reads = 0",
    "gone": "ok_reads > 0 and final_reads = 0",
    "unseen": "acknowledged and reads = 0",
    "at-another-offset": (
        "acknowledged and send_offset is not null and ok_reads > 0"
        " and (read_offset_min != send_offset or read_offset_max != send_offset)"
    ),
    "at-two-offsets": (
        "least(if(committed, send_offset, null), read_offset_min)"
        " != greatest(if(committed, send_offset, null), read_offset_max)"
    ),
    "unsent": "reads > 0 and sent = 0",
    "failed": "reads > 0 and send_status = 'fail'",
    "unanswered": "sent > 0 and send_status = 'info' and ok_reads > 0",
}
"""Name → condition on `Relations.values`; anomalies of that name exist only if some value meets it."""


def values_are_free_of(values: DataFrame) -> frozenset[str]:
    """Return the names of the `CONDITIONS_ON_VALUES` that no value meets."""
    (met,) = values.agg(
        *(fn.max(fn.expr(condition)).alias(name) for name, condition in CONDITIONS_ON_VALUES.items())
    ).collect()
    return frozenset(name for name in CONDITIONS_ON_VALUES if not met[name])


def observed_after_heal(runs: Iterable[RunFacts], last_ns: Mapping[str, int]) -> bool:
    """Whether some run's history lasts into the last quarter of the bound of `unavailable`.

    `last_ns`: by run, the last known time of an operation or sample.
    """
    return any(
        run.healed_ns is not None
        and run.settings.unavailable_after_ns is not None
        and run.run_id in last_ns
        and last_ns[run.run_id] >= run.healed_ns + 3 * run.settings.unavailable_after_ns // 4
        for run in runs
    )


@dataclass(frozen=True)
class Disorder:
    """The least offset and the latest invocation among the operations of a partition that may be out of order.

    Whatever contradicts them has no lower offset and began no later.
    """

    partition_key: int
    offset_min: int
    invoked_ns_max: int


def disorders(sends: DataFrame, resolved: DataFrame, polls: DataFrame) -> list[Disorder]:
    """Return one disorder for each partition in which an answer may contradict an earlier one.

    ::

        offsets:   … 47 ───── 50 …
        time:      asked      answered    47 was asked for after 50 had been answered: out of order

    Sends and queries are sorted by falling offset; each gets the earliest completion of all sends above it.
    """
    key = partition_key().alias("partition_key")
    happened = sends.where("status = 'ok' and offset is not null and completed_ns is not null").select(
        key, "offset", fn.lit(0).alias("turn"), "invoked_ns", "completed_ns"
    )
    resolved_sends = resolved.select(key, "offset", fn.lit(0).alias("turn"), "invoked_ns", "completed_ns")
    asked = polls.where("status = 'ok' and (kind = 'latest' or records = 0)").select(
        key,
        fn.when(fn.col("kind") == "latest", fn.col("next_position")).otherwise(fn.col("position")).alias("offset"),
        fn.lit(1).alias("turn"),
        "invoked_ns",
        fn.lit(None).cast("bigint").alias("completed_ns"),
    )
    above = (
        Window.partitionBy("partition_key")
        .orderBy(fn.desc("offset"), "turn")
        .rowsBetween(Window.unboundedPreceding, -1)
    )  # fmt: skip
    out_of_order = (
        happened.union(resolved_sends)
        .union(asked)
        .withColumn("answered_ns", fn.min("completed_ns").over(above))
        .where("answered_ns <= invoked_ns")
        .groupBy("partition_key")
        .agg(fn.min("offset").alias("offset_min"), fn.max("invoked_ns").alias("invoked_ns_max"))
    )
    return [Disorder(**row.asDict()) for row in out_of_order.collect()]


def at_disorders(sends: DataFrame, spark: SparkSession, found: Sequence[Disorder]) -> DataFrame:
    """Keep the sends that may be out of order, and those that may contradict them."""
    columns = {name: pa.array([getattr(each, name) for each in found], pa.int64()) for name in _OF_A_DISORDER}
    within = (fn.col("offset") >= fn.col("offset_min")) & (fn.col("invoked_ns") <= fn.col("invoked_ns_max"))
    placed = sends.withColumn("partition_key", partition_key())
    return (
        placed.join(fn.broadcast(spark.createDataFrame(pa.table(columns))), "partition_key")
        .where(within)
        .drop(*columns)
    )
