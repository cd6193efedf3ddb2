"""What is known of a suite that goes on, on the disk, so that it can be gone on with after an interruption.

`store/suites/<name>/<UTC time>/`: `suite.json` (what is to be run, how much time was spent, how it ended) and
`cells/<name>.json` (what came of a cell; there once it has ended). Both are contracts with `reports.suite`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from harness.store.durable import sync_directory
from harness.store.store import StoreError
from harness.suites.cells import Cell
from harness.suites.definition import Suite

SUITES = "suites"

Verdict = Literal["valid", "invalid", "unknown", "crashed", "skipped"]


@dataclass(frozen=True)
class Result:
    """What came of a cell."""

    verdict: Verdict
    reasons: tuple[str, ...]
    seconds: float
    run: str | None  # the run's directory, relative to the suite's; its page is report.html there
    log: str | None  # what the process said, likewise
    counts: Mapping[str, int]  # acknowledged writes, faults …
    anomalies: Mapping[str, int]  # violations by name
    again: str  # command line
    canary_found: bool | None = None  # of a canary


class State:
    """One performance of a suite."""

    def __init__(self, directory: Path, suite: Suite, spent_s: float, *, resumed: bool) -> None:
        self.directory = directory
        self.resumed = resumed
        self._suite = suite
        self._spent_s = spent_s
        (directory / "cells").mkdir(exist_ok=True)

    @property
    def spent_s(self) -> float:
        """Seconds that were spent on it, interruptions apart."""
        return self._spent_s

    def result(self, cell: Cell) -> Result | None:
        """What came of a cell; None if it has not ended."""
        try:
            raw = json.loads(self._file(cell).read_text())
        except FileNotFoundError:
            return None
        return Result(**{**raw["result"], "reasons": tuple(raw["result"]["reasons"])})

    def ended(self, cell: Cell, result: Result) -> None:
        """Keep what came of a cell, for good."""
        _write(self._file(cell), {"cell": _plain(cell), "result": asdict(result)})

    def spent(self, seconds: float, ended: str = "") -> None:
        """Count time; `ended` says how it ended, if it has: "finished" or "interrupted"."""
        self._spent_s += seconds
        _write(self.directory / "suite.json", _head(self._suite, self._spent_s, ended))

    def _file(self, cell: Cell) -> Path:
        return self.directory / "cells" / f"{cell.name}.json"


def begin(store: Path, suite: Suite, *, fresh: bool, now: datetime | None = None) -> State:
    """Go on with the newest performance of this very file that has not finished, or begin one. Raises `StoreError`."""
    place = store.absolute() / SUITES / suite.name
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not fresh and (unfinished := _unfinished(place, suite)) is not None:
            return unfinished
        time = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        directory = place / time
        directory.mkdir()
    except OSError as error:
        raise StoreError(
            f"expected to make a directory in the store {store}, found: {error.strerror}; choose another with --store"
        ) from error
    state = State(directory, suite, 0.0, resumed=False)
    state.spent(0.0)
    return state


def _unfinished(place: Path, suite: Suite) -> State | None:
    for directory in sorted(place.iterdir(), reverse=True):
        try:
            head = json.loads((directory / "suite.json").read_text())
        except (OSError, ValueError):
            continue
        if head["ended"] == "finished" or head["digest"] != suite.digest:
            return None
        return State(directory, suite, head["spent_s"], resumed=True)
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
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with fresh.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_directory(path.parent)
