"""Stores the state of a suite on disk, so that an interrupted suite can be resumed.

`store/suites/<name>/<UTC time>/`: `suite.json` (the cells, the time spent, how it ended) and `cells/<name>.json` (the
result of a cell, present once it has ended). `reports.suite` reads both.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
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
    failed_seeds: tuple[int, ...] = ()  # of a sweep, if all of them are known
    attempts: tuple[Mapping[str, Any], ...] = ()  # verdict, reasons, run and log of each, if it was run several times


@dataclass(frozen=True)
class Night:
    """What the caller says about one execution of a suite."""

    build: str = ""  # what is tested, in the caller's words
    base: str = ""  # the address at which the suite's directory will be found


class SuiteState:
    """The stored state of one execution of a suite."""

    def __init__(self, directory: Path, suite: Suite, spent_s: float, *, resumed: bool, night: Night = Night()) -> None:
        self.directory = directory
        self.resumed = resumed
        self._night = night
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
        lists = {name: tuple(raw["result"].get(name, ())) for name in ("reasons", "failed_seeds", "attempts")}
        return CellResult(**{**raw["result"], **lists})

    def store_result(self, cell: Cell, result: CellResult) -> None:
        """Store the result of a cell durably."""
        _write(self._file(cell), {"cell": _plain(cell), "result": asdict(result)})

    def add_time(self, seconds: float, ended: str = "") -> None:
        """Add to the time spent; `ended` is "finished" or "interrupted" if the suite has ended."""
        self._spent_s += seconds
        _write(self.directory / "suite.json", _head(self._suite, self._spent_s, ended, self._night))

    def _file(self, cell: Cell) -> Path:
        return self.directory / "cells" / f"{cell.name}.json"


def resume_or_start(
    store: Path, suite: Suite, *, fresh: bool, now: datetime | None = None, night: Night = Night()
) -> SuiteState:
    """Resume the newest unfinished execution of exactly this file, or start one. Raises `StoreError`.

    One that is resumed keeps the build and the base that it was started with, unless `night` has others.
    """
    parent = store.absolute() / SUITES / suite.name
    try:
        parent.mkdir(parents=True, exist_ok=True)
        if not fresh and (unfinished := _unfinished(parent, suite, night)) is not None:
            return unfinished
        time = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        directory = parent / time
        directory.mkdir()
    except OSError as error:
        raise StoreError(
            f"expected to make a directory in the store {store}, found: {error.strerror}; choose another with --store"
        ) from error
    state = SuiteState(directory, suite, 0.0, resumed=False, night=night)
    state.add_time(0.0)
    return state


def _unfinished(parent: Path, suite: Suite, night: Night) -> SuiteState | None:
    for directory in sorted(parent.iterdir(), reverse=True):
        try:
            head = json.loads((directory / "suite.json").read_text())
        except (OSError, ValueError):
            continue
        if head["ended"] == "finished" or head["digest"] != suite.digest:
            return None
        kept = Night(night.build or head.get("build", ""), night.base or head.get("base", ""))
        return SuiteState(directory, suite, head["spent_s"], resumed=True, night=kept)
    return None


def _head(suite: Suite, spent_s: float, ended: str, night: Night) -> Mapping[str, Any]:
    return {
        "name": suite.name,
        "about": suite.about,
        "budget_s": suite.budget_s,
        "spent_s": round(spent_s, 1),
        "ended": ended,
        "digest": suite.digest,
        "build": night.build,
        "base": night.base,
        "machine": {
            "harrow": metadata.version("harrow"),
            "python": platform.python_version(),
            "system": platform.platform(),
            "host": platform.node(),
        },
        "known_failures": [entry.to_json() for entry in suite.known_failures],
        "canary": [_plain(cell) for cell in suite.canary],
        "cells": [_plain(cell) for cell in suite.cells],
    }


def _plain(cell: Cell) -> Mapping[str, Any]:
    known = {"name": cell.name, "seeds": cell.seeds}
    return {**known, **{key: value for key, value in vars(cell).items() if key not in ("settings", "limit_s")}}


def _write(path: Path, content: object) -> None:
    with replacing(path, sync=True) as temporary:
        temporary.write_text(json.dumps(content, indent=1))
