"""A node's own clock: virtual time, but shifted, faster or slower."""

from __future__ import annotations

from simulation.engine.event_queue import MS


class NodeClock:
    """Milliseconds of a node's monotonic clock as a function of world time in microseconds.

    `drift_ppm` parts in a million faster (or slower); a jump moves the clock forward only, as a monotonic clock may
    after a machine slept.
    """

    __slots__ = ("drift_ppm", "origin_ms", "origin_us")

    def __init__(self, drift_ppm: int = 0) -> None:
        self.drift_ppm = drift_ppm
        self.origin_us = 0
        self.origin_ms = 0

    def now_ms(self, virtual_us: int) -> int:
        """What the clock shows."""
        elapsed = virtual_us - self.origin_us
        return self.origin_ms + (elapsed + elapsed * self.drift_ppm // 1_000_000) // MS

    def virtual_us(self, clock_ms: int, now_us: int) -> int:
        """When the clock will show `clock_ms`; now, if it does already."""
        wanted = (clock_ms - self.origin_ms) * MS
        elapsed = -(-wanted * 1_000_000 // (1_000_000 + self.drift_ppm))
        return max(now_us, self.origin_us + elapsed)

    def jump(self, virtual_us: int, by_ms: int) -> None:
        """Move the clock forward."""
        self.origin_ms = self.now_ms(virtual_us) + by_ms
        self.origin_us = virtual_us
