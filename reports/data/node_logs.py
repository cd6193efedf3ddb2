"""Chooses the lines of the nodes' logs that the time line shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from incidents.node_logs import LogLine
from reports.data.stored_run import Run

LINES_MAX: Final = 4_000
"""Lines that a page has: those that are nearest to an incident, or to the end of a run without one."""


def lines_to_show(run: Run, lines: Sequence[LogLine]) -> tuple[Sequence[LogLine], int]:
    """Of all lines return those that are shown, in the order of time, and how many others are left out."""
    return _nearest(run, lines), max(0, len(lines) - LINES_MAX)


def _nearest(run: Run, lines: Sequence[LogLine]) -> list[LogLine]:
    """The lines that are nearest to an incident, or to the end, in the order of time."""
    moments_ms = [one.at_ns / 1e6 for one in run.incidents if one.at_ns is not None] or [run.span_ns[1] / 1e6]
    ranked = sorted(lines, key=lambda line: min(abs(line.at_ms - moment_ms) for moment_ms in moments_ms))
    return sorted(ranked[:LINES_MAX])
