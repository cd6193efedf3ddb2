"""Puts the lines of the nodes' logs on the run's clock, for the time line.

A log has times of day, with or without a date, in a zone that it does not name. The first node starts when the run
does: that gives the zone, a whole number of quarter hours. Where a fault moved a node's wall clock its lines are as
wrong as that was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from common.wording import printable
from reports.data.stored_run import Run

LINES_MAX: Final = 4_000
"""Lines that a page has: those that are nearest to an incident, or to the end of a run without one."""
TEXT_CHARACTERS: Final = 240
FILES_MAX: Final = 64
_READ_BYTES: Final = 4 << 20
_STAMP_WITHIN: Final = 60
_STAMP: Final = re.compile(r"\[?(?:(\d{4}-\d\d-\d\d)[ T])?([01]\d|2[0-3]):([0-5]\d):([0-5]\d)[.,](\d{3})\]?")
_QUARTER_MS: Final = 15 * 60_000
_DAY_MS: Final = 24 * 3_600_000


class LogLine(NamedTuple):
    """A line of a node's log. `at_ms` is on the run's clock."""

    at_ms: int
    node: int
    text: str


def lines_on_the_clock(run: Run) -> tuple[Sequence[LogLine], int]:
    """Return the lines with a time, in its order, and how many others were left out because there are too many.

    The end of each log is read, 4 MiB at most. No content of a log raises.
    """
    started_unix_ms = run.settings.get("started_unix_ms")
    if not isinstance(started_unix_ms, int):
        return [], 0
    try:
        day = datetime.fromtimestamp(started_unix_ms / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    except (OverflowError, OSError, ValueError):
        return [], 0
    paths = sorted((run.directory / "nodes").glob("*/*.log"))[:FILES_MAX]
    logs = [list(_stamped(path, day)) for path in paths if path.parent.name.isdecimal()]
    earliest_ms = min((log[0].at_ms for log in logs if log), default=0)
    zone_ms = round((earliest_ms - started_unix_ms) / _QUARTER_MS) * _QUARTER_MS
    lines = [line._replace(at_ms=line.at_ms - zone_ms - started_unix_ms) for log in logs for line in log]
    return _nearest(run, lines), max(0, len(lines) - LINES_MAX)


def _stamped(path: Path, day: datetime) -> Iterator[LogLine]:
    """The lines of a log that have a time, as if that were in UTC; a time without a date that goes back is tomorrow."""
    later_ms = before_ms = 0
    for line in _text(path).splitlines():
        found = _STAMP.search(line, 0, _STAMP_WITHIN)
        if found is None:
            continue
        date, hours, minutes, seconds, thousandths = found.groups()
        of_day = timedelta(
            hours=int(hours), minutes=int(minutes), seconds=int(seconds), milliseconds=int(thousandths)
        )  # fmt: skip
        try:
            began = datetime.fromisoformat(f"{date}T00:00:00+00:00") if date else day
        except ValueError:
            continue
        at_ms = round((began + of_day).timestamp() * 1000) + (0 if date else later_ms)
        if not date and at_ms < before_ms - _DAY_MS // 2:
            later_ms += _DAY_MS
            at_ms += _DAY_MS
        before_ms = at_ms
        text = printable(" ".join(f"{line[: found.start()]}{line[found.end() :]}".split()))
        cut = text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]}…"
        yield LogLine(at_ms, int(path.parent.name), cut)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _READ_BYTES))
            return file.read(_READ_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _nearest(run: Run, lines: Sequence[LogLine]) -> list[LogLine]:
    """The lines that are nearest to an incident, or to the end, in the order of time."""
    moments_ms = [one.at_ns / 1e6 for one in run.incidents if one.at_ns is not None] or [run.span_ns[1] / 1e6]
    ranked = sorted(lines, key=lambda line: min(abs(line.at_ms - moment_ms) for moment_ms in moments_ms))
    return sorted(ranked[:LINES_MAX])
