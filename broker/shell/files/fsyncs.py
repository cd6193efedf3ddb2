"""Counts a node's fsyncs and the time that they take, over all its threads and log directories."""

from __future__ import annotations

import os
import threading
import time


class Fsyncs:
    """How many fsyncs of files and directories there were, and how long they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._seconds = 0.0

    def sync(self, descriptor: int) -> None:
        """Sync an open file or directory. Raises OSError."""
        began = time.perf_counter()
        os.fsync(descriptor)
        took = time.perf_counter() - began
        with self._lock:
            self._count += 1
            self._seconds += took

    def totals(self) -> tuple[int, float]:
        """The number of fsyncs so far, and the seconds that they took, summed over threads."""
        with self._lock:
            return self._count, self._seconds
