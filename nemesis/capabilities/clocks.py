"""The interface by which faults set a node's wall clock wrong."""

from __future__ import annotations

from typing import Protocol


class WallClock(Protocol):
    """The wall clock of one node's processes. Their monotonic clock is always right. Errors are `NodeError`."""

    def bend(self, offset_ms: float, drift_ppm: int = 0) -> None:
        """Be off by `offset_ms` from now on, and gain `drift_ppm` microseconds per second."""
        ...

    def straighten(self) -> None:
        """Set the clock right."""
        ...

    def error_ms(self) -> float:
        """Ask a process that uses this clock for the time; returns how much it is off."""
        ...

    def answers(self) -> int:
        """How many times the node's processes have read the clock so far, where that is counted."""
        ...

    def governs(self, pid: int) -> bool:
        """Whether the process uses this clock."""
        ...
