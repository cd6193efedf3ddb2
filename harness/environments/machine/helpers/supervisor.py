"""Starts the supervisor (`supervisor_process`), sends it requests, and represents the processes that it runs."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from harness.environments.machine.helpers.helper import Helper
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings

_KILL_TIMEOUT_S = 15.0


class Supervisor:
    """A running supervisor. Safe to use from several threads."""

    def __init__(self, settings: SupervisorSettings, environment: Mapping[str, str]) -> None:
        """Start a supervisor; `HelperRefused` when the machine does not allow the settings."""
        self._helper = Helper(
            "harness.environments.machine.helpers.supervisor_process", settings._asdict(), environment
        )
        self.pid = self._helper.pid
        self.close = self._helper.close

    def ask(self, do: str, descriptors: Sequence[int] = (), **details: Any) -> Any:  # noqa: ANN401
        """Send a request and return its answer; `HelperRefused` with the supervisor's reason."""
        return self._helper.ask(descriptors, do=do, **details)

    def spawn(self, command: Sequence[str], endpoint: int, stdin: int, stdout: int, stderr: int) -> SupervisedProcess:
        """Run a program as an endpoint of the network; it ends at the latest with the supervisor."""
        started = self.ask("spawn", (stdin, stdout, stderr), command=list(command), endpoint=endpoint)
        return SupervisedProcess(self, started["number"], started["pid"], started["start_time"])


class SupervisedProcess:
    """A process (with its group) that the supervisor started. Safe to use from several threads."""

    def __init__(self, supervisor: Supervisor, number: int, pid: int, start_time: int) -> None:
        self._supervisor = supervisor
        self._number = number
        self._status: int | None = None
        self._lock = threading.Lock()
        self.pid = self.own_pid = pid
        self.start_time = start_time
        """Clock ticks since boot."""
        # The process cannot vanish before this: its supervisor reaps it only when asked for its status.
        self._end = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Exit status, negative for the signal that killed it; None while it runs."""
        with self._lock:
            if self._status is None:
                self._status = self._supervisor.ask("status", number=self._number)
                if self._status is not None:
                    os.close(self._end)
            return self._status

    def wait(self, timeout_s: float) -> int:
        """Wait for its end and return its exit status; `TimeoutError` after that time."""
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
        return self._status is None and bool(
            self._supervisor.ask("signal", number=self._number, signal=int(signal_number))
        )

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL and reap."""
        self.signal(signal.SIGKILL)
        self.wait(_KILL_TIMEOUT_S)


@dataclass(frozen=True)
class ClientProcess:
    """A supervised process with pipes for standard input and output (`harness.environments.base.Process`)."""

    kept: SupervisedProcess
    stdin: IO[bytes]
    stdout: IO[bytes]

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.kept.pid

    def poll(self) -> int | None:
        """Exit status, None while it runs."""
        return self.kept.poll()

    def wait(self, timeout_s: float) -> int:
        """Wait for its end and return its exit status; `TimeoutError` after that time."""
        return self.kept.wait(timeout_s)

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        self.kept.terminate()

    def kill(self) -> None:
        """SIGKILL and reap."""
        self.kept.kill()
