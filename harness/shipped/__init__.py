"""Suites, system definitions and schedules that come with Harrow, found by their names beside files of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from naming.shelf import Shelf

_HERE: Final = Path(__file__).parent

SUITES: Final = Shelf("a suite", "suites", _HERE / "suites")
SYSTEMS: Final = Shelf("a system definition", "systems", _HERE / "systems")
SCHEDULES: Final = Shelf("a schedule", "schedules", _HERE / "schedules")
"""Schedules of faults for a run; those that are played in steps are `simulation.directed.files.STORIES`."""
