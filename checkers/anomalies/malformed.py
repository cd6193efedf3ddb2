"""Finds malformed rows: the anomaly `malformed-history`, which is about the history and never about the system."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.findings import findings
from checkers.relations.base import Relations
from history.anomalies import MALFORMED

_NOT_SCREENED = ("commands", "commits", "ownerships")


def malformed_history(relations: Relations) -> list[DataFrame]:
    """Find the rows of the large tables with a problem; a frame for each table that may have any."""
    tables = _NOT_SCREENED if "problems" in relations.ruled_out else relations.examined
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
