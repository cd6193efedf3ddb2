"""Reads the one clock of a run."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class RunClock:
    """Nanoseconds since the run's origin on `CLOCK_MONOTONIC`, which all processes of a machine share.

    Every process of a run gets the same `origin_ns` (the harness's `time.monotonic_ns()` at its start), so
    their times compare without correction, and no fault of the wall clock can reach them.
    """

    origin_ns: int

    @classmethod
    def starting_now(cls) -> RunClock:
        """Make the clock of a run that starts at this moment."""
        return cls(time.monotonic_ns())

    def now(self) -> int:
        """Nanoseconds since the origin."""
        return time.monotonic_ns() - self.origin_ns

    def origin_unix_ms(self) -> int:
        """The time of day at the origin, by the wall clock as it is now: milliseconds since 1970."""
        return (time.time_ns() - self.now()) // 1_000_000
