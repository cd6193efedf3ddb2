"""Skews the real clock of a VM of the run: sets it, and sets it repeatedly while it drifts.

It is the clock of the whole machine. Its monotonic clock is not changed: `adjtimex` would skew both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from nemesis.capabilities.cluster import NodeError

_NS_PER_MS = 1_000_000
_STEP_S = 0.02
"""How often a drifting clock is set."""


class VmClock:
    """The machine's clock (`nemesis.capabilities.cluster.WallClock`)."""

    def __init__(self) -> None:
        self._true_ns = time.time_ns() - time.monotonic_ns()  # wall clock minus monotonic clock
        self._lock = threading.Lock()
        self._since_ns = time.monotonic_ns()
        self._offset_ns = 0
        self._drift_ppm = 0
        self._changed = threading.Event()
        threading.Thread(target=self._keep_drifting, name="drift", daemon=True).start()

    @property
    def environment(self) -> Mapping[str, str]:
        """Nothing is needed: every process of the machine uses this clock."""
        return {}

    def bend(self, offset_ms: float, drift_ppm: int = 0) -> None:
        """Set the clock's offset, and its drift in microseconds per second, from now on."""
        with self._lock:
            self._since_ns = time.monotonic_ns()
            self._offset_ns = int(offset_ms * _NS_PER_MS)
            self._drift_ppm = drift_ppm
            self._set()
        self._changed.set()

    def straighten(self) -> None:
        """Remove offset and drift."""
        self.bend(0.0)

    def error_ms(self) -> float:
        """Measure the error of the kernel's clock."""
        return (time.time_ns() - time.monotonic_ns() - self._true_ns) / _NS_PER_MS

    def answers(self) -> int:
        """Always 0: reads of the kernel's clock are not counted."""
        return 0

    def governs(self, pid: int) -> bool:  # noqa: ARG002
        """Always true: all processes use it."""
        return True

    def _set(self) -> None:
        now_ns = time.monotonic_ns()
        gained_ns = (now_ns - self._since_ns) * self._drift_ppm // 1_000_000
        try:
            time.clock_settime_ns(time.CLOCK_REALTIME, self._true_ns + now_ns + self._offset_ns + gained_ns)
        except OSError as error:
            raise NodeError(f"expected to set the machine's clock, found: {error}") from error

    def _keep_drifting(self) -> None:
        while True:
            self._changed.wait()
            with self._lock:
                if not self._drift_ppm:
                    self._changed.clear()
                    continue
                self._set()
            time.sleep(_STEP_S)
