"""Computes the counts and metrics of every run, as one long table of named numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.anomalies.values import unseen_numbers
from checkers.input.frames import KEY, unite
from checkers.relations.base import GROUP_KEY, GroupRelations, Relations
from checkers.screening.ordinary.counting import QUANTILES, SILENCE_NS_MIN, Numbers

GROUPS: Final = "groups"
"""The metric of consumer groups."""
_ACCURACY: Final = 100_000
"""A quantile's rank is wrong by at most one in so many: in the tail of latencies one in a thousand is a lot."""


def metrics(relations: Relations, *, counted: bool = False) -> DataFrame:
    """Return rows of `run_id`, `metric`, `name`, `topic`, `partition`, `number`.

    `counted`: all but those of final reads are known already.

    | metric | name | number |
    |---|---|---|
    | rows | table | rows that Spark read |
    | operations | kind/status | operations |
    | sends | status | records sent |
    | acked | first_ns, last_ns, records | of acknowledged records |
    | latency_ns | quantile | of acknowledged sends |
    | final | complete, agreed, end_offset, read_to, unseen (per partition) | |
    | silence_ns | fault | longest time without an acknowledged write that touches it |
    | recovery_ns | fault | from its heal to the next acknowledged write |
    | groups | commits_ok, not_asked | acknowledged commits, and partitions with such commits not queried at the end |
    """
    if counted:
        return _final_reads(relations)
    return unite([
        _rows(relations),
        _operations(relations),
        _sends(relations),
        _latency(relations),
        _final_reads(relations),
        _silences(relations),
        *_groups(relations),
    ])  # fmt: skip


def numbers_by_run(rows: Iterable[Any], counted: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Collect rows of `metrics`: by run, the number of each metric, name and partition, beside those known already."""
    by_run = {run_id: dict(numbers) for run_id, numbers in counted.items()}
    for row in rows:
        if row.number is not None:
            by_run.setdefault(row.run_id, {})[row.metric, row.name, row.topic, row.partition] = row.number
    return by_run


def _metric(frame: DataFrame, metric: str | Column, name: Column, number: Column) -> DataFrame:
    keyed = "topic" in frame.columns
    return frame.select(
        "run_id",
        (fn.lit(metric) if isinstance(metric, str) else metric).alias("metric"),
        name.cast("string").alias("name"),
        (fn.col("topic") if keyed else fn.lit(None).cast("string")).alias("topic"),
        (fn.col("partition") if keyed else fn.lit(None).cast("int")).alias("partition"),
        number.cast("bigint").alias("number"),
    )


def _unpivoted(frame: DataFrame, metric: str, *columns: str) -> DataFrame:
    """Make a metric of each of some columns."""
    pairs = fn.array(
        *(fn.struct(fn.lit(name).alias("name"), fn.col(name).cast("bigint").alias("number")) for name in columns)
    )
    keys = [*KEY] if "topic" in frame.columns else ["run_id"]
    long = frame.select(*keys, fn.explode(pairs).alias("pair"))
    return _metric(long, metric, fn.col("pair.name"), fn.col("pair.number"))


def _metrics_named(frame: DataFrame, name: str, *metrics: str) -> DataFrame:
    """Make a metric of each of some columns, all of the same name."""
    pairs = fn.array(*(fn.struct(fn.lit(metric).alias("metric"), fn.col(metric).alias("number")) for metric in metrics))
    long = frame.select("run_id", name, fn.explode(pairs).alias("pair"))
    return _metric(long, fn.col("pair.metric"), fn.col(name), fn.col("pair.number"))


def _rows(relations: Relations) -> DataFrame:
    named = [frame.select("run_id", fn.lit(table).alias("table"), "rows") for table, frame in relations.rows.items()]
    counted = unite(named).groupBy("run_id", "table").agg(fn.sum("rows").alias("rows"))
    return _metric(counted, "rows", fn.col("table"), fn.col("rows"))


def _operations(relations: Relations) -> DataFrame:
    counted = relations.operations.groupBy("run_id", "kind", "status").agg(fn.count("*").alias("operations"))
    return _metric(counted, "operations", fn.concat_ws("/", "kind", "status"), fn.col("operations"))


def _sends(relations: Relations) -> DataFrame:
    status = fn.coalesce("status", fn.lit("unknown"))
    by_status = relations.attempts.groupBy("run_id", status.alias("status")).agg(
        fn.count("*").alias("records"),
        fn.min("completed_ns").alias("first_ns"),
        fn.max("completed_ns").alias("last_ns"),
    )
    acked = by_status.where("status = 'ok'").drop("status")
    return _metric(by_status, "sends", fn.col("status"), fn.col("records")).union(
        _unpivoted(acked, "acked", "records", "first_ns", "last_ns")
    )


def _latency(relations: Relations) -> DataFrame:
    quantiles = fn.percentile_approx(
        fn.col("completed_ns") - fn.col("invoked_ns"), [float(quantile) for quantile in QUANTILES], _ACCURACY
    )
    names = fn.array(*(fn.lit(str(quantile)) for quantile in QUANTILES))
    latency = (
        relations.operations.where("kind = 'send' and status = 'ok'")
        .groupBy("run_id")
        .agg(quantiles.alias("quantiles"))
        .select("run_id", fn.explode(fn.arrays_zip(names.alias("name"), fn.col("quantiles"))).alias("pair"))
    )
    return _metric(latency, "latency_ns", fn.col("pair.name"), fn.col("pair.quantiles"))


def _final_reads(relations: Relations) -> DataFrame:
    """Count per partition that a client used: one without an agreed end is not complete."""
    final_reads = relations.used_partitions.join(relations.final_reads, list(KEY), "full")
    if "unseen" in relations.free_of:
        final_reads = final_reads.withColumn("unseen", fn.lit(0))
    else:
        final_reads = final_reads.join(unseen_numbers(relations), list(KEY), "left")
    final_reads = final_reads.withColumn("complete", fn.coalesce("complete", fn.lit(False))).withColumn(
        "unseen", fn.coalesce("unseen", fn.lit(0))
    )
    return _unpivoted(final_reads, "final", "complete", "agreed", "end_offset", "read_to", "unseen")


def _groups(relations: Relations) -> list[DataFrame]:
    if relations.groups is None:
        return []
    return [_unpivoted(_group_numbers(relations.groups), GROUPS, "commits_ok", "not_asked")]


def _silences(relations: Relations) -> DataFrame:
    faults = relations.faults.select("run_id", "fault", "started_ns", "ended_ns").distinct()
    # Within one such stretch no gap is long enough, so only its first and its last write count.
    writes = (
        relations.operations.where("kind = 'send' and status = 'ok'")
        .join(fn.broadcast(faults.select("run_id").distinct()), "run_id", "left_semi")
        .groupBy("run_id", fn.expr(f"completed_ns div {SILENCE_NS_MIN}").alias("stretch"))
        .agg(fn.min("completed_ns").alias("first_ns"), fn.max("completed_ns").alias("last_ns"))
    )
    following = Window.partitionBy("run_id").orderBy("first_ns")
    gaps = writes.select(
        "run_id", fn.col("last_ns").alias("from_ns"), fn.lead("first_ns").over(following).alias("to_ns")
    ).where(f"to_ns - from_ns >= {SILENCE_NS_MIN}")
    silences = (
        faults.join(fn.broadcast(gaps), "run_id")
        .where("from_ns < ended_ns and to_ns > started_ns")
        .groupBy("run_id", "fault")
        .agg(
            fn.max(fn.col("to_ns") - fn.col("from_ns")).alias("silence_ns"),
            fn.max(fn.when(fn.col("to_ns") > fn.col("ended_ns"), fn.col("to_ns") - fn.col("ended_ns"))).alias(
                "recovery_ns"
            ),
        )
    )
    return _metrics_named(silences, "fault", "silence_ns", "recovery_ns")


def _group_numbers(groups: GroupRelations) -> DataFrame:
    """Count per run acknowledged commits, and partitions with such commits that no client queried at the end."""
    asked = groups.answers.where("phase = 'final'").select(*GROUP_KEY, fn.lit(1).alias("asked")).distinct()
    return (
        groups.commits.where("status = 'ok'")
        .groupBy(*GROUP_KEY)
        .agg(fn.countDistinct("op").alias("commits"))
        .join(asked, list(GROUP_KEY), "left")
        .groupBy("run_id")
        .agg(
            fn.sum("commits").alias("commits_ok"),
            fn.count(fn.when(fn.col("asked").isNull(), 1)).alias("not_asked"),
        )
    )
