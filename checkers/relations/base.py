"""Derives the base relations: what was sent, what was polled, and the fate of each value, for every run and partition.

All relations are partitioned by run, topic and partition, so that the window functions of the anomalies need no further
shuffle, and none holds a vector over offsets: one absurd offset costs one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from checkers.input.frames import nothing_of, rows_by_run, usable
from checkers.input.run_facts import RunFacts
from checkers.input.sizes import size_of
from checkers.input.tables import LARGE_TABLES, RunFiles, read_large
from checkers.input.validation import (
    examined_commands,
    examined_commits,
    examined_ownerships,
)
from checkers.relations.ends import final_reads, final_reads_of_deleted, log_conflicts
from checkers.relations.records import resolved_sends, uneven_reads, values_of
from checkers.screening.exclusions import (
    CONDITIONS_ON_VALUES,
    at_disorders,
    disorders,
    observed_after_heal,
    values_are_free_of,
)
from checkers.screening.in_driver import DriverScreening
from checkers.screening.long.recognise import SuspectRun
from checkers.screening.rows_to_check import rows_to_check
from checkers.screening.stretches import Suspicion

NOTHING_SCREENED: Final[Mapping[str, SuspectRun]] = {}
GROUP_KEY: Final = ("run_id", "group", "topic", "partition")


@dataclass(frozen=True)
class GroupRelations:
    """The frames of group anomalies. Malformed rows are set apart."""

    commits: DataFrame
    """Commits that happened or may have, one row per partition: those that certainly failed are left out."""
    answers: DataFrame
    """Answers to queries for a committed offset; `offset` -1: there was none."""
    ownerships: DataFrame


@dataclass(frozen=True)
class Relations:
    """The frames that anomalies are functions of. Malformed rows are only in `examined`."""

    runs: DataFrame
    """One row per run: settings, `healed_ns`, `sends_known`."""
    faults: DataFrame
    """One row per fault and target: `fault`, `kind`, `broker`, `lossy`, `started_ns`, `crashed_by_ns`, `ended_ns`."""
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
    uneven_reads: DataFrame
    """P where a process's path through a partition is uneven: records not at the offset after the one before."""
    final_reads: DataFrame
    """One row per partition: `complete`, and from where and when it was read to its end."""
    used_partitions: DataFrame
    """Partitions to which a value was sent, or from which one was read."""
    cluster: DataFrame
    logs: DataFrame
    """The dumped logs of the partitions in which they have to be checked."""
    dumped: DataFrame
    """All dumped logs."""
    replicas: DataFrame
    """One row per replica with a dumped log: its partition and `broker`."""
    resolved: DataFrame
    """Sends of unknown outcome that were read (`checkers.relations.records`)."""
    resent: DataFrame
    """One row per record that a client has sent again, as the logs show (`checkers.input.run_facts.Resent`): `value`,
    `producer_id`, `copies` (offsets) and `producer_epochs`."""
    conflicts: DataFrame
    """One row per offset at which the dumped logs differ (`checkers.relations.ends`)."""
    deleted: DataFrame
    """Topics that a client has deleted, or may have: `run_id`, `topic`."""
    groups: GroupRelations | None
    """None if no run has rows of groups."""
    examined: dict[str, DataFrame]
    """Rows of each large table with the column `problem`, null for good rows; `commands`, `commits` and `ownerships`
    only if there are any."""
    rows: dict[str, DataFrame]
    """Numbers of rows that Spark read of each large table: `run_id`, `rows`, to be summed."""
    free_of: frozenset[str]
    """What the history is certainly free of, so that no anomaly is looked for that it would show
    (`checkers.screening.exclusions`): suspect "values", suspect "partitions" (their logs, reads and paths of readers),
    "sends" that may be out of order, "problems" (malformed rows, except of commands and groups), the conditions that no
    value meets, "uncommitted" reads, and enough "time" after the last heal for `unavailable`."""
    suspicion: Suspicion | None
    """What screening suspects; None if everything is checked."""


def base_relations(
    spark: SparkSession,
    runs: Sequence[RunFiles],
    facts: Sequence[RunFacts],
    *,
    resolve_outcomes: bool = True,
    screening: bool = False,
    in_driver: DriverScreening | None = None,
    from_files: Mapping[str, SuspectRun] = NOTHING_SCREENED,
) -> Relations:
    """Derive the base relations of some runs with distinct ids.

    `resolve_outcomes`: a send whose record was read has happened. `screening`: check in full only what is suspect
    (`checkers.screening`); the findings stay the same. `in_driver`: what the driver has screened already;
    `from_files`: what the files of all these runs have shown already, by run id.
    """
    size = size_of(runs)
    keep = size.kept
    # Most runs have no objects or groups, and planning every frame costs time.
    has = {table: any(run.large[table].rows for run in runs) for table in LARGE_TABLES}
    has_groups = has["commits"] or has["ownerships"]
    read = {"commands": has["commands"], "commits": has_groups, "ownerships": has_groups}
    recorded = {table: size.gathered(read_large(spark, runs, table)) for table in LARGE_TABLES if read.get(table, True)}
    deleted = _deleted_frame(spark, facts)
    selected = rows_to_check(
        spark, runs, recorded, size, screening=screening, in_driver=in_driver, from_files=from_files
    )
    examined = selected.examined
    operations = examined["operations"]
    if has["commands"]:
        examined["commands"] = keep(examined_commands(recorded["commands"]))
    if has_groups:
        examined["commits"] = keep(examined_commits(recorded["commits"], operations))
        examined["ownerships"] = keep(examined_ownerships(recorded["ownerships"]))
    reads, polls, cluster, logs = (usable(examined[table]) for table in ("reads", "polls", "cluster", "logs"))
    attempts = usable(examined["sends"])
    values = values_of(selected.sends, reads)
    values = nothing_of(values) if "values" in selected.free_of else keep(values)
    resolved = resolved_sends(values, wanted=resolve_outcomes)
    sends, free_of = attempts, selected.free_of
    if selected.suspicion is not None:
        free_of |= CONDITIONS_ON_VALUES.keys() if "values" in free_of else values_are_free_of(values)
        answered_well = bool(from_files) and all(run.answers_ordinary for run in from_files.values())
        free_of |= {"uncommitted"} if "gone" in free_of and (answered_well or "partitions" in free_of) else set()
        free_of |= {"time"} if answered_well else set()
        resolved = nothing_of(resolved) if "unanswered" in free_of else keep(resolved)
        in_order = bool(from_files) and all(run.in_order for run in from_files.values())
        out_of_order = [] if in_order else disorders(attempts, resolved, polls)
        sends = at_disorders(attempts, spark, out_of_order) if out_of_order else nothing_of(attempts)
        free_of |= set() if out_of_order else {"sends"}
    if in_driver is not None and not observed_after_heal(facts, in_driver.last_ns):
        free_of |= {"time"}
    uneven, conflicts = uneven_reads(selected.reads_of_uneven_paths, polls), log_conflicts(logs, cluster)
    undisputed = "partitions" in free_of
    read_to_end = keep(
        final_reads(_end_frame(spark, facts), polls, cluster).unionByName(
            final_reads_of_deleted(selected.used_partitions, deleted)
        )
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
        uneven_reads=nothing_of(uneven) if undisputed else keep(uneven),
        final_reads=read_to_end,
        used_partitions=selected.used_partitions,
        cluster=cluster,
        logs=logs,
        dumped=selected.dumped,
        replicas=selected.replicas,
        resolved=resolved,
        resent=_resent_frame(spark, facts),
        conflicts=nothing_of(conflicts) if undisputed else keep(conflicts),
        deleted=deleted,
        groups=_group_relations(examined["commits"], examined["ownerships"]) if "commits" in examined else None,
        examined=examined,
        rows={**{table: rows_by_run(frame) for table, frame in examined.items()}, **selected.rows},
        free_of=free_of,
        suspicion=selected.suspicion,
    )


def _group_relations(commits: DataFrame, ownerships: DataFrame) -> GroupRelations:
    """Derive the relations from the examined tables `commits` and `ownerships`."""
    good = commits.where("usable and status is not null").drop("usable", "problem")
    return GroupRelations(
        commits=good.where("kind = 'commit' and status != 'fail' and offset is not null"),
        answers=good.where("kind = 'committed' and status = 'ok'").withColumn(
            "offset", fn.coalesce("offset", fn.lit(-1))
        ),
        ownerships=ownerships.where("usable").drop("usable", "problem"),
    )


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
        "crashed_by_ns": pa.int64(),
        "ended_ns": pa.int64(),
    }
    rows = [
        (
            *(run.run_id, fault.number, fault.kind, target, fault.lossy),
            *(fault.started_ns, fault.crashed_by_ns, fault.ended_ns),
        )
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


def _resent_frame(spark: SparkSession, facts: Sequence[RunFacts]) -> DataFrame:
    columns = {
        "run_id": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "value": pa.int64(),
        "producer_id": pa.int64(),
        "copies": pa.list_(pa.int64()),
        "producer_epochs": pa.list_(pa.int32()),
    }
    rows = [
        (
            run.run_id,
            each.topic,
            each.partition,
            each.value,
            each.producer_id,
            *map(list, zip(*each.copies, strict=True)),
        )
        for run in facts
        for each in run.resent
    ]
    return _frame(spark, columns, rows)


def _deleted_frame(spark: SparkSession, facts: Sequence[RunFacts]) -> DataFrame:
    rows = [(run.run_id, topic) for run in facts for topic in sorted(run.deleted_topics)]
    return _frame(spark, {"run_id": pa.string(), "topic": pa.string()}, rows)
