"""Derives the base relations: what was sent, what was polled, and the fate of each value, for every run and partition.

All relations are partitioned by run, topic and partition, so that the window functions of the anomalies need no further
shuffle, and none holds a vector over offsets: one absurd offset costs one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from checkers.findings import ACKS_ALL, KEY
from checkers.input.run_facts import RunFacts
from checkers.input.sizes import size_of
from checkers.input.tables import LARGE_TABLES, RunFiles, read_large
from checkers.input.validation import (
    examined_commands,
    examined_commits,
    examined_ownerships,
)
from checkers.relations.conflicts import log_conflicts
from checkers.relations.final_reads import deleted_finals, final_reads
from checkers.relations.groups import GroupRelations, group_relations
from checkers.relations.polls import with_legs
from checkers.relations.resolved_outcomes import resolved_sends
from checkers.screening.premises import VALUES, premises_not_met, watched
from checkers.screening.screen import at_disorders, disorders
from checkers.screening.selection import nothing_of, rows_by_run, screened_history, usable, whole_history
from checkers.screening.short import Short
from checkers.screening.sources import LongSource, ShortSource
from checkers.screening.summaries import Suspicion

_END_OF_TIME = (1 << 63) - 1


@dataclass(frozen=True)
class Relations:
    """The frames that anomalies are functions of. Malformed rows are only in `examined`."""

    runs: DataFrame
    """One row per run: settings, `healed_ns`, `sends_known`."""
    faults: DataFrame
    """One row per fault and target: `fault`, `kind`, `broker`, `lossy`, `started_ns`, `ended_ns`."""
    operations: DataFrame
    attempts: DataFrame
    """S: one row per record sent, with its operation."""
    sends: DataFrame
    """Those of S whose order in time has to be checked."""
    reads: DataFrame
    """P, one row per record polled, with its operation: those that have to be checked."""
    polls: DataFrame
    """One row per partition and poll, with its operation; `whole`: ok, and all its records are in the history."""
    values: DataFrame
    """One row per value of a partition that has to be checked: how it was sent (`sent`, `send_…`), how it was read
    (`reads`, `ok_reads` …); `served_ns`: when an ok poll first returned it from a known broker, `read_node`."""
    walk: DataFrame
    """P where a process's path through a partition is uneven: records not at the offset after the one before."""
    finals: DataFrame
    """One row per partition: `complete`, and from where and when it was read to its end."""
    touched: DataFrame
    """Partitions to which a value was sent, or from which one was read."""
    cluster: DataFrame
    logs: DataFrame
    """The dumped logs of the partitions in which they have to be checked."""
    dumped: DataFrame
    """All dumped logs."""
    replicas: DataFrame
    """One row per replica with a dumped log: its partition and `broker`."""
    resolved: DataFrame
    """Sends of unknown outcome that were read (`checkers.relations.resolved_outcomes`)."""
    conflicts: DataFrame
    """One row per offset at which the dumped logs differ (`checkers.relations.conflicts`)."""
    deleted: DataFrame
    """Topics that a client has deleted, or may have: `run_id`, `topic`."""
    groups: GroupRelations | None
    """None if no run has rows of groups."""
    examined: dict[str, DataFrame]
    """Rows of each large table with the column `problem`, null for good rows; `commands`, `commits` and `ownerships`
    only if there are any."""
    rows: dict[str, DataFrame]
    """Numbers of rows that Spark read of each large table: `run_id`, `rows`, to be summed."""
    ruled_out: frozenset[str]
    """What cannot show an anomaly: "values", "partitions" (their logs, reads and paths of readers), "sends" (their
    order in time), "problems" (malformed rows, except of commands and groups), premises that no value meets
    (`checkers.screening.premises`), "uncommitted" (reads), "time" (after the last heal, too short for
    `unavailable`)."""
    suspicion: Suspicion | None
    """What screening suspects; None if everything is checked."""


def base_relations(
    spark: SparkSession,
    runs: Sequence[RunFiles],
    facts: Sequence[RunFacts],
    *,
    resolve_outcomes: bool = True,
    screening: bool = False,
    short: Short | None = None,
) -> Relations:
    """Derive the base relations of some runs with distinct ids.

    `resolve_outcomes`: a send whose record was read has happened. `screening`: check in full only what is suspect
    (`checkers.screening`); the findings stay the same. `short`: what the driver has screened already.
    """
    size = size_of(runs)
    keep = size.kept
    # Most runs have no objects or groups, and planning every frame costs time.
    has = {table: any(run.large[table].rows for run in runs) for table in LARGE_TABLES}
    has_groups = has["commits"] or has["ownerships"]
    read = {"commands": has["commands"], "commits": has_groups, "ownerships": has_groups}
    recorded = {table: size.gathered(read_large(spark, runs, table)) for table in LARGE_TABLES if read.get(table, True)}
    deleted = _deleted_frame(spark, facts)
    close = None
    if screening:
        source = LongSource(spark, runs, recorded, size) if short is None else ShortSource(spark, short, size)
        close = screened_history(spark, recorded, source, size)
    if close is None:
        close = whole_history(recorded, size)
    examined = close.examined
    operations = examined["operations"]
    if has["commands"]:
        examined["commands"] = keep(examined_commands(recorded["commands"]))
    if has_groups:
        examined["commits"] = keep(examined_commits(recorded["commits"], operations))
        examined["ownerships"] = keep(examined_ownerships(recorded["ownerships"]))
    reads, polls, cluster, logs = (usable(examined[table]) for table in ("reads", "polls", "cluster", "logs"))
    attempts = usable(examined["sends"])
    values = _values(close.sends, reads)
    values = nothing_of(values) if "values" in close.ruled_out else keep(values)
    resolved = resolved_sends(values, wanted=resolve_outcomes)
    sends, ruled_out = attempts, close.ruled_out
    if close.suspicion is not None:
        ruled_out |= VALUES.keys() if "values" in ruled_out else premises_not_met(values)
        ruled_out |= {"uncommitted"} if ruled_out >= {"gone", "partitions"} else set()
        resolved = nothing_of(resolved) if "unanswered" in ruled_out else keep(resolved)
        out_of_order = disorders(attempts, resolved, polls)
        sends = at_disorders(attempts, spark, out_of_order) if out_of_order else nothing_of(attempts)
        ruled_out |= set() if out_of_order else {"sends"}
    if short is not None and not watched(facts, short.last_ns):
        ruled_out |= {"time"}
    walk, conflicts = _walk(close.walked, polls), log_conflicts(logs, cluster)
    calm = "partitions" in ruled_out
    finals = keep(
        final_reads(_end_frame(spark, facts), polls, cluster).unionByName(deleted_finals(close.touched, deleted))
    )
    return Relations(
        runs=_run_frame(spark, facts),
        faults=_fault_frame(spark, facts),
        operations=operations.where("problem is null"),
        attempts=attempts,
        sends=sends,
        reads=reads,
        polls=polls,
        values=values,
        walk=nothing_of(walk) if calm else keep(walk),
        finals=finals,
        touched=close.touched,
        cluster=cluster,
        logs=logs,
        dumped=close.dumped,
        replicas=close.replicas,
        resolved=resolved,
        conflicts=nothing_of(conflicts) if calm else keep(conflicts),
        deleted=deleted,
        groups=group_relations(examined["commits"], examined["ownerships"]) if "commits" in examined else None,
        examined=examined,
        rows={**{table: rows_by_run(frame) for table, frame in examined.items()}, **close.rows},
        ruled_out=ruled_out,
        suspicion=close.suspicion,
    )


def _values(sends: DataFrame, reads: DataFrame) -> DataFrame:
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
            fn.min_by("read_op", fn.coalesce("read_ns", fn.lit(_END_OF_TIME))).alias("read_op"),
            fn.min_by("read_process", fn.coalesce("read_ns", fn.lit(_END_OF_TIME))).alias("read_process"),
            fn.min_by("read_offset", fn.coalesce("read_ns", fn.lit(_END_OF_TIME))).alias("read_offset"),
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


def _walk(reads: DataFrame, polls: DataFrame) -> DataFrame:
    """Follow each process through a partition, and keep the records that are not at the offset after the one before.

    Only within a leg (`checkers.relations.polls`) must positions follow each other, so the record and the one before
    it are of the same one.
    """
    path = Window.partitionBy(*KEY, "process").orderBy("invoked_ns", "op", "ordinal")
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


def _frame(spark: SparkSession, columns: dict[str, pa.DataType], rows: Sequence[Sequence[object]]) -> DataFrame:
    schema = pa.schema(list(columns.items()))
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    arrays = [pa.array(list(column), kind) for column, kind in zip(values, columns.values(), strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))


def _run_frame(spark: SparkSession, facts: Sequence[RunFacts]) -> DataFrame:
    columns = {
        "run_id": pa.string(),
        "brokers": pa.int32(),
        "replication_factor": pa.int32(),
        "min_insync_replicas": pa.int32(),
        "idempotence": pa.bool_(),
        "unclean_election": pa.bool_(),
        "sends_known": pa.bool_(),
        "healed_ns": pa.int64(),
        "unavailable_after_ns": pa.int64(),
    }
    named = ("brokers", "replication_factor", "min_insync_replicas", "idempotence", "unclean_election")
    rows = [
        (
            run.run_id,
            *(getattr(run.settings, name) for name in named),
            run.sends_known,
            run.healed_ns,
            run.settings.unavailable_after_ns,
        )
        for run in facts
    ]
    return _frame(spark, columns, rows)


def _fault_frame(spark: SparkSession, facts: Sequence[RunFacts]) -> DataFrame:
    columns = {
        "run_id": pa.string(),
        "fault": pa.int32(),
        "kind": pa.string(),
        "broker": pa.int32(),
        "lossy": pa.bool_(),
        "started_ns": pa.int64(),
        "ended_ns": pa.int64(),
    }
    rows = [
        (run.run_id, fault.number, fault.kind, target, fault.lossy, fault.started_ns, fault.ended_ns)
        for run in facts
        for fault in run.faults
        for target in fault.targets
    ]
    return _frame(spark, columns, rows)


def _end_frame(spark: SparkSession, facts: Sequence[RunFacts]) -> DataFrame:
    columns = {
        "run_id": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "end_offset": pa.int64(),
        "agreed": pa.bool_(),
    }
    rows = [
        (run.run_id, end.topic, end.partition, end.offset, end.agreed)
        for run in facts
        for end in run.ends
        if end.topic not in run.deleted_topics
    ]
    return _frame(spark, columns, rows)


def _deleted_frame(spark: SparkSession, facts: Sequence[RunFacts]) -> DataFrame:
    rows = [(run.run_id, topic) for run in facts for topic in sorted(run.deleted_topics)]
    return _frame(spark, {"run_id": pa.string(), "topic": pa.string()}, rows)
