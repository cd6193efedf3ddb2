"""Sends and receives probe datagrams between machines. Both sides of a link use it."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Sequence

_HEADER = struct.Struct("!QIIQ")  # number of the probe, source, number of the datagram, when it was sent (ns)
_ROOM_BYTES = 65_536
_KEPT = 8
"""How many probes keep their arrivals."""

Arrival = tuple[int, int, int, int]
"""Source, number of the datagram, when it was sent and when it arrived (ns, each by its own side's monotonic clock)."""


class Prober:
    """Sends and receives on one socket. Safe to use from several threads."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._arrivals: defaultdict[int, list[Arrival]] = defaultdict(list)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="prober", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it receives."""
        return int(self._socket.getsockname()[1])

    def send(self, number: int, source: int, targets: Sequence[tuple[str, int]], count: int = 1, size: int = 0) -> None:
        """Send `count` datagrams of that size to each target, in turns."""
        filler = bytes(max(0, size - _HEADER.size))
        for datagram in range(count):
            for target in targets:
                # A rule that drops outgoing packets makes the send fail; for the probe the datagram is lost.
                with contextlib.suppress(PermissionError):
                    self._socket.sendto(
                        _HEADER.pack(number, source, datagram, time.monotonic_ns()) + filler, tuple(target)
                    )

    def await_arrivals(self, number: int, wanted: int, timeout_s: float, settle_s: float = 0.0) -> Sequence[Arrival]:
        """Wait for `wanted` arrivals of a probe or the timeout, then for further ones within `settle_s`."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._arrivals[number]) >= wanted, timeout_s)
            seen = -1
            while settle_s and len(self._arrivals[number]) != seen:
                seen = len(self._arrivals[number])
                self._changed.wait(settle_s)
            return tuple(self._arrivals[number])

    def close(self) -> None:
        """Stop receiving. Safe to call twice."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(
                socket.SHUT_RDWR
            )  # wakes the thread; raises on a datagram socket, which is not connected
        self._thread.join()
        self._socket.close()

    def _receive(self) -> None:
        while not self._closing.is_set():
            try:
                payload = self._socket.recv(_ROOM_BYTES)
            except OSError:
                if self._closing.is_set():
                    return
                continue
            if len(payload) < _HEADER.size:
                continue
            arrived_ns = time.monotonic_ns()
            number, source, datagram, sent_ns = _HEADER.unpack_from(payload)
            with self._changed:
                self._arrivals[number].append((source, datagram, sent_ns, arrived_ns))
                for old in sorted(self._arrivals)[:-_KEPT]:
                    del self._arrivals[old]
                self._changed.notify_all()
