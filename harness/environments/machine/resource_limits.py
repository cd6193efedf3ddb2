"""Limits a process's processor time and memory, without any privilege."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path
from typing import Protocol

from harness.environments.machine.helpers.own_python import module_command
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.kernel import process_identity

_END_TIMEOUT_S = 5.0
_SAMPLE_INTERVAL_S = 0.003


class Stoppable(Protocol):
    """A process that can be stopped and continued by signals."""

    @property
    def pid(self) -> int: ...

    def signal(self, signal_number: int) -> bool: ...


class DutyCycle:
    """Lets the group of a process run for some percent of the time (`duty_cycle`)."""

    def __init__(self, supervisor: Supervisor, process: Stoppable, endpoint: int, percent: int) -> None:
        self._process = process
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            command = module_command("harness.environments.machine.helpers.duty_cycle", str(process.pid), str(percent))
            self._cycle = supervisor.spawn(command, endpoint, nothing, nothing, nothing)
        finally:
            os.close(nothing)
        process_identity.wait_until(
            lambda: "T" in process_identity.states(process.pid), _END_TIMEOUT_S, _SAMPLE_INTERVAL_S
        )

    def end(self) -> None:
        """Let the process run without a limit, if it still exists."""
        self._cycle.terminate()
        try:
            self._cycle.wait(_END_TIMEOUT_S)
        except TimeoutError:
            self._cycle.kill()
        self._process.signal(signal.SIGCONT)


def running_percent(pid: int, seconds: float) -> float:
    """The percentage of samples in which no thread of the process was stopped."""
    deadline = time.monotonic() + seconds
    samples = running = 0
    while time.monotonic() < deadline or not samples:
        samples += 1
        running += "T" not in process_identity.states(pid)
        time.sleep(_SAMPLE_INTERVAL_S)
    return 100 * running / samples


def limit_memory(pid: int) -> int:
    """Limit a process's address space to its current size; returns the limit in bytes."""
    pages = int(_statm(pid)[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE")
    _, most = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, most))
    return limit


def unlimit_memory(pid: int) -> None:
    """Undo `limit_memory`: raise the soft limit to the hard one, which was not changed."""
    _, most = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (most, most))


def memory_limit(pid: int) -> int | None:
    """The limit in bytes that the kernel enforces; None if there is none."""
    limit, _ = resource.prlimit(pid, resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def _statm(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/statm").read_text().split()
