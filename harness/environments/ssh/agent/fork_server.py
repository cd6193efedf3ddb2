"""Has imported what runs on a machine, and becomes it by forking: what a VM's template has running in it.

    python -m harness.environments.ssh.agent.fork_server SOCKET MODULE…

Whoever connects sends the name of one of the modules in a line, with three descriptors beside it for the standard
streams, and is sent the program's exit status in a line when it has ended. `fork_client` does so for a shell.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import socket
import sys

from harness.environments.machine.helpers import forks
from harness.environments.machine.helpers.jsonl import receive_line


def main() -> None:
    """Serve for ever."""
    path, *modules = sys.argv[1:]
    forks.make_ready(modules)
    gc.collect()
    gc.freeze()  # so that a collection in a child touches, and so copies, nothing of ours
    running: dict[int, tuple[forks.Forked, socket.socket]] = {}  # by what becomes readable when the child ends
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
                    _tell_end(*running.pop(descriptor))
                elif (begun := _begin(listener.accept()[0])) is not None:
                    end = os.pidfd_open(begun[0].pid)
                    events.register(end, select.POLLIN)
                    running[end] = begun


def _begin(client: socket.socket) -> tuple[forks.Forked, socket.socket] | None:
    """Start what a client asks for; None if it asks for nothing."""
    line, descriptors = receive_line(client)
    try:
        if len(descriptors) != 3:
            client.close()
            return None
        stdin, stdout, stderr = descriptors
        return forks.fork(line.decode().strip(), (), os.environ, (stdin, stdout, stderr)), client
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _tell_end(child: forks.Forked, client: socket.socket) -> None:
    with client, contextlib.suppress(OSError):
        client.sendall(b"%d\n" % child.wait())


if __name__ == "__main__":
    main()
