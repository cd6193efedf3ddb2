"""Derives the relations of consumer groups: commits, answers and ownerships. Most runs have no groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

WORKLOAD: Final = "groups"
"""The workload that must have left commits."""
GROUP_KEY: Final = ("run_id", "group", "topic", "partition")
OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The topic in which a cluster stores its groups: a promise about a group is a promise about a record there."""
METRIC: Final = "groups"


@dataclass(frozen=True)
class GroupRelations:
    """The frames of group anomalies. Malformed rows are set apart."""

    commits: DataFrame
    """Commits that happened or may have, one row per partition: those that certainly failed are left out."""
    answers: DataFrame
    """Answers to queries for a committed offset; `offset` -1: there was none."""
    ownerships: DataFrame


def group_relations(commits: DataFrame, ownerships: DataFrame) -> GroupRelations:
    """Derive the relations from the examined tables `commits` and `ownerships`."""
    good = commits.where("usable and status is not null").drop("usable", "problem")
    return GroupRelations(
        commits=good.where("kind = 'commit' and status != 'fail' and offset is not null"),
        answers=good.where("kind = 'committed' and status = 'ok'").withColumn(
            "offset", fn.coalesce("offset", fn.lit(-1))
        ),
        ownerships=ownerships.where("usable").drop("usable", "problem"),
    )


def kept_at() -> dict[str, Column]:
    """Assign a finding to the partition that stores the group, if known: the contract of that partition counts."""
    known = fn.col("kept_in").isNotNull()
    return {
        "topic": fn.when(known, fn.lit(OFFSETS_TOPIC)).otherwise(fn.col("topic")),
        "partition": fn.coalesce("kept_in", "partition"),
    }


def group_numbers(groups: GroupRelations) -> DataFrame:
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


def undecided_groups(workload: str | None, commits_ok: int, not_asked: int, commits_min: int) -> Sequence[str]:
    """Say why the groups of a run leave its verdict open."""
    reasons = []
    if workload == WORKLOAD and commits_ok < commits_min:
        reasons.append(f"only {commits_ok:,} commits were acknowledged, {commits_min:,} are needed for a verdict")
    if not_asked:
        reasons.append(f"the committed offsets of {not_asked:,} partitions were not asked for at the end")
    return reasons
