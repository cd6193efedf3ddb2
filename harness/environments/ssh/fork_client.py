"""Has a fork server start a program with our standard streams, and waits for its end.

    python3 -IS fork_client.py SOCKET MODULE

It is run as a file, by an interpreter that looks for nothing: what it saves is imports.
"""

from __future__ import annotations

import socket
import sys


def main() -> None:
    """Wait for the program's end; its exit status stays unknown."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.connect(sys.argv[1])
        socket.send_fds(server, [sys.argv[2].encode() + b"\n"], [0, 1, 2])
        server.recv(1)


if __name__ == "__main__":
    main()
