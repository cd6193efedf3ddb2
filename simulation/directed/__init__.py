"""Exact schedules: a story in steps, played on the simulated world with nothing left to chance.

A schedule file tells how one flaw does its harm: who is cut off, which message is held back, who crashes when. Played
on the flawed build it ends with a finding; the same steps on the correct build end well. `schedules` lists the files,
`run` plays one.
"""

from __future__ import annotations

from simulation.directed.files import Schedule, ScheduleError, load, schedules
from simulation.directed.runner import Result, run

__all__ = ["Result", "Schedule", "ScheduleError", "load", "run", "schedules"]
