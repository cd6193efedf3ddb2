"""Directed schedules: exact steps, executed on the simulated cluster with nothing left to chance.

A schedule file shows how one flaw does its harm: which node is cut off, which message is held back, which node crashes
when. On the flawed build it ends with a finding; on the correct build the same steps end well. `schedules` lists the
files, `play_schedule` executes one.
"""

from __future__ import annotations

from simulation.directed.files import DirectedSchedule, DirectedScheduleError, load, schedules
from simulation.directed.runner import ScheduleResult, play_schedule

__all__ = ["DirectedSchedule", "DirectedScheduleError", "ScheduleResult", "load", "play_schedule", "schedules"]
