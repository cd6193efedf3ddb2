"""Receives JSON lines, with file descriptors, over a Unix socket."""

from __future__ import annotations

import socket

_CHUNK_BYTES = 65_536
_DESCRIPTORS_AT_MOST = 3


def receive_line(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Receive one line and the descriptors sent with it; the line is empty when the other end has closed."""
    line = b""
    descriptors: list[int] = []
    while not line.endswith(b"\n"):
        try:
            data, more, _, _ = socket.recv_fds(connection, _CHUNK_BYTES, _DESCRIPTORS_AT_MOST)
        except ConnectionError:
            data, more = b"", []
        if not data:
            return b"", descriptors
        line += data
        descriptors += more
    return line, descriptors
