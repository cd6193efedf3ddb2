"""Derives from polls what each returned, how far the path of its reader was even, and what was not yet committed.

Most polls are *level*: their records are at successive offsets, in the order in which they were returned. If all
are, the first and the last offset of each poll describe all of a reader's path, without reading its records.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.input.frames import KEY

POLL = ("run_id", "op", "topic", "partition")


def returned_by_poll(reads: DataFrame) -> DataFrame:
    """Return one row per poll and partition, from rows of the table `reads` as they are.

    `rows`: all of them; `returned`: those with a partition and an offset; `values`: those of them with a value;
    `first_offset` and `last_offset`; `level`: `returned` is the length of the range between them, and each offset is as
    far from the record's ordinal as the next one. If no offset is there twice, the poll then is level.
    """
    usable = fn.col("topic").isNotNull() & fn.col("partition").isNotNull() & (fn.col("offset") >= 0)
    offset = fn.when(usable, fn.col("offset"))
    apart = offset - fn.col("ordinal")
    length = fn.col("last_offset") - fn.col("first_offset") + 1
    return (
        reads.groupBy(*POLL)
        .agg(
            fn.count("*").alias("rows"),
            fn.count(offset).alias("returned"),
            fn.count(fn.when(usable, fn.col("value"))).alias("values"),
            fn.min(offset).alias("first_offset"),
            fn.max(offset).alias("last_offset"),
            fn.count(apart).alias("numbered"),
            fn.min(apart).alias("least_apart"),
            fn.max(apart).alias("most_apart"),
            # Reading every column shows whether a file is broken anywhere and so lacks rows.
            fn.count("leader_epoch").alias("epochs"),
        )
        .select(
            *POLL,
            "rows",
            "returned",
            "values",
            "first_offset",
            "last_offset",
            (
                (fn.col("numbered") == fn.col("returned"))
                & (fn.col("least_apart") == fn.col("most_apart"))
                & (fn.col("returned") == length)
            ).alias("level"),
        )
    )


def with_legs(polls: DataFrame) -> DataFrame:
    """Number, in the column `leg`, the stretches of a process's path through a partition.

    A leg has no assignment, no seek, and no poll of unknown outcome: only within one must positions follow each other.
    """
    order = Window.partitionBy(*KEY, "process").orderBy("invoked_ns", "op")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    broken = fn.when(fn.col("whole"), 0).otherwise(1)
    begins = fn.when(_assigned(), 1).otherwise(broken)
    leg = fn.sum(begins).over(order) + fn.coalesce(fn.sum(broken).over(earlier), fn.lit(0))
    return polls.where("kind = 'poll'").withColumn("leg", leg)


def uneven_paths(polls: DataFrame, returned: DataFrame) -> DataFrame:
    """Return the partitions of polls at which a reader's path may be uneven, or its position went back.

    And those of polls that returned records and are missing from the table `polls`.
    """
    both = polls.join(returned.where("returned > 0").drop("rows", "values"), list(POLL), "left")
    earlier = Window.partitionBy(*KEY, "process").orderBy("invoked_ns", "op").rowsBetween(Window.unboundedPreceding, -1)
    reached = fn.when(fn.col("returned") > 0, fn.struct("last_offset", "leg"))
    jumped = (fn.col("before.leg") == fn.col("leg")) & (fn.col("before.last_offset") + 1 != fn.col("first_offset"))
    at = fn.when(fn.col("position").isNotNull(), fn.coalesce("next_position", "position"))
    back = fn.col("process").isNotNull() & (fn.col("position") < fn.col("at")) & ~_assigned()
    uneven = (
        with_legs(both)
        .select(
            "*",
            fn.last(reached, ignorenulls=True).over(earlier).alias("before"),
            fn.last(at, ignorenulls=True).over(earlier).alias("at"),
        )
        .where(((fn.col("returned") > 0) & (~fn.col("level") | fn.coalesce(jumped, fn.lit(False)))) | back)
    )
    unlisted = returned.where("returned > 0").join(polls.where("kind = 'poll'").select(*POLL), list(POLL), "left_anti")
    return uneven.select(*KEY).union(unlisted.select(*KEY))


def furthest_reads(polls: DataFrame, returned: DataFrame) -> DataFrame:
    """Return polls with the last record that each returned, in the column `furthest`: only its offset."""
    furthest: Column = fn.struct(fn.col("last_offset").alias("offset"))
    return (
        polls.where("node is not null and completed_ns is not null")
        .join(returned.where("returned > 0").select(*POLL, "last_offset"), list(POLL))
        .select(*KEY, "op", "node", "process", "invoked_ns", "completed_ns", furthest.alias("furthest"))
    )


def _assigned() -> Column:
    return fn.coalesce(fn.col("assigned"), fn.lit(False))


def lagging_samples(cluster: DataFrame) -> DataFrame:
    """Return the samples of leaders: `sampled_ns`, `sampled_hw`, and since when (`since_ns`) they were known to lead.

    What a sample shows was so at some moment since the sample before it (`shown_ns`). A leader that was seen not to
    lead meanwhile, or with a lower high watermark than before, may have been started again: it is known to lead since.
    """
    samples_of_one = Window.partitionBy(*KEY, "broker").orderBy("at_ns")
    before = fn.lag(fn.struct("role", "leader_epoch", "high_watermark")).over(samples_of_one)
    goes_on = (
        (fn.col("before.role") == "leader")
        & (fn.col("before.leader_epoch") == fn.col("leader_epoch"))
        & ~fn.coalesce(fn.col("high_watermark") < fn.col("before.high_watermark"), fn.lit(False))
    )
    begins = fn.when(fn.coalesce(goes_on, fn.lit(False)), 0).otherwise(1)
    return (
        cluster.withColumn("shown_ns", fn.lag("at_ns").over(samples_of_one))
        .withColumn("before", before)
        .withColumn("stretch", fn.sum(begins).over(samples_of_one))
        .where("role = 'leader' and leader_epoch is not null")
        .withColumn("since_ns", fn.min("at_ns").over(Window.partitionBy(*KEY, "broker", "stretch")))
        .where("shown_ns is not null and high_watermark is not null")
        .select(
            *KEY,
            fn.col("broker").alias("node"),
            "since_ns",
            "shown_ns",
            fn.col("at_ns").alias("sampled_ns"),
            fn.col("high_watermark").alias("sampled_hw"),
        )
    )


def not_yet_committed(polls: DataFrame, samples: DataFrame) -> DataFrame:
    """Join each poll with the first sample of its broker after it, if that broker has led since before it.

    The last record of a poll, in the column `furthest`, is enough to find it.
    """
    key = [*KEY, "node"]
    moments = samples.withColumn("moment", fn.col("shown_ns")).unionByName(
        polls.withColumn("moment", fn.col("completed_ns")), allowMissingColumns=True
    )
    backwards = Window.partitionBy(*key).orderBy(fn.desc("moment")).rowsBetween(Window.unboundedPreceding, -1)
    sample = fn.when(fn.col("sampled_ns").isNotNull(), fn.struct("sampled_ns", "sampled_hw", "since_ns"))
    return (
        moments.withColumn("next", fn.last(sample, ignorenulls=True).over(backwards))
        .where("furthest is not null and next.since_ns <= invoked_ns and next.sampled_hw <= furthest.offset")
        .select(*key, "op", "process", "furthest", "completed_ns", "next.sampled_ns", "next.sampled_hw")
    )
