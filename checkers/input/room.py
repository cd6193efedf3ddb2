"""Says before a long check that the disk has too little room for it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from checkers.input.sizes import ROWS_LONG

BYTES_OF_A_ROW: Final = 32
"""What Spark keeps on the disk for each row of a long history that is checked as frames."""
EXCHANGED_BYTES_OF_A_ROW: Final = 16
"""The same where it is screened from its files: blocks for other tasks, and no copy."""


class NoRoomError(Exception):
    """A check needs more disk than is free. One line: what was expected, what was found, what to do."""


def need_room(spark: SparkSession, rows: int, bytes_of_a_row: int) -> None:
    """Require room on this machine for what a check of so many rows keeps on the disk. Raises `NoRoomError`.

    It asks the file system, which does not know of the quota of a user. What the workers of a cluster have is theirs.
    """
    context = spark.sparkContext
    wanted = rows * bytes_of_a_row
    if rows <= ROWS_LONG or not context.master.startswith("local"):
        return
    directory = Path(context.getConf().get("spark.local.dir", "") or "/tmp")  # noqa: S108 (Spark's default)
    free = shutil.disk_usage(directory).free
    if free < wanted:
        raise NoRoomError(
            f"expected {wanted / 1e9:,.1f} GB free at {directory.parent} to check {rows:,} rows, "
            f"found {free / 1e9:,.1f}: set TMPDIR to a directory with more room"
        )
