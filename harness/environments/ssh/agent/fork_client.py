"""Starts a program through a fork server, with our standard streams, and exits with its status.

    python3 -IS fork_client.py SOCKET MODULE

It runs as a file, in an isolated interpreter, to avoid imports.
"""

from __future__ import annotations

import socket
import sys

_KILLED = 128
"""A shell's exit status of a program killed by signal N is this plus N."""

_UNKNOWN = 255


def main() -> int:
    """Wait for the program's end; returns its exit status, as a shell reports it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.connect(sys.argv[1])
        socket.send_fds(server, [sys.argv[2].encode() + b"\n"], [0, 1, 2])
        reply = server.recv(16)  # one line, which is short; nothing if the server was killed
    status = int(reply) if reply else _UNKNOWN
    return status if status >= 0 else _KILLED - status


if __name__ == "__main__":
    sys.exit(main())
