"""Finds the suites, system definitions and schedules that come with Harrow, by name, beside the user's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from common.shelf import Shelf

_HERE: Final = Path(__file__).parent

SUITES: Final = Shelf("a suite", "suites", _HERE / "suites")
SYSTEMS: Final = Shelf("a system definition", "systems", _HERE / "systems")
SCHEDULES: Final = Shelf("a schedule", "schedules", _HERE / "schedules")
"""Schedules of faults for a run; those of steps for a simulation are in `simulation.directed.files`."""
