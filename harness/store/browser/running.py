"""Finds what writes into the store now, for the browser's page of it: runs, suites with their cells, sweeps."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.store import progress
from harness.store.browser.files import names_in, read_file
from harness.store.browser.index import SUITES
from harness.store.run_directories import RUNS
from reports.browser.progress import Running, RunningNow

FILES_MAX: Final = 100
"""Progress files of one directory that are read."""

_SUITE: Final = re.compile(rf"{SUITES}/[^/.][^/]*/[^/.][^/]*")


def running_now(store: Path, runs: Collection[str]) -> RunningNow:
    """What is under way in a store that has these runs. Files that are damaged are counted, and hurt no other."""
    found, damaged = _read(store, progress.DIRECTORY, runs)
    with_cells = []
    for each, directory in found:
        cells: Sequence[Running] = ()
        if each.kind == "suite" and _SUITE.fullmatch(directory):
            below, _ = _read(store, f"{directory}/{progress.DIRECTORY}", ())
            cells = [cell for cell, _ in below if cell.life == "live"]
        with_cells.append(replace(each, cells=tuple(cells)))
    return RunningNow(with_cells, damaged)


def is_running(store: Path) -> bool:
    """Whether anything is under way."""
    found, _ = _read(store, progress.DIRECTORY, ())
    return any(each.life == "live" for each, _ in found)


def _read(store: Path, directory: str, runs: Collection[str]) -> tuple[list[tuple[Running, str]], int]:
    """What the files of a directory say, the oldest first, each with its directory; and how many are damaged."""
    now_ms = time.time_ns() // 1_000_000
    found = []
    damaged = 0
    names = [name for name in names_in(store, directory) if name.endswith(".json")]
    for name in names[:FILES_MAX]:
        file = read_file(store, f"{directory}/{name}", progress.SIZE_MAX_BYTES)
        told = None if file is None else progress.parse(file.content)
        if told is None:
            damaged += file is not None or name in names_in(store, directory)  # it may just have ended
            continue
        found.append((_shown(told, now_ms, runs), told.directory, told.started_unix_ms, told.pid))
    found.sort(key=lambda each: each[2:])
    return [(each, place) for each, place, *_ in found], damaged


def _shown(told: progress.Progress, now_ms: int, runs: Collection[str]) -> Running:
    return Running(
        kind=told.kind,
        title=told.title,
        life=progress.life(told, now_ms),
        phase=told.phase,
        detail=told.detail,
        share=told.share,
        left_s=told.left_s,
        since_s=max(0.0, (now_ms - told.started_unix_ms) / 1000),
        told_s=max(0.0, (now_ms - told.told_unix_ms) / 1000),
        link=_link(told, runs),
    )


def _link(told: progress.Progress, runs: Collection[str]) -> str:
    """The page of what is under way, if there is one; built from names that the store has."""
    place, _, name = told.directory.partition("/")
    if told.kind == "run" and place == RUNS and name in runs:
        return f"/runs/{name}"
    if told.kind == "suite" and _SUITE.fullmatch(told.directory):
        return f"/store/{told.directory}/index.html"
    return ""
