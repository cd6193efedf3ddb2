"""Stores the state of a suite on disk, so that an interrupted suite can be resumed.

`store/suites/<name>/<UTC time>/`: `suite.json` (the cells, the time spent, how it ended) and `cells/<name>.json` (the
result of a cell, present once it has ended). `reports.suite` reads both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from common.atomic_files import replacing
from harness.store.run_directories import StoreError
from harness.suites.cells import Cell
from harness.suites.definition import Suite

SUITES = "suites"

Verdict = Literal["valid", "invalid", "unknown", "crashed", "skipped"]


@dataclass(frozen=True)
class CellResult:
    """The result of a cell."""

    verdict: Verdict
    reasons: tuple[str, ...]
    seconds: float
    run: str | None  # the run's directory, relative to the suite's; it contains report.html
    log: str | None  # the log of the process, relative to the suite's directory
    counts: Mapping[str, int]  # acknowledged writes, faults …
    anomalies: Mapping[str, int]  # violations by name
    again: str  # the command line that repeats it
    canary_found: bool | None = None  # None: not a canary


class SuiteState:
    """The stored state of one execution of a suite."""

    def __init__(self, directory: Path, suite: Suite, spent_s: float, *, resumed: bool) -> None:
        self.directory = directory
        self.resumed = resumed
        self._suite = suite
        self._spent_s = spent_s
        (directory / "cells").mkdir(exist_ok=True)

    @property
    def spent_s(self) -> float:
        """Seconds spent on the suite, without interruptions."""
        return self._spent_s

    def result(self, cell: Cell) -> CellResult | None:
        """The result of a cell; None if it has not ended."""
        try:
            raw = json.loads(self._file(cell).read_text())
        except FileNotFoundError:
            return None
        return CellResult(**{**raw["result"], "reasons": tuple(raw["result"]["reasons"])})

    def store_result(self, cell: Cell, result: CellResult) -> None:
        """Store the result of a cell durably."""
        _write(self._file(cell), {"cell": _plain(cell), "result": asdict(result)})

    def add_time(self, seconds: float, ended: str = "") -> None:
        """Add to the time spent; `ended` is "finished" or "interrupted" if the suite has ended."""
        self._spent_s += seconds
        _write(self.directory / "suite.json", _head(self._suite, self._spent_s, ended))

    def _file(self, cell: Cell) -> Path:
        return self.directory / "cells" / f"{cell.name}.json"


def resume_or_start(store: Path, suite: Suite, *, fresh: bool, now: datetime | None = None) -> SuiteState:
    """Resume the newest unfinished execution of exactly this file, or start one. Raises `StoreError`."""
    parent = store.absolute() / SUITES / suite.name
    try:
        parent.mkdir(parents=True, exist_ok=True)
        if not fresh and (unfinished := _unfinished(parent, suite)) is not None:
            return unfinished
        time = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        directory = parent / time
        directory.mkdir()
    except OSError as error:
        raise StoreError(
            f"expected to make a directory in the store {store}, found: {error.strerror}; choose another with --store"
        ) from error
    state = SuiteState(directory, suite, 0.0, resumed=False)
    state.add_time(0.0)
    return state


def _unfinished(parent: Path, suite: Suite) -> SuiteState | None:
    for directory in sorted(parent.iterdir(), reverse=True):
        try:
            head = json.loads((directory / "suite.json").read_text())
        except (OSError, ValueError):
            continue
        if head["ended"] == "finished" or head["digest"] != suite.digest:
            return None
        return SuiteState(directory, suite, head["spent_s"], resumed=True)
    return None


def _head(suite: Suite, spent_s: float, ended: str) -> Mapping[str, Any]:
    return {
        "name": suite.name,
        "about": suite.about,
        "budget_s": suite.budget_s,
        "spent_s": round(spent_s, 1),
        "ended": ended,
        "digest": suite.digest,
        "canary": [_plain(cell) for cell in suite.canary],
        "cells": [_plain(cell) for cell in suite.cells],
    }


def _plain(cell: Cell) -> Mapping[str, Any]:
    known = {"name": cell.name, "seeds": cell.seeds}
    return {**known, **{key: value for key, value in vars(cell).items() if key not in ("settings", "limit_s")}}


def _write(path: Path, content: object) -> None:
    with replacing(path, sync=True) as temporary:
        temporary.write_text(json.dumps(content, indent=1))
