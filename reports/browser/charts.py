"""Draws the trends of the store browser: one small chart a figure, a point a run, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from reports.browser.entries import FIGURES, RunEntry

WIDTH: Final = 640
HEIGHT: Final = 120
POINTS_MAX: Final = 500
"""The newest runs; more points could not be told apart."""


class Point(NamedTuple):
    """One run."""

    x: float
    y: float
    name: str
    verdict: str
    value: float


class Chart(NamedTuple):
    """One figure over the runs, oldest on the left."""

    title: str
    points: Sequence[Point]
    top: float
    """The value at the upper edge; the lower edge is 0."""
    median: float


def charts(entries: Sequence[RunEntry]) -> list[Chart]:
    """A chart for each figure that some run has; `entries` come newest first."""
    found = []
    for key, title in FIGURES.items():
        having = [entry for entry in reversed(entries) if key in entry.numbers][-POINTS_MAX:]
        if having:
            values = sorted(entry.numbers[key] for entry in having)
            top = values[-1] or 1.0
            step = WIDTH / len(having)
            points = [
                Point(
                    round((number + 0.5) * step, 1),
                    round(HEIGHT * (1 - entry.numbers[key] / top), 1),
                    entry.name,
                    entry.verdict,
                    entry.numbers[key],
                )
                for number, entry in enumerate(having)
            ]
            found.append(Chart(title, points, top, values[len(values) // 2]))
    return found
