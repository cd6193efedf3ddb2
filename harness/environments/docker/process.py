"""The main process of a container, handled through both the kernel and the engine."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.environments.docker.engine import expecting
from harness.environments.machine.kernel import process_identity

_KILL_TIMEOUT_S = 15.0
_OUTPUT_TIMEOUT_S = 5.0
_BY_SIGNAL = 128
"""The engine reports a death by signal N as status 128 + N."""


class Output(threading.Thread):
    """Appends a container's output to a file, until it ends."""

    def __init__(self, stream: Iterable[bytes], log: Path) -> None:
        super().__init__(name=f"output-{log.parent.name}", daemon=True)
        self._stream = stream
        self._log = log
        self.start()

    def run(self) -> None:
        """Copy."""
        with self._log.open("ab", buffering=0) as file:
            for part in self._stream:
                file.write(part)


class ContainerProcess:
    """Implements `harness.environments.machine.node.RunningProcess`. For the kernel it is an ordinary process.

    So signals are sent to it directly; the engine is asked only for its exit status.
    """

    own_pid = 1
    """The first process of its container."""

    def __init__(self, container: Any, output: Output) -> None:  # noqa: ANN401 - the library has no types
        """Open a pidfd of the process of a container that was just started."""
        self._container = container
        self._output = output
        self._status: int | None = None
        with expecting("report the process of a container"):
            container.reload()
        self.pid = int(container.attrs["State"]["Pid"])
        """Process id on this machine; 0 if it has ended already."""
        self.start_time = (process_identity.start_time(self.pid) if self.pid else None) or 0
        self._end = self._hold()

    def _hold(self) -> int | None:
        try:
            return os.pidfd_open(self.pid) if self.start_time else None
        except ProcessLookupError:
            return None

    def _ended(self, timeout_s: float) -> bool:
        if self._end is None:
            return True
        end = select.poll()
        end.register(self._end, select.POLLIN)
        return bool(end.poll(timeout_s * 1000))

    def poll(self) -> int | None:
        """Exit status, negative for the signal that killed it; None while it runs."""
        if self._status is None and self._ended(0):
            with expecting("report the exit status of a container"):
                status = int(self._container.wait(timeout=_KILL_TIMEOUT_S)["StatusCode"])
            self._output.join(_OUTPUT_TIMEOUT_S)
            if self._end is not None:
                os.close(self._end)
            self._status = _BY_SIGNAL - status if status > _BY_SIGNAL else status
        return self._status

    def wait(self, timeout_s: float) -> int:
        """Wait for its end and return its exit status; `TimeoutError` after that time."""
        if self._status is None:
            self._ended(timeout_s)
        if (status := self.poll()) is None:
            raise TimeoutError(f"expected process {self.pid} to end within {timeout_s:g} s, found it running")
        return status

    def signal(self, signal_number: int) -> bool:
        """Send a signal to its process group; False if it has ended."""
        if self._status is not None or self._ended(0):
            return False
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            os.killpg(self.pid, signal_number)
            return True
        return False

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL; the kernel kills all others of the container with it."""
        self.signal(signal.SIGKILL)
        self.wait(_KILL_TIMEOUT_S)
