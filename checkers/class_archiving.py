"""Makes the archive of Spark's classes (`checkers.class_archive`): starts Spark, has it do some of all, and ends it.

    python -m checkers.class_archiving

Of several such processes one does it. Whatever goes wrong is noted beside where the archive would be.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from checkers.class_archive import FAILED_SUFFIX, SUFFIX, archive_of, remove_old
from checkers.spark import end_java, find_java, start_session
from common.atomic_files import replacing

NICENESS = 19
WRITTEN_S = 600.0
"""Java takes half a minute of an idle core to write the archive, and gets what others leave."""


def main() -> None:
    """Make the archive of the Java that Spark would run on."""
    os.nice(NICENESS)
    archive = archive_of(find_java().home)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (archive.parent / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        for unfinished in archive.parent.glob(f".*{SUFFIX}.*"):  # of one that was killed
            unfinished.unlink(missing_ok=True)
        if not archive.exists():
            make(archive)


def make(archive: Path) -> None:
    """Write an archive, or a note why there is none, and remove old ones."""
    try:
        with replacing(archive) as unfinished:
            use(start_session(archive_to=unfinished))
            if not end_java(WRITTEN_S):
                raise TimeoutError
    except TimeoutError:
        return  # the machine had no time to spare; the next check tries again
    except Exception as error:  # whatever it is, checks work without
        archive.with_suffix(FAILED_SUFFIX).write_text(f"{type(error).__name__}: {error}\n")
    remove_old(archive.parent)


def use(session: SparkSession) -> None:
    """Do what checks do, with few rows: a Python task, files in Parquet, frames."""
    session.sparkContext.parallelize([1, 2], 1).map(str).collect()
    with tempfile.TemporaryDirectory() as directory:
        rows = session.range(10).withColumn("value", fn.col("id") % 3)
        rows.write.parquet(f"{directory}/rows")
        read = session.read.parquet(f"{directory}/rows")
        read.join(read.groupBy("value").count(), "value").orderBy("id").collect()


if __name__ == "__main__":
    main()
