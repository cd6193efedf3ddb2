"""Chooses stored runs to remove, by age, number and size: what passed goes first, what failed stays longest.

Only runs in `store/runs/` are touched. Never removed: the run that `latest` names, a run in progress, a run that
`harrow heal` has not cleaned up, and whatever is no run: files, links, directories without a time in their name or a
`spec.json`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from harness.environments.machine.kernel import process_identity
from harness.store.journal import Entry, is_finished, read_journal
from harness.store.run_directories import LATEST, RUNS

_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-.+")
_TIME: Final = "%Y%m%dT%H%M%SZ"
_SETTLED_AFTER: Final = timedelta(hours=1)
"""A run without journal and results that was written to more recently may be in progress."""


@dataclass(frozen=True)
class PrunableRun:
    """One run of a store."""

    directory: Path
    made: datetime
    size_bytes: int
    """The sum of its files' sizes."""
    failing: bool
    protected: str
    """Why it must stay; empty if it may be removed."""


@dataclass(frozen=True)
class Limits:
    """What may stay; None is no limit."""

    older_than: timedelta | None = None
    """For runs that do not fail."""
    failing_older_than: timedelta | None = None
    runs_max: int | None = None
    size_max_bytes: int | None = None


@dataclass(frozen=True)
class Removal:
    """A run that a limit hits, and which."""

    run: PrunableRun
    why: str


def stored_runs(store: Path, now: datetime) -> list[PrunableRun]:
    """All runs in `store/runs/`, oldest first."""
    newest = (store / LATEST).resolve()
    found = []
    for directory in sorted((store / RUNS).iterdir()) if (store / RUNS).is_dir() else ():
        made = _made(directory)
        if made is not None:
            failing = _is_failing(directory)
            found.append(PrunableRun(directory, made, _size(directory), failing, why_kept(directory, newest, now)))
    return sorted(found, key=lambda run: (run.made, run.directory.name))


def to_remove(runs: Sequence[PrunableRun], limits: Limits, now: datetime) -> list[Removal]:
    """The runs to remove, in this order: what does not fail before what fails, oldest first."""
    removals: list[Removal] = []
    left = sorted((run for run in runs if not run.protected), key=lambda run: (run.failing, run.made))

    def remove(which: Callable[[PrunableRun], bool], why: str) -> None:
        for run in [run for run in left if which(run)]:
            left.remove(run)
            removals.append(Removal(run, why))

    for failing, age in ((False, limits.older_than), (True, limits.failing_older_than)):
        if age is not None:
            oldest = now - age
            remove(lambda run: run.failing is failing and run.made < oldest, "age")  # noqa: B023 (called at once)
    protected = [run for run in runs if run.protected]
    if limits.runs_max is not None:
        excess = len(left) + len(protected) - limits.runs_max
        surplus = left[: max(0, excess)]
        remove(lambda run: run in surplus, "number")
    if limits.size_max_bytes is not None:
        while left and sum(run.size_bytes for run in (*left, *protected)) > limits.size_max_bytes:
            first = left[0]
            remove(lambda run: run is first, "size")  # noqa: B023 (called at once)
    return sorted(removals, key=lambda removal: (removal.run.failing, removal.run.made))


def why_kept(directory: Path, newest: Path, now: datetime) -> str:
    """Why a run must stay: `newest` is the one that `latest` names; empty if it may be removed."""
    if directory.resolve() == newest:
        return "latest"
    try:
        entries = list(read_journal(directory))
    except OSError:
        return "its journal cannot be read"
    if any(entry["kind"] == "opened" and _is_alive(entry) for entry in entries):
        return "in progress"
    if not is_finished(entries):
        return "not healed: see `harrow heal`"
    if not entries and not (directory / "results.json").exists() and now - _written(directory) < _SETTLED_AFTER:
        return "in progress"
    return ""


def _made(directory: Path) -> datetime | None:
    """When a run was made, by its name; None for what is no run."""
    named = _NAME.fullmatch(directory.name)
    if named is None or directory.is_symlink() or not (directory / "spec.json").is_file():
        return None
    try:
        return datetime.strptime(named[1], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def _is_failing(directory: Path) -> bool:
    """Whether a run is not known to be valid or undecided: results that cannot be read may be those of a failure."""
    try:
        results = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    return not isinstance(results, dict) or results.get("verdict") not in ("valid", "unknown")


def _is_alive(opened: Entry) -> bool:
    pid, started = opened.get("pid"), opened.get("start_time")
    return isinstance(pid, int) and isinstance(started, int) and process_identity.exists(pid, started)


def _size(directory: Path) -> int:
    return sum(status.st_size for status in _files(directory) if not S_ISDIR(status.st_mode))


def _written(directory: Path) -> datetime:
    times = [status.st_mtime for status in _files(directory)]
    return datetime.fromtimestamp(max(times, default=0), UTC)


def _files(directory: Path) -> Iterator[os.stat_result]:
    """The state of a directory and all in it, without what vanishes meanwhile."""
    for path in (directory, *directory.rglob("*")):
        with suppress(OSError):
            yield path.lstat()
