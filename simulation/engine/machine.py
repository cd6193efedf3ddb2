"""A machine of the simulated cluster: disk, clock and the process of one node of Harrow's broker."""

from __future__ import annotations

from collections.abc import Hashable

from broker.core.ports.events import Event
from broker.core.ports.runtime import Node
from broker.core.settings import Settings
from simulation.engine.clock import NodeClock
from simulation.engine.disk import SimulatedDisk


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
        "settings",
        "timers",
    )

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.disk = SimulatedDisk()
        self.clock = NodeClock()
        self.node: Node | None = None
        self.incarnation = 0
        self.paused = False
        self.backlog: list[Event] = []
        self.timers: dict[Hashable, int] = {}
        self.fsync_us = 500
        self.exit_status: int | None = None
