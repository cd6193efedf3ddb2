"""Makes the rows about the history itself, never about the system: malformed rows, and outcomes that were resolved."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.anomalies.rows import findings, operation
from checkers.relations.base import Relations
from history.anomalies import MALFORMED

RESOLVED: Final = "repaired-outcome"
"""Name of resolved outcomes among the findings until they are separated."""

_ORDER: Final = ("completed_ns", "topic", "partition", "offset", "value", "op")
"""That of `checkers.verdict.collect`."""

_NOT_SCREENED = ("commands", "commits", "ownerships")


def malformed_history(relations: Relations) -> list[DataFrame]:
    """Find the rows of the large tables with a problem; a frame for each table that may have any."""
    tables = _NOT_SCREENED if "problems" in relations.free_of else relations.examined
    return [_of_table(table, relations.examined[table]) for table in tables if table in relations.examined]


def _of_table(table: str, examined: DataFrame) -> DataFrame:
    columns = {
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "value": "bigint",
        "op": "bigint",
        "process": "bigint",
        "broker": "int",
    }
    problems = examined.where("problem is not null")
    missing = {name: fn.lit(None).cast(kind) for name, kind in columns.items() if name not in problems.columns}
    at_ns = next((name for name in ("invoked_ns", "at_ns", "since_ns") if name in problems.columns), None)
    return findings(
        problems.withColumns(missing),
        MALFORMED,
        at_ns=fn.col(at_ns) if at_ns else fn.lit(None),
        promises=fn.array(),
        details={"table": fn.lit(table), "problem": fn.col("problem")},
    )


def resolved_rows(resolved: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return sends that are resolved (`checkers.screening.ordinary.resolved`) as `resolved_findings`, collected."""
    told = ("op", "process", "status", "node", "invoked_ns", "completed_ns")
    same = ("run_id", "topic", "partition", "offset", "value", "op", "process")
    return [
        {
            **{name: send[name] for name in same},
            "anomaly": RESOLVED,
            "broker": send["node"],
            "at_ns": send["completed_ns"],
            "details": json.dumps(
                {
                    "operation": {name: send[name] for name in told if send[name] is not None},
                    "read_op": send["read_op"],
                    "known_ns": send["completed_ns"],
                }
            ),
            "within_contract": True,
        }
        for send in sorted(resolved, key=lambda send: tuple(send[name] for name in _ORDER))
    ]


def resolved_findings(resolved: DataFrame) -> DataFrame:
    """Return the resolved outcomes in the shape of findings, so that they are collected with them."""
    return findings(
        resolved,
        RESOLVED,
        broker=fn.col("node"),
        at_ns=fn.col("completed_ns"),
        promises=fn.array(),
        details={"operation": operation(), "read_op": fn.col("read_op"), "known_ns": fn.col("completed_ns")},
    )
