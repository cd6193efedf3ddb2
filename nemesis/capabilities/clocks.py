"""What faults need of a node's wall clock."""

from __future__ import annotations

from typing import Protocol


class WallClock(Protocol):
    """The wall clock of one node's processes. Their monotonic clock is always right. Errors are `NodeError`."""

    def bend(self, offset_ms: float, drift_ppm: int = 0) -> None:
        """Be off by so much from now on, and gain so many microseconds a second."""
        ...

    def straighten(self) -> None:
        """Be right again."""
        ...

    def error_ms(self) -> float:
        """Ask a process under this clock for the time; by how much it is off."""
        ...

    def answers(self) -> int:
        """How many times the node's processes have asked for the time so far, as far as that is counted."""
        ...

    def governs(self, pid: int) -> bool:
        """Whether the process lives by this clock."""
        ...
