"""Puts the lines of the nodes' logs on the run's clock, for the time line.

A log has times of day, with or without a date, in a zone that it does not name. The first node starts when the run
does: that gives the zone, a whole number of quarter hours. Where a fault moved a node's wall clock its lines are as
wrong as that was.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from incidents.node_logs import LogLine, stamped_lines
from reports.data.stored_run import Run

LINES_MAX: Final = 4_000
"""Lines that a page has: those that are nearest to an incident, or to the end of a run without one."""
FILES_MAX: Final = 64
_QUARTER_MS: Final = 15 * 60_000


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
    logs = [list(stamped_lines(path, day)) for path in paths if path.parent.name.isdecimal()]
    earliest_ms = min((log[0].at_ms for log in logs if log), default=0)
    zone_ms = round((earliest_ms - started_unix_ms) / _QUARTER_MS) * _QUARTER_MS
    lines = [line._replace(at_ms=line.at_ms - zone_ms - started_unix_ms) for log in logs for line in log]
    return _nearest(run, lines), max(0, len(lines) - LINES_MAX)


def _nearest(run: Run, lines: Sequence[LogLine]) -> list[LogLine]:
    """The lines that are nearest to an incident, or to the end, in the order of time."""
    moments_ms = [one.at_ns / 1e6 for one in run.incidents if one.at_ns is not None] or [run.span_ns[1] / 1e6]
    ranked = sorted(lines, key=lambda line: min(abs(line.at_ms - moment_ms) for moment_ms in moments_ms))
    return sorted(ranked[:LINES_MAX])
