"""Forwards connections to the node's control socket between the agent and the harness (see `bridge`)."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

_CHUNK_BYTES = 1 << 16
_CONNECT_TIMEOUT_S = 0.2


class Streams:
    """The agent's end: connections by number, which the harness assigns."""

    def __init__(self, path: Path, push: Callable[[object], None]) -> None:
        self._path = path
        self._push = push
        self._open: dict[int, socket.socket] = {}
        self._lock = threading.Lock()

    def take(self, number: int, data: str = "", end: bool = False) -> None:
        """Forward data of one connection: some bytes (base64), or its end. The first call opens it."""
        connection = self._open.get(number)
        if end:
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            return
        if connection is None:
            connection = self._connect(number)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.sendall(base64.b64decode(data))

    def close(self) -> None:
        """End all connections."""
        for number in list(self._open):
            self.take(number, end=True)

    def _connect(self, number: int) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_CONNECT_TIMEOUT_S)  # the backlog of a paused node is limited
        try:
            connection.connect(str(self._path))
            connection.settimeout(None)
        except OSError:
            connection.close()
            self._push({"stream": number, "end": True})
            return None
        with self._lock:
            self._open[number] = connection
        threading.Thread(target=self._carry, args=(number, connection), daemon=True).start()
        return connection

    def _carry(self, number: int, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := connection.recv(_CHUNK_BYTES):
                self._push({"stream": number, "data": base64.b64encode(data).decode()})
        self._push({"stream": number, "end": True})
        with self._lock:
            del self._open[number]
        connection.close()
