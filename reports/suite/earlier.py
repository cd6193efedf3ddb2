"""What a suite knows of its earlier nights: the results that it is compared with, and the course of each run.

`before.json` in the suite's directory has it, so that the page can be written again when those nights are gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE_NAME: Final = "before.json"


class EarlierResult(NamedTuple):
    """The result that a run had in the night that a suite is compared with."""

    state: str
    failing: bool
    flaky: bool
    known: bool
    signature: tuple[str, ...]
    """What failed: the anomalies, or the state of a run without any."""

    @property
    def counted(self) -> bool:
        """Whether it was a failure that nobody excused."""
        return self.failing and not self.known


class NightSummary(NamedTuple):
    """One earlier night, in numbers."""

    night: str
    """The name of its directory: a time in UTC."""
    build: str
    verdict: str
    counts: Mapping[str, int]
    """Runs by state; besides `flaky` and `known`, which are among the failing ones."""
    spent_s: float
    acknowledged: int


@dataclass(frozen=True)
class Earlier:
    """All that is known of earlier nights."""

    night: str = ""
    """The night that is compared with; empty if there is none."""
    build: str = ""
    cells: Mapping[str, EarlierResult] = field(default_factory=dict)
    """Results of that night, by the title of the run."""
    nights: Sequence[NightSummary] = ()
    """Oldest first."""
    trails: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Title of a run -> its state in each of `nights`; empty where it was not there."""

    def to_json(self) -> dict[str, Any]:
        """Plain data for `before.json`."""
        return {
            "night": self.night,
            "build": self.build,
            "cells": {title: result._asdict() for title, result in self.cells.items()},
            "nights": [night._asdict() for night in self.nights],
            "trails": {title: list(states) for title, states in self.trails.items()},
        }


def load_earlier(directory: Path) -> Earlier:
    """Read what a suite knows of earlier nights; nothing if it was never compared. Raises `ValueError`."""
    try:
        plain = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Earlier()
    cells = {
        title: EarlierResult(**{**result, "signature": tuple(result["signature"])})
        for title, result in plain["cells"].items()
    }
    nights = [NightSummary(**night) for night in plain["nights"]]
    return Earlier(plain["night"], plain["build"], cells, nights, plain["trails"])
