"""Screens a long history on Spark: brings its rows to the tasks that screen stretches, and collects their notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from checkers.input.frames import KEY, unite
from checkers.input.polls import furthest_reads, lagging_samples, not_yet_committed, uneven_paths
from checkers.screening import stretches
from checkers.screening.stretches import Suspicion, suspicion_of

POLLS_BROADCAST_MAX = 4_000_000
"""Up to so many polls are broadcast to every task; more are joined with their records by a shuffle."""

ROWS_OF_A_TASK = 1_000_000
"""A task has all its rows in memory at once, some 100 bytes for each."""
TASKS_MIN = 2

_DUPLICATE = -1
"""Kind of note: an operation or a value occurs twice."""


@dataclass(frozen=True)
class ScreenedAnswers:
    """The frames that screening reads in a history of any length."""

    operations: DataFrame
    """Examined, with `copy` 1 everywhere."""
    sends: DataFrame
    """Examined, as if no value had been sent twice."""
    polls: DataFrame
    """Examined."""
    returned: DataFrame
    """`checkers.input.polls.returned_by_poll`."""
    cluster: DataFrame
    """Examined."""


@dataclass(frozen=True)
class Screened:
    """The frames that screening reads in a long history."""

    answers: ScreenedAnswers
    reads: DataFrame
    """As recorded."""
    logs: DataFrame
    """As recorded."""
    replicas: DataFrame
    """One row per replica with a dumped log: its partition, `broker`, and the least and greatest high watermark in its
    log, `watermark_min` and `watermark_max`."""
    rows_number: int
    """Rows that the kernel screens."""
    polls_number: int


def screened(history: Screened, spark: SparkSession) -> Suspicion | None:
    """Screen a history in one Spark job; None if it has operations or values twice.

    Which of two copies counts depends on all rows with that number, so such a history is not screened.
    """
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    answers = history.answers
    notes = unite([
        _notes_of_kernel(history),
        _watermarks(history.replicas),
        _notes(
            [answers.sends.where("problem is not null").select(partition_key()), *_odd_answers(answers)],
            stretches.SUSPECT_PARTITION,
        ),
        _notes(
            [_malformed(frame) for frame in (answers.operations, answers.polls, answers.cluster)],
            stretches.MALFORMED,
        ),
        _notes([_twice(answers.operations, "op"), _twice(answers.sends, "value")], _DUPLICATE),
    ])  # fmt: skip
    collected = notes.coalesce(partitions).toArrow()
    if _DUPLICATE in collected.column("note").to_pylist():
        return None
    return suspicion_of(collected)


def notes_of_answers(answers: ScreenedAnswers) -> pa.Table:
    """Return the notes on polls and samples alone, which are few."""
    return unite([
        _notes(_odd_answers(answers), stretches.SUSPECT_PARTITION),
        _notes([_malformed(frame) for frame in (answers.polls, answers.cluster)], stretches.MALFORMED),
    ]).toArrow()  # fmt: skip


def _odd_answers(answers: ScreenedAnswers) -> list[DataFrame]:
    """Return the partitions of polls that do not follow each other, or that may have read uncommitted records."""
    polls, cluster = answers.polls.where("usable"), answers.cluster.where("usable")
    dirty = not_yet_committed(furthest_reads(polls, answers.returned), lagging_samples(cluster))
    return [uneven_paths(polls, answers.returned).select(partition_key()), dirty.select(partition_key())]


def replicas_of(logs: DataFrame) -> DataFrame:
    """Count the records in each replica's log: all that were recorded (`rows`) and those that are `usable`.

    `watermark_min` and `watermark_max`: the least and the greatest high watermark in it, -1 if not known.
    """
    usable = fn.col("broker").isNotNull() & fn.col("topic").isNotNull() & fn.col("partition").isNotNull()
    every_column = (fn.count(name) for name in ("leader_epoch", "value", "crc"))
    high_watermark = fn.coalesce("high_watermark", fn.lit(-1))
    return logs.groupBy(*KEY, "broker").agg(
        fn.count("*").alias("rows"),
        fn.count(fn.when(usable & (fn.col("offset") >= 0), 1)).alias("usable"),
        fn.min(high_watermark).alias("watermark_min"),
        fn.max(high_watermark).alias("watermark_max"),
        # Reading every column shows whether a file is broken anywhere and so lacks rows.
        *every_column,
    )


def partition_key() -> Column:
    """Number the partition of a row. If two partitions get one number, both are suspect if either is."""
    return fn.xxhash64(*KEY)


def in_partitions(frame: DataFrame, spark: SparkSession, partition_keys: frozenset[int]) -> DataFrame:
    """Keep the rows of some partitions."""
    if not partition_keys:
        return frame.where(fn.lit(False))
    wanted = spark.createDataFrame(pa.table({"partition_key": pa.array(sorted(partition_keys), pa.int64())}))
    return (
        frame.withColumn("partition_key", partition_key())
        .join(fn.broadcast(wanted), "partition_key", "left_semi")
        .drop("partition_key")
    )


def under_suspicion(frame: DataFrame, spark: SparkSession, suspicion: Suspicion) -> DataFrame:
    """Keep the rows of suspect partitions, and those of suspect values in the other partitions."""
    of_suspect_partitions = in_partitions(frame, spark, suspicion.partition_keys)
    if not suspicion.values:
        return of_suspect_partitions
    partition_keys, values = zip(*suspicion.values, strict=True)
    wanted = spark.createDataFrame(
        pa.table({"partition_key": pa.array(partition_keys, pa.int64()), "value": pa.array(values, pa.int64())})
    )
    suspect = frame.withColumn("partition_key", partition_key()).join(
        fn.broadcast(wanted), ["partition_key", "value"], "left_semi"
    )
    return of_suspect_partitions.unionByName(suspect.drop("partition_key"))


def _notes_of_kernel(history: Screened) -> DataFrame:
    rows = unite([_sends(history), _reads(history), _logs(history.logs)])
    # Records without an offset agree or disagree with no others, and may be many, so values spread them over tasks.
    known = fn.col("offset") != stretches.NOWHERE
    stretch = fn.when(known, fn.shiftright("offset", stretches.STRETCH_BITS)).otherwise(fn.col("value"))
    tasks = max(TASKS_MIN, history.rows_number // ROWS_OF_A_TASK)
    return rows.repartition(tasks, "partition_key", stretch).mapInArrow(
        stretches.screen_batches, stretches.NOTES_SCHEMA
    )


def _sends(history: Screened) -> DataFrame:
    acknowledged = fn.coalesce((fn.col("status") == "ok") & fn.col("acks").isin(-1, 1), fn.lit(False))
    return _rows(
        history.answers.sends.where("problem is null"),
        stretches.SEND,
        offset=fn.coalesce("offset", fn.lit(stretches.NOWHERE)),
        value=fn.col("value"),
        marks=_marks((stretches.ACKNOWLEDGED, acknowledged)),
    )


def _reads(history: Screened) -> DataFrame:
    polls = history.answers.operations.where("kind = 'poll' and problem is null").select(
        "run_id", "op", ((fn.col("status") == "ok") & (fn.coalesce("phase", fn.lit("")) == "final")).alias("final")
    )
    few = history.polls_number <= POLLS_BROADCAST_MAX
    reads = history.reads.join(fn.broadcast(polls) if few else polls, ["run_id", "op"], "left")
    bad = _nowhere(reads) | fn.col("final").isNull()
    return _rows(
        reads,
        stretches.READ,
        offset=fn.when(bad, fn.lit(0)).otherwise(fn.col("offset")),
        value=fn.coalesce("value", fn.lit(0)),
        epoch=fn.col("leader_epoch"),
        detail=fn.coalesce("op", fn.lit(0)),
        marks=_marks(
            (stretches.BAD, bad), (stretches.FINAL, fn.col("final")), (stretches.VALUELESS, fn.col("value").isNull())
        ),
    )


def _logs(logs: DataFrame) -> DataFrame:
    bad = _nowhere(logs) | fn.col("broker").isNull()
    valueless = fn.col("value").isNull() & ~fn.col("topic").startswith("__")
    return _rows(
        logs,
        stretches.LOG,
        offset=fn.when(bad, fn.lit(0)).otherwise(fn.col("offset")),
        value=fn.coalesce("value", fn.lit(0)),
        epoch=fn.col("leader_epoch"),
        marks=_marks((stretches.BAD, bad), (stretches.VALUELESS, valueless)),
        detail=fn.coalesce("crc", fn.lit(-1)),
        broker=fn.coalesce("broker", fn.lit(0)),
    )


def _nowhere(frame: DataFrame) -> Column:
    missing = [frame[name].isNull() for name in ("topic", "partition", "offset")]
    return missing[0] | missing[1] | missing[2] | (frame["offset"] < 0)


def _marks(*marks: tuple[int, Column]) -> Column:
    total = fn.lit(0)
    for mark, condition in marks:
        total = total + fn.when(condition, mark).otherwise(0)
    return total


def _rows(
    frame: DataFrame,
    kind: int,
    *,
    offset: Column,
    value: Column,
    marks: Column,
    epoch: Column | None = None,
    detail: Column | None = None,
    broker: Column | None = None,
) -> DataFrame:
    tag = fn.lit(kind) + fn.shiftleft(marks, stretches.MARKS_SHIFT)
    if broker is not None:
        tag = tag + fn.shiftleft(broker.cast("bigint"), stretches.BROKER_SHIFT)
    no_epoch = fn.lit(stretches.NO_EPOCH)
    given = {
        "partition_key": partition_key(),
        "offset": offset,
        "value": value,
        "epoch": no_epoch if epoch is None else fn.coalesce(epoch.cast("bigint"), no_epoch),
        "detail": fn.lit(0) if detail is None else detail,
        "tag": tag,
    }
    return frame.select(*(column.cast("bigint").alias(name) for name, column in given.items()))


def _watermarks(replicas: DataFrame) -> DataFrame:
    zero = fn.lit(0).cast("bigint")
    return replicas.where("broker is not null").select(
        fn.lit(stretches.WATERMARK).alias("note"),
        partition_key().alias("partition_key"),
        zero.alias("stretch"),
        fn.col("broker").cast("bigint").alias("a"),
        fn.col("watermark_min").alias("b"),
        fn.col("watermark_max").alias("c"),
        zero.alias("d"),
    )


def _notes(partition_keys: Sequence[DataFrame], note: int) -> DataFrame:
    """Write one note of a kind for each partition of some frames, which have no other column."""
    nothing = (fn.lit(0).cast("bigint").alias(name) for name in ("stretch", "a", "b", "c", "d"))
    return (
        unite(partition_keys)
        .toDF("partition_key")
        .distinct()
        .select(fn.lit(note).alias("note"), "partition_key", *nothing)
    )


def _malformed(examined: DataFrame) -> DataFrame:
    return examined.where("problem is not null").select(_nowhere_special())


def _twice(frame: DataFrame, number: str) -> DataFrame:
    copies = frame.groupBy("run_id", number).agg(fn.count("*").alias("copies"))
    return copies.where("copies > 1").select(_nowhere_special())


def _nowhere_special() -> Column:
    return fn.lit(0).cast("bigint")
