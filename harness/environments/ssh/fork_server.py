"""Has imported what runs on a machine, and becomes it by forking: what a VM's template has running in it.

    python -m harness.environments.ssh.fork_server SOCKET MODULE…

Whoever connects sends the name of one of the modules in a line, with three descriptors beside it for the standard
streams; the connection ends with the program. `fork_client` does so for a shell.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from harness.environments.machine import forks
from harness.environments.machine.lines import receive_line


def main() -> None:
    """Serve for ever."""
    path, *modules = sys.argv[1:]
    forks.make_ready(modules)
    gc.collect()
    gc.freeze()  # so that a collection in a child touches, and so copies, nothing of ours
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection:
                line, descriptors = receive_line(connection)
                if len(descriptors) == 3:
                    stdin, stdout, stderr = descriptors
                    forks.fork(
                        line.decode().strip(), (), os.environ, (stdin, stdout, stderr), kept=[connection.fileno()]
                    )
                for descriptor in descriptors:
                    os.close(descriptor)


if __name__ == "__main__":
    main()
