"""Validates the rows of the large tables: reports problems, and keeps as much of each row as can be used.

Each function returns its table with the columns `problem` (null for a good row) and `usable`. Sends, reads and polls
come with their operation; where that is unknown or malformed, its columns are null, and no rule on time, process or
status applies to the row.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.input.polls import POLL
from checkers.linearizability.models import MODELS

_OPERATION = ("process", "kind", "status", "node", "phase", "invoked_ns", "completed_ns")


def examined_operations(operations: DataFrame, *, unique: bool = False) -> DataFrame:
    """Examine operations; of several with one number, the first counts. `unique`: numbers are unique."""
    same_number = Window.partitionBy("run_id", "op").orderBy("invoked_ns", "process", "kind", "status")
    copy = fn.lit(1) if unique else fn.row_number().over(same_number)
    numbered = operations.withColumn("copy", copy)
    problem = _first_problem(
        ("no number", fn.col("op").isNull()),
        ("another operation has the same number", fn.col("copy") > 1),
        ("no kind", fn.col("kind").isNull()),
        ("no process", fn.col("process").isNull()),
        ("unknown status", ~_among("status", "ok", "fail", "info")),
        ("no time of invocation", fn.col("invoked_ns").isNull() | (fn.col("invoked_ns") < 0)),
        ("completed before it was invoked", fn.col("completed_ns") < fn.col("invoked_ns")),
        ("ok, yet never completed", (fn.col("status") == "ok") & fn.col("completed_ns").isNull()),
    )
    return numbered.withColumn("problem", problem).select(
        "run_id", "op", *_OPERATION, "problem", "copy", fn.col("problem").isNull().alias("usable")
    )


def examined_sends(sends: DataFrame, operations: DataFrame, *, unique: bool = False) -> DataFrame:
    """Examine records sent; of several with one value, the first counts. `unique`: values are unique."""
    same_value = Window.partitionBy("run_id", "value").orderBy("op", "ordinal", "topic", "partition")
    copy = fn.lit(1) if unique else fn.row_number().over(same_value)
    joined = _with_operation(sends, operations, "send").withColumn("copy", copy)
    nowhere = fn.col("topic").isNull() | fn.col("partition").isNull() | fn.col("value").isNull()
    twice = fn.col("value").isNotNull() & (fn.col("copy") > 1)
    problem = _first_problem(
        ("no topic, partition or value", nowhere),
        ("a value that was sent before", twice),
        ("no such send operation", ~fn.col("known")),
        ("negative offset", fn.col("offset") < 0),
        ("unknown acks", ~_among("acks", -1, 0, 1)),
    )
    return (
        joined.withColumn("problem", problem)
        .withColumn("usable", ~nowhere & ~twice)
        .withColumn("offset", fn.when(fn.col("offset") >= 0, fn.col("offset")))
        .drop("copy", "known", "kind")
    )


def examined_reads(reads: DataFrame, operations: DataFrame) -> DataFrame:
    """Examine records polled."""
    nowhere = fn.col("topic").isNull() | fn.col("partition").isNull()
    no_offset = fn.col("offset").isNull() | (fn.col("offset") < 0)
    problem = _first_problem(
        ("no topic or partition", nowhere),
        ("no offset", no_offset),
        ("no such poll operation", ~fn.col("known")),
    )
    return (
        _with_operation(reads, operations, "poll")
        .withColumn("problem", problem)
        .withColumn("usable", ~nowhere & ~no_offset)
        .drop("known", "kind")
    )


def examined_polls(polls: DataFrame, operations: DataFrame, returned: DataFrame) -> DataFrame:
    """Examine polls, and compare the numbers of records they claim with those recorded (`checkers.input.polls`)."""
    same_poll = Window.partitionBy(*POLL).orderBy("position", "next_position")
    joined = (
        _with_operation(polls, operations, "poll", "latest")
        .join(returned.select(*POLL, "returned"), list(POLL), "left")
        .withColumn("returned", fn.coalesce("returned", fn.lit(0)))
        .withColumn("copy", fn.row_number().over(same_poll))
    )
    nowhere = fn.col("topic").isNull() | fn.col("partition").isNull()
    negative = (fn.col("position") < 0) | (fn.col("next_position") < 0) | (fn.col("high_watermark") < 0)
    ok = fn.col("status") == "ok"
    is_poll = fn.col("kind") == "poll"
    no_answer = ok & (fn.col("next_position").isNull() | (is_poll & fn.col("position").isNull()))
    backwards = ok & is_poll & (fn.col("next_position") < fn.col("position"))
    lacking = ok & is_poll & ~fn.coalesce(fn.col("records") == fn.col("returned"), fn.lit(False))
    unusable = [
        ("no topic or partition", nowhere),
        ("no such poll operation", ~fn.col("known")),
        ("another row for the same poll and partition", fn.col("copy") > 1),
        ("negative position", negative),
        ("ok, yet without positions", no_answer),
        ("ended before its position", backwards),
    ]
    return (
        joined.withColumn("problem", _first_problem(*unusable))
        .withColumn("usable", fn.col("problem").isNull())
        .withColumn("problem", fn.coalesce("problem", _first_problem(("its records are not in the history", lacking))))
        .withColumn("whole", fn.col("problem").isNull() & fn.coalesce(ok, fn.lit(False)))
        .drop("copy", "known", "returned")
    )


def examined_samples(cluster: DataFrame) -> DataFrame:
    """Examine samples of replicas."""
    problem = _first_problem(
        ("no topic, partition or broker", _any_null("topic", "partition", "broker")),
        ("no time", fn.col("at_ns").isNull() | (fn.col("at_ns") < 0)),
    )
    return cluster.withColumn("problem", problem).withColumn("usable", fn.col("problem").isNull())


def examined_logs(logs: DataFrame) -> DataFrame:
    """Examine records of the dumped logs."""
    problem = _first_problem(
        ("no topic, partition or broker", _any_null("topic", "partition", "broker")),
        ("no offset", fn.col("offset").isNull() | (fn.col("offset") < 0)),
    )
    return logs.withColumn("problem", problem).withColumn("usable", fn.col("problem").isNull())


def examined_commands(commands: DataFrame) -> DataFrame:
    """Examine commands to objects. Every row counts: a malformed one leaves its object undecided."""
    problem = _first_problem(
        ("no topic, partition or object", _any_null("topic", "partition", "key")),
        ("unknown model", ~_among("model", *MODELS)),
        ("no process", fn.col("process").isNull()),
        ("unknown status", ~_among("status", "ok", "fail", "info")),
        ("no time of invocation", fn.col("invoked_ns").isNull() | (fn.col("invoked_ns") < 0)),
        ("completed before it was invoked", fn.col("completed_ns") < fn.col("invoked_ns")),
        ("ok, yet never completed", (fn.col("status") == "ok") & fn.col("completed_ns").isNull()),
    )
    return commands.withColumn("problem", problem)


def examined_commits(commits: DataFrame, operations: DataFrame) -> DataFrame:
    """Examine the commits of group members, and the answers to queries for committed offsets."""
    key = ["run_id", "op", "group", "topic", "partition"]
    same_key = Window.partitionBy(*key).orderBy("offset", "generation")
    problem = _first_problem(
        ("no group, topic or partition", _any_null("group", "topic", "partition")),
        ("no such operation of a group", ~fn.col("known")),
        ("another row for the same operation and partition", fn.col("copy") > 1),
        ("negative offset", fn.col("offset") < 0),
        ("a commit without an offset", (fn.col("kind") == "commit") & fn.col("offset").isNull()),
    )
    return (
        _with_operation(commits, operations, "commit", "committed")
        .withColumn("copy", fn.row_number().over(same_key))
        .withColumn("problem", problem)
        .withColumn("usable", fn.col("problem").isNull())
        .drop("copy", "known")
    )


def examined_ownerships(ownerships: DataFrame) -> DataFrame:
    """Examine what members of groups owned."""
    problem = _first_problem(
        (
            "no group, partition, member or generation",
            _any_null("group", "topic", "partition", "member", "generation"),
        ),
        ("no time", fn.col("since_ns").isNull() | (fn.col("since_ns") < 0)),
        ("ended before it began", fn.col("until_ns") < fn.col("since_ns")),
    )
    return ownerships.withColumn("problem", problem).withColumn("usable", fn.col("problem").isNull())


def _with_operation(table: DataFrame, operations: DataFrame, *kinds: str) -> DataFrame:
    """Join the operation of each row: `known` if there is one of the right kind, its columns if that is well formed."""
    good = fn.col("operation_problem").isNull()
    candidates = operations.where((fn.col("copy") == 1) & fn.col("op").isNotNull()).select(
        "run_id", "op", *_OPERATION, fn.col("problem").alias("operation_problem")
    )
    known = candidates.where(fn.col("kind").isin(*kinds)).select(
        "run_id",
        "op",
        fn.lit(True).alias("known"),
        *(fn.when(good, fn.col(name)).alias(name) for name in _OPERATION),
    )
    joined = table.join(known, ["run_id", "op"], "left")
    return joined.withColumn("known", fn.coalesce("known", fn.lit(False)))


def _first_problem(*problems: tuple[str, Column]) -> Column:
    return fn.coalesce(*(fn.when(condition, fn.lit(text)) for text, condition in problems))


def _among(column: str, *values: object) -> Column:
    return fn.coalesce(fn.col(column).isin(*values), fn.lit(False))


def _any_null(*columns: str) -> Column:
    condition = fn.col(columns[0]).isNull()
    for column in columns[1:]:
        condition = condition | fn.col(column).isNull()
    return condition
