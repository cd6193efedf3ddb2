"""The harness's side of the keeper (`keeper_process`): start it, ask it, and hold the processes that it keeps."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from harness.environments.machine.helpers.helper import Helper
from harness.environments.machine.helpers.supervisor_process import Settings

_KILL_TIMEOUT_S = 15.0


class Supervisor:
    """A running keeper. Safe to use from several threads."""

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        """Start a keeper; `HelperRefused` when the machine does not allow what the settings ask for."""
        self._helper = Helper(
            "harness.environments.machine.helpers.supervisor_process", settings._asdict(), environment
        )
        self.pid = self._helper.pid
        self.close = self._helper.close

    def ask(self, do: str, descriptors: Sequence[int] = (), **details: Any) -> Any:  # noqa: ANN401
        """One request, one answer; `HelperRefused` with the keeper's reason."""
        return self._helper.ask(descriptors, do=do, **details)

    def spawn(self, command: Sequence[str], endpoint: int, stdin: int, stdout: int, stderr: int) -> KeptProcess:
        """Run a program as an endpoint of the network; it ends at the latest with the keeper."""
        started = self.ask("spawn", (stdin, stdout, stderr), command=list(command), endpoint=endpoint)
        return KeptProcess(self, started["number"], started["pid"], started["start_time"])


class KeptProcess:
    """A process (with its group) that the keeper started. Safe to use from several threads."""

    def __init__(self, keeper: Supervisor, number: int, pid: int, start_time: int) -> None:
        self._keeper = keeper
        self._number = number
        self._status: int | None = None
        self._lock = threading.Lock()
        self.pid = self.own_pid = pid
        self.start_time = start_time
        """Clock ticks since boot."""
        # The process cannot vanish before this: its keeper reaps it only when asked for its status.
        self._end = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Exit status, negative for the signal that killed it; None while it lives."""
        with self._lock:
            if self._status is None:
                self._status = self._keeper.ask("status", number=self._number)
                if self._status is not None:
                    os.close(self._end)
            return self._status

    def wait(self, timeout_s: float) -> int:
        """Exit status once it ends; `TimeoutError` after that time."""
        with self._lock:  # another thread that learns the status closes ours
            end = None if self._status is not None else os.dup(self._end)
        if end is not None:
            ended = select.poll()
            ended.register(end, select.POLLIN)
            ended.poll(timeout_s * 1000)
            os.close(end)
        if (status := self.poll()) is None:
            raise TimeoutError(f"expected process {self.pid} to end within {timeout_s:g} s, found it running")
        return status

    def signal(self, signal_number: int) -> bool:
        """Send a signal to the process's group; False if it has ended."""
        return self._status is None and bool(self._keeper.ask("signal", number=self._number, signal=int(signal_number)))

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL and reap."""
        self.signal(signal.SIGKILL)
        self.wait(_KILL_TIMEOUT_S)


@dataclass(frozen=True)
class ClientProcess:
    """A kept process with pipes for standard input and output (`harness.environments.base.Process`)."""

    kept: KeptProcess
    stdin: IO[bytes]
    stdout: IO[bytes]

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.kept.pid

    def poll(self) -> int | None:
        """Exit status, None while it lives."""
        return self.kept.poll()

    def wait(self, timeout_s: float) -> int:
        """Exit status once it ends; `TimeoutError` after that time."""
        return self.kept.wait(timeout_s)

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        self.kept.terminate()

    def kill(self) -> None:
        """SIGKILL and reap."""
        self.kept.kill()
