"""The anomaly `malformed-history`: rows that make no sense. It says something of the history, never of the system."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.findings import findings, unite
from checkers.relations import Relations

NAME = "malformed-history"


def malformed_history(relations: Relations) -> DataFrame:
    """Find the rows of the large tables with a problem."""
    return unite([_of_table(table, frame) for table, frame in relations.examined.items()])


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
        NAME,
        at_ns=fn.col(at_ns) if at_ns else fn.lit(None),
        promises=fn.array(),
        details={"table": fn.lit(table), "problem": fn.col("problem")},
    )
