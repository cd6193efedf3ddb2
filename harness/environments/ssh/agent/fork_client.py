"""Has a fork server start a program with our standard streams, waits for its end, and ends as it did.

    python3 -IS fork_client.py SOCKET MODULE

It is run as a file, by an interpreter that looks for nothing: what it saves is imports.
"""

from __future__ import annotations

import socket
import sys

_KILLED = 128
"""What a shell adds to the number of the signal that killed a program."""

_UNKNOWN = 255


def main() -> int:
    """Wait for the program's end; its exit status, as a shell tells it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.connect(sys.argv[1])
        socket.send_fds(server, [sys.argv[2].encode() + b"\n"], [0, 1, 2])
        told = server.recv(16)  # one line, which is short; nothing if the server was killed
    status = int(told) if told else _UNKNOWN
    return status if status >= 0 else _KILLED - status


if __name__ == "__main__":
    sys.exit(main())
