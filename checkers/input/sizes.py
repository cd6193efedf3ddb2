"""Measures how much there is to check, and chooses the settings of Spark for it.

For a short history planning dominates, so its rows stay in one partition, expressions are interpreted, and nothing is
shuffled. For a long one the cost of the rows dominates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from checkers.input.tables import RunFiles

ROWS_SHORT: Final = 1_000_000
"""Up to so many rows a history is screened in the driver, which takes some 200 bytes for each."""
ROWS_LONG: Final = 3_000_000
"""Histories of more rows are kept on the disk between the steps of a check, so that memory stays flat."""
PARTITIONS_MIN: Final = 2
PARTITIONS_MAX: Final = 400
ROWS_PER_PARTITION: Final = 4_000_000


class Size(Enum):
    """How much there is to check."""

    SHORT = "short"
    MIDDLE = "middle"
    LONG = "long"

    def kept(self, frame: DataFrame) -> DataFrame:
        """Compute a frame once, when it is first needed, and cut its plan: what builds on it is planned from here.

        Planning is most of the work on a small history, and it grows with the depth of the plan.
        """
        if self is Size.LONG:
            return frame.localCheckpoint(False, StorageLevel.DISK_ONLY)
        return frame.localCheckpoint(eager=False)

    def together(self, frame: DataFrame, *columns: str) -> DataFrame:
        """Repartition by some columns; a short history has one partition anyway."""
        return frame if self is Size.SHORT else frame.repartition(*columns)

    def gathered(self, frame: DataFrame) -> DataFrame:
        """Coalesce a frame from files, or from outside of Spark, to as many partitions as its rows need."""
        return frame.coalesce(1) if self is Size.SHORT else frame


def size_of(runs: Iterable[RunFiles]) -> Size:
    """Return how much there is to check in some runs together."""
    rows = rows_of(runs)
    return Size.SHORT if rows <= ROWS_SHORT else Size.LONG if rows > ROWS_LONG else Size.MIDDLE


def rows_of(runs: Iterable[RunFiles]) -> int:
    """Count the rows of the large tables of some runs."""
    return sum(parts.rows for run in runs for parts in run.large.values())


def partitions_for(runs: Sequence[RunFiles]) -> int:
    """Choose few partitions for few rows: every partition of every shuffle is a task to be shipped and started."""
    if size_of(runs) is Size.SHORT:
        return 1
    return max(PARTITIONS_MIN, min(PARTITIONS_MAX, rows_of(runs) // ROWS_PER_PARTITION))


def settings_for(runs: Sequence[RunFiles]) -> dict[str, str]:
    """Return the settings of a Spark session, running or not, for the check of some runs."""
    short = size_of(runs) is Size.SHORT
    return {
        "spark.sql.shuffle.partitions": str(partitions_for(runs)),
        # A check compiles hundreds of classes for its expressions, and a short one is over before that pays off.
        "spark.sql.codegen.wholeStage": str(not short).lower(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if short else "FALLBACK",
        # Where expressions are interpreted, looking up what is known of one costs more than finding it again.
        "spark.sql.subexpressionElimination.enabled": str(not short).lower(),
    }
