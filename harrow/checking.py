"""`harrow.check`: the checkers' verdict on a stored run, or on a history that another tool wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from checkers.foreign.check import UnknownNameError, Wanted, check_files
from common.names import unknown
from harness.run.judging import results_of
from harness.run.stopping import MissingPrerequisite
from harrow.frames import frame_of
from history.reader import load_table
from history.schema import TABLES
from incidents import Incident

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class CheckResult:
    """The result of checking one run or one file."""

    path: Path
    verdict: Literal["valid", "invalid", "unknown"]
    reasons: tuple[str, ...]
    violations: Mapping[str, int]
    """Anomalies that broke a promise, by name."""
    within_contract: Mapping[str, int]
    """Anomalies that the configuration allows, by name; of a file of another tool always empty."""
    counts: Mapping[str, int]
    metrics: Mapping[str, Any]
    incidents: tuple[Incident, ...]
    """What went wrong, by cause, the gravest first; of a file of another tool always empty."""

    def frame(self, table: str) -> pd.DataFrame:
        """A table of the run's history, as `history/schema.py` describes it, or "anomalies": what the checkers found.

        Raises `ValueError` for other names, and for a file of another tool.
        """
        if not self.path.is_dir():
            raise ValueError(f"expected the result of a run, found that of the file {self.path}, which has no tables")
        if table not in (*TABLES, "anomalies"):
            raise ValueError(unknown(table, (*TABLES, "anomalies"), "a table of a history"))
        return frame_of(load_table(self.path, table).table)

    def row(self) -> dict[str, object]:
        """The result as one row of a frame."""
        return {
            "run": self.path.name,
            "verdict": self.verdict,
            "reason": self.reasons[0] if self.reasons else None,
            "violations": sum(self.violations.values()),
            "within_contract": sum(self.within_contract.values()),
            **{f"anomaly {name}": number for name, number in self.violations.items()},
            **self.counts,
        }


def check(
    path: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    model: str | None = None,
    profile: str | None = None,
) -> CheckResult:
    """Check a stored run, or a history of another tool, as `harrow check` does; a run's results are stored beside it.

    `spark` is a session to use; otherwise one is started, which takes seconds, and stays for later calls. `model` and
    `profile` are those of `harrow check`, for files. Raises `ValueError` with one line for a path that is no history
    and for names that do not exist, `RuntimeError` where Spark has no Java.
    """
    place = Path(path)
    if not place.exists() or (place.is_dir() and not (place / "history").is_dir()):
        raise ValueError(f"expected the directory of a run, or a history of another tool, found none at {place}")
    try:
        if place.is_dir():
            return _of_run(place, spark)
        return _of_file(place, Wanted(model, profile).validated())
    except UnknownNameError as error:
        raise ValueError(str(error)) from error
    except MissingPrerequisite as error:
        raise RuntimeError(str(error)) from error


def _of_run(place: Path, spark: SparkSession | None) -> CheckResult:
    (judged,) = results_of([place], spark)
    return CheckResult(
        path=place,
        verdict=judged.verdict,
        reasons=judged.reasons,
        violations={name: count.violations for name, count in judged.anomalies.items() if count.violations},
        within_contract={
            name: count.within_contract for name, count in judged.anomalies.items() if count.within_contract
        },
        counts=dict(judged.counts),
        metrics=dict(judged.metrics),
        incidents=judged.incidents,
    )


def _of_file(place: Path, wanted: Wanted) -> CheckResult:
    (found,) = check_files([place], wanted, results_of)
    return CheckResult(
        path=place,
        verdict=found.verdict,
        reasons=(found.reason,),
        violations={kind: found.counts.get(kind, 1) for kind in found.kinds} if found.verdict == "invalid" else {},
        within_contract={},
        counts={name: number for name, number in found.counts.items() if name not in found.kinds},
        metrics={},
        incidents=(),
    )
