"""The key of partitions, and operations on frames that every step of a check uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema

KEY: Final = ("run_id", "topic", "partition")

NEVER: Final = -1
"""Before every time of a run."""
FOREVER: Final = (1 << 63) - 1
"""After every time of a run, and above every offset."""


def unite(frames: Sequence[DataFrame]) -> DataFrame:
    """Concatenate frames of one shape."""
    first, *rest = frames
    for frame in rest:
        first = first.union(frame)
    return first


def rows_by_run(examined: DataFrame) -> DataFrame:
    """Return numbers of rows of each run (`rows`), to be summed."""
    return examined.select("run_id", fn.lit(1).cast("bigint").alias("rows"))


def nothing_of(frame: DataFrame) -> DataFrame:
    """Return an empty frame with the same columns: Spark hardly plans what builds on a frame known to be empty."""
    return frame.sparkSession.createDataFrame(to_arrow_schema(frame.schema).empty_table(), frame.schema)


def usable(examined: DataFrame) -> DataFrame:
    """Keep the rows that can be used (`checkers.input.validation`)."""
    return examined.where("usable").drop("usable", "problem")
