"""The nemesis's monotonic clock, and waiting for a condition with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

POLL_S = 0.05
"""Interval between two checks of a condition."""


class Clock(Protocol):
    """The run's clock."""

    def now_ns(self) -> int:
        """Nanoseconds since the run's origin."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


@dataclass(frozen=True)
class NemesisClock:
    """The run's clock, in real time."""

    now: Callable[[], int]
    """Nanoseconds since the run's origin."""

    def now_ns(self) -> int:
        """Nanoseconds since the run's origin."""
        return self.now()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def becomes_true(clock: Clock, condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll a condition until it holds or the deadline has passed. The last check is at the deadline."""
    deadline_ns = clock.now_ns() + int(timeout_s * 1e9)
    while not condition():
        if clock.now_ns() >= deadline_ns:
            return condition()
        clock.sleep(POLL_S)
    return True
