"""Injects disk trouble into requests of the forgetful file system: errors, stalls, slowness and false syncs."""

from __future__ import annotations

import errno
import os
import threading
from typing import Literal

from nemesis.capabilities.disks import Trouble

Request = Literal["read", "write", "fsync", "create"]

_FAILS: dict[Trouble, tuple[frozenset[Request], int]] = {
    "full": (frozenset({"write", "create"}), errno.ENOSPC),
    "read-error": (frozenset({"read"}), errno.EIO),
    "write-error": (frozenset({"write", "create"}), errno.EIO),
    "fsync-error": (frozenset({"fsync"}), errno.EIO),
    "error": (frozenset({"read", "write", "fsync", "create"}), errno.EIO),
}


class Troubles:
    """The current trouble. Safe to use from several threads: one sets it, another applies it to requests."""

    def __init__(self) -> None:
        self._trouble: Trouble | None = None
        self._delay_s = 0.0
        self._over = threading.Event()
        self._over.set()
        self.met = 0
        """How many requests it has affected."""

    def make(self, trouble: Trouble, delay_ms: int) -> None:
        """Start a trouble."""
        self.end()
        self.met = 0
        self._delay_s = delay_ms / 1000
        self._over.clear()
        self._trouble = trouble

    def end(self) -> None:
        """End the trouble; stalled and slow requests continue at once."""
        self._trouble = None
        self._over.set()

    def meet(self, request: Request) -> bool:
        """Apply the current trouble, if any, to a request. Raises `OSError`; False for a sync to be faked."""
        trouble = self._trouble
        if trouble is None:
            return True
        if trouble in _FAILS:
            requests, number = _FAILS[trouble]
            if request in requests:
                self.met += 1
                raise OSError(number, os.strerror(number))
        elif trouble == "stall":
            self.met += 1
            self._over.wait()
        elif trouble == "slow" or (trouble == "slow-fsync" and request == "fsync"):
            self.met += 1
            self._over.wait(self._delay_s)
        elif trouble in ("fsync-lies", "fsync-fails-then-lies") and request == "fsync":
            self.met += 1
            if trouble == "fsync-fails-then-lies" and self.met == 1:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return False
        return True
