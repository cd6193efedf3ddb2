"""How the harness and its helpers talk: a JSON line at a time, with open files beside it."""

from __future__ import annotations

import socket

_CHUNK_BYTES = 65_536
_DESCRIPTORS_AT_MOST = 3


def receive_line(connection: socket.socket) -> tuple[bytes, list[int]]:
    """One line with the descriptors that came beside it; an empty one when the other end has closed."""
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
