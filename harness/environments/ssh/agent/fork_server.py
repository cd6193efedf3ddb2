"""Forks programs that it has imported; runs in a VM's template.

    python -m harness.environments.ssh.agent.fork_server SOCKET MODULE…

A client connects and sends the name of one of the modules in a line, with three descriptors for the standard streams;
it receives the program's exit status in a line when the program has ended. `fork_client` does so for a shell.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import socket
import sys

from harness.environments.machine.helpers import programs
from harness.environments.machine.helpers.jsonl import receive_line


def main() -> None:
    """Serve forever."""
    path, *modules = sys.argv[1:]
    programs.make_ready(modules)
    gc.collect()
    gc.freeze()  # so that a garbage collection in a child does not touch, and so copy, our pages
    running: dict[int, tuple[programs.Forked, socket.socket]] = {}  # by pidfd
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()
        events = select.poll()
        events.register(listener, select.POLLIN)
        while True:
            for descriptor, _ in events.poll():
                if descriptor != listener.fileno():
                    events.unregister(descriptor)
                    os.close(descriptor)
                    _send_status(*running.pop(descriptor))
                elif (begun := _begin(listener.accept()[0])) is not None:
                    end = os.pidfd_open(begun[0].pid)
                    events.register(end, select.POLLIN)
                    running[end] = begun


def _begin(client: socket.socket) -> tuple[programs.Forked, socket.socket] | None:
    """Start the program that a client requests; None without a valid request."""
    line, descriptors = receive_line(client)
    try:
        if len(descriptors) != 3:
            client.close()
            return None
        stdin, stdout, stderr = descriptors
        return programs.fork(line.decode().strip(), (), os.environ, (stdin, stdout, stderr)), client
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _send_status(child: programs.Forked, client: socket.socket) -> None:
    with client, contextlib.suppress(OSError):
        client.sendall(b"%d\n" % child.wait())


if __name__ == "__main__":
    main()
