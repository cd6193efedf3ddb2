"""Keeps an index of the store's runs and suites in memory; what changes on disk is read again, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from harness.store.run_directories import RUNS
from reports.browser.entries import RunEntry, read_entry
from reports.browser.pages import SuiteNights
from reports.suite.loaded import LoadedSuite, load_suite
from reports.text.difference import Comparison, compare

SUITES: Final = "suites"
COMPARISONS_MAX: Final = 64
NIGHTS_MAX: Final = 60
"""Nights of a suite that are shown, the newest."""

_WATCHED: Final = ("results.json", "spec.json", "report.html")

_Stamp = tuple[tuple[int, int], ...]


class StoreIndex:
    """The runs and suites of a store. Safe to use from several threads."""

    def __init__(self, store: Path) -> None:
        self.store = store.resolve()
        self._lock = Lock()
        self._runs: dict[str, tuple[_Stamp, RunEntry]] = {}
        self._nights: dict[Path, tuple[_Stamp, LoadedSuite | None]] = {}
        self._compared: dict[tuple[tuple[str, str], _Stamp], Comparison] = {}

    def runs(self) -> Sequence[RunEntry]:
        """All runs, newest first; those without a time in their name come last."""
        with self._lock:
            fresh = {}
            for directory in _directories(self.store / RUNS):
                stamp = _stamp(directory, _WATCHED)
                known = self._runs.get(directory.name)
                fresh[directory.name] = (
                    known if known is not None and known[0] == stamp else (stamp, read_entry(directory))
                )
            self._runs = fresh
            entries = [entry for _, entry in fresh.values()]
        return sorted(entries, key=lambda entry: (entry.made is not None, entry.name), reverse=True)

    def run(self, name: str) -> RunEntry | None:
        """The run of this name."""
        return next((entry for entry in self.runs() if entry.name == name), None)

    def directory(self, run: RunEntry) -> Path:
        """The directory of a run of this index."""
        return self.store / RUNS / run.name

    def compared(self, one: RunEntry, other: RunEntry) -> Comparison:
        """What differs between two runs."""
        directories = self.directory(one), self.directory(other)
        key = (one.name, other.name), tuple(mark for each in directories for mark in _stamp(each, _WATCHED))
        with self._lock:
            if key in self._compared:
                return self._compared[key]
        comparison = compare(*directories)
        with self._lock:
            self._compared[key] = comparison
            while len(self._compared) > COMPARISONS_MAX:
                del self._compared[next(iter(self._compared))]
        return comparison

    def suites(self) -> Sequence[SuiteNights]:
        """All suites, by name."""
        with self._lock:
            fresh: dict[Path, tuple[_Stamp, LoadedSuite | None]] = {}
            found = []
            for parent in _directories(self.store / SUITES):
                nights: list[LoadedSuite] = []
                damaged = []
                for directory in reversed(_directories(parent)[-NIGHTS_MAX:]):
                    stamp = _stamp(directory, ("suite.json", "before.json", "cells", "runs"))
                    known = self._nights.get(directory)
                    fresh[directory] = known if known is not None and known[0] == stamp else (stamp, _night(directory))
                    suite = fresh[directory][1]
                    if suite is None:
                        damaged.append(directory.name)
                    else:
                        nights.append(suite)
                found.append(SuiteNights(parent.name, nights, damaged))
            self._nights = fresh
            return found


def _night(directory: Path) -> LoadedSuite | None:
    try:
        suite = load_suite(directory)
        _ = suite.sentence, suite.verdict, suite.changes
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # no suite, or a damaged one
    return suite


def _directories(parent: Path) -> list[Path]:
    """The directories in another one by name, links left out."""
    try:
        return sorted(path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def _stamp(directory: Path, names: Sequence[str]) -> _Stamp:
    """Size and time of change of some files; what is not there is 0."""
    marks = []
    for name in names:
        mark = (0, 0)
        with suppress(OSError):
            status = (directory / name).stat()
            mark = (status.st_mtime_ns, status.st_size)
        marks.append(mark)
    return tuple(marks)
