"""A node's own clock: virtual time, but shifted, faster or slower."""

from __future__ import annotations

from simulation.engine.event_queue import MS


class NodeClock:
    """Milliseconds of a node's monotonic clock as a function of virtual time in microseconds.

    `drift_ppm`: parts in a million by which it is faster (or slower). A jump moves the clock forward only, as a
    monotonic clock may jump after its machine slept.
    """

    __slots__ = ("drift_ppm", "origin_ms", "origin_us")

    def __init__(self, drift_ppm: int = 0) -> None:
        self.drift_ppm = drift_ppm
        self.origin_us = 0
        self.origin_ms = 0

    def now_ms(self, virtual_us: int) -> int:
        """The reading of the clock."""
        elapsed = virtual_us - self.origin_us
        return self.origin_ms + (elapsed + elapsed * self.drift_ppm // 1_000_000) // MS

    def virtual_us(self, clock_ms: int, now_us: int) -> int:
        """The virtual time at which the clock reads `clock_ms`; now, if it is past that already."""
        wanted = (clock_ms - self.origin_ms) * MS
        elapsed = -(-wanted * 1_000_000 // (1_000_000 + self.drift_ppm))
        return max(now_us, self.origin_us + elapsed)

    def jump(self, virtual_us: int, by_ms: int) -> None:
        """Move the clock forward."""
        self.origin_ms = self.now_ms(virtual_us) + by_ms
        self.origin_us = virtual_us
