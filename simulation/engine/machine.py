"""A machine of the simulated cluster: disk, clock and the process of one node of Harrow's broker."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from broker.core.configuration.settings import Settings
from broker.core.ports.events import Event
from broker.core.ports.runtime import Node
from simulation.engine.disk import SimulatedDisk
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


class SimulatedMachine:
    """One node's computer: disk, clock, process."""

    __slots__ = (
        "backlog",
        "clock",
        "disk",
        "exit_status",
        "fsync_us",
        "incarnation",
        "node",
        "paused",
        "resumed_us",
        "settings",
        "time_ahead_ms",
        "time_of_day_ahead_ms",
        "timers",
        "when_power_fails",
    )

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.disk = SimulatedDisk()
        self.clock = NodeClock()
        self.node: Node | None = None
        self.incarnation = 0
        self.paused = False
        self.resumed_us = 0
        """When the process was last resumed, in virtual microseconds."""

        self.backlog: list[tuple[Event, int | None]] = []
        """What came while the process was frozen; of a timer also when it was due, in virtual microseconds."""

        self.timers: dict[Hashable, int] = {}
        self.fsync_us = 500
        self.time_ahead_ms = 0  # of the machine's time of day before virtual time
        self.time_of_day_ahead_ms = 0  # of the process's before its monotonic clock
        self.exit_status: int | None = None
        self.when_power_fails: Callable[[], None] = lambda: None

    def started_at_ms(self, virtual_us: int) -> int:
        """The time of day at which a process starts, in ms; from then on it follows the process's monotonic clock."""
        started_ms = virtual_us // MS + self.time_ahead_ms
        self.time_of_day_ahead_ms = started_ms - self.clock.now_ms(virtual_us)
        return started_ms

    def time_of_day_ms(self, virtual_us: int) -> int:
        """The time of day for the present process, in ms."""
        return self.clock.now_ms(virtual_us) + self.time_of_day_ahead_ms
