"""Finds the earlier nights of a suite, and writes what the new one is compared with into its directory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from common.atomic_files import replacing
from common.names import SpecError
from harness.suites.suite_state import SUITES
from reports.suite.earlier import FILE_NAME, Earlier, EarlierResult, NightSummary, load_earlier
from reports.suite.loaded import LoadedSuite, load_suite

NIGHTS_MAX: Final = 30
"""Earlier nights that a page shows."""

_NAMED_MAX: Final = 5


def compare_with_earlier(directory: Path, since: str | None) -> Earlier:
    """Choose the night that a suite is compared with, and store what it had; returns that.

    `since` is the time in the name of its directory, or the beginning of that: the newest such night. Without it, it is
    the last one that came to its end. A suite that was resumed keeps what it was compared with, unless `since` is
    given. Raises `SpecError` if there is no such night.
    """
    if since is None and (directory / FILE_NAME).exists():
        return load_earlier(directory)
    nights = [suite for suite in _nights(directory.parent, directory.name) if suite.ended == "finished"]
    earlier = _earlier(nights, _chosen(nights, since, directory.parent.name))
    with replacing(directory / FILE_NAME, sync=True) as temporary:
        temporary.write_text(json.dumps(earlier.to_json(), indent=1), encoding="utf-8")
    return earlier


def check_since(store: Path, suite: str, since: str | None) -> None:
    """Require that there is such a night, before anything is started. Raises `SpecError`."""
    if since is not None:
        _chosen([one for one in _nights(store / SUITES / suite, "~") if one.ended == "finished"], since, suite)


def _nights(parent: Path, before: str) -> Iterator[LoadedSuite]:
    """The executions of a suite that can be read and began earlier, oldest first."""
    names = sorted(path.name for path in parent.iterdir()) if parent.is_dir() else []
    for name in names:
        if name < before:
            try:
                yield load_suite(parent / name)
            except (OSError, ValueError, KeyError, TypeError):
                continue  # it is no suite, or a damaged one


def _chosen(nights: Sequence[LoadedSuite], since: str | None, suite: str) -> LoadedSuite | None:
    if since is None:
        return nights[-1] if nights else None
    found = [night for night in nights if since and night.night.startswith(since)]
    if found:
        return found[-1]
    known = ", ".join(night.night for night in nights[-_NAMED_MAX:]) or "none"
    raise SpecError(f"--since: expected a finished night of the suite {suite}, one of {known}, found {since!r}")


def _earlier(nights: Sequence[LoadedSuite], chosen: LoadedSuite | None) -> Earlier:
    recent = nights[-NIGHTS_MAX:]
    states = [{cell.title: str(cell.state) for cell in night.cells} for night in recent]
    titles = dict.fromkeys(title for each in states for title in each)
    summaries: list[NightSummary] = [night.summary for night in recent]
    trails = {title: [each.get(title, "") for each in states] for title in titles}
    if chosen is None:
        return Earlier(nights=summaries, trails=trails)
    cells = {
        cell.title: EarlierResult(cell.state, cell.failing, cell.flaky, bool(cell.known), cell.signature)
        for cell in chosen.cells
        if cell.state not in ("skipped", "waiting")
    }
    return Earlier(chosen.night, chosen.build, cells, summaries, trails)
