"""Runs and keys decided inside Spark tasks."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from checkers.linearizability.operations import MALFORMED, NOT_LINEARIZABLE
from checkers.linearizability.tasks import OPERATIONS_SCHEMA, decide_in_tasks, verdicts_by_run

pytestmark = pytest.mark.spark

EPOCH_NS = 1_790_000_000_000_000_000
"""A time whose nanoseconds a double cannot hold."""


def write(run: str, key: str, at: int, value: int, status: str = "ok") -> tuple[object, ...]:
    completed = EPOCH_NS + at + 1 if status == "ok" else None
    return (run, key, 1, EPOCH_NS + at, completed, "write", json.dumps(value), None, status)


def read(run: str, key: str, at: int, value: int | None) -> tuple[object, ...]:
    return (run, key, 2, EPOCH_NS + at, EPOCH_NS + at + 1, "read", None, json.dumps(value), "ok")


def test_runs_and_keys_are_decided_in_tasks(spark: SparkSession) -> None:
    rows = []
    for number in range(40):
        key = f"k{number}"
        rows += [write("good", key, 0, 1), read("good", key, 2, 1), write("good", key, 1, 2, "info")]
        rows += [write("bad", key, 0, 1), read("bad", key, 2, None if number == 7 else 1)]
        rows += [write("odd", key, 0, 1), read("odd", key, 2, 1)]
    rows.append(("odd", "k3", 1, EPOCH_NS, EPOCH_NS, "read", None, "{no json", "ok"))
    rows.append(("odd", None, None, None, None, None, None, None, None))
    frame = spark.createDataFrame(rows, OPERATIONS_SCHEMA)
    verdicts = verdicts_by_run(decide_in_tasks(frame, "register", buckets=4))
    assert {run: verdict["outcome"] for run, verdict in verdicts.items()} == {
        "good": "valid",
        "bad": "invalid",
        "odd": "unknown",
    }
    assert verdicts["good"]["counts"]["keys_valid"] == 40
    assert verdicts["bad"]["kinds"] == [NOT_LINEARIZABLE]
    assert verdicts["bad"]["counts"]["keys_invalid"] == 1
    (evidence,) = verdicts["bad"]["evidence"]
    assert evidence["key"] == "k7"
    assert evidence["operations"][evidence["stuck"]]["text"] == "read → nil"
    assert verdicts["odd"]["kinds"] == [MALFORMED]
    assert verdicts["odd"]["counts"]["malformed"] == 2
