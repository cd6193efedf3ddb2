"""Forwards connections to a node's control socket through the agent.

A `Bridge` listens on this machine; `Streams`, in the agent, connects to the socket on the node's machine.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 16
_BACKLOG = 32


class Bridge:
    """Listens where the harness expects the node's control socket. Safe to use from several threads."""

    def __init__(self, path: Path, send: Callable[[Mapping[str, object]], None]) -> None:
        """Listen at `path`; `send` sends a message to the agent."""
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, socket.socket] = {}
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen(_BACKLOG)
        self._thread = threading.Thread(target=self._accept, name=f"bridge {path.name}", daemon=True)
        self._thread.start()

    def take(self, message: Mapping[str, Any]) -> None:
        """Apply the agent's message about a connection."""
        with self._lock:
            connection = self._open.get(message["stream"])
        if connection is None:
            return
        with contextlib.suppress(OSError):
            if "data" in message:
                connection.sendall(base64.b64decode(message["data"]))
            if message.get("end"):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening, and end open connections. Safe to call twice."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        self.reset()

    def reset(self) -> None:
        """End open connections: the machine at the other end is gone."""
        with self._lock:
            for connection in self._open.values():
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            number = next(self._numbers)
            with self._lock:
                self._open[number] = connection
            threading.Thread(target=self._carry, args=(number, connection), daemon=True).start()

    def _carry(self, number: int, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := connection.recv(_CHUNK_BYTES):
                self._send({"number": number, "data": base64.b64encode(data).decode()})
        self._send({"number": number, "end": True})
        with self._lock:
            del self._open[number]
        connection.close()


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
