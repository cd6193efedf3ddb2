"""What can be taken from a process that runs: processor time and memory, without any privilege."""

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
_LOOK_INTERVAL_S = 0.003


class Stoppable(Protocol):
    """A process that can be told to go on."""

    @property
    def pid(self) -> int: ...

    def signal(self, signal_number: int) -> bool: ...


class Throttle:
    """Lets the group of a process run for some percent of the time (`duty_cycle`)."""

    def __init__(self, keeper: Supervisor, process: Stoppable, endpoint: int, percent: int) -> None:
        self._process = process
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            command = module_command("harness.environments.machine.helpers.duty_cycle", str(process.pid), str(percent))
            self._cycle = keeper.spawn(command, endpoint, nothing, nothing, nothing)
        finally:
            os.close(nothing)
        process_identity.wait_until(
            lambda: "T" in process_identity.states(process.pid), _END_TIMEOUT_S, _LOOK_INTERVAL_S
        )

    def end(self) -> None:
        """Let the process run, if it is still there."""
        self._cycle.terminate()
        try:
            self._cycle.wait(_END_TIMEOUT_S)
        except TimeoutError:
            self._cycle.kill()
        self._process.signal(signal.SIGCONT)


def running_percent(pid: int, seconds: float) -> float:
    """In how many percent of many looks no thread of the process was stopped."""
    deadline = time.monotonic() + seconds
    looks = running = 0
    while time.monotonic() < deadline or not looks:
        looks += 1
        running += "T" not in process_identity.states(pid)
        time.sleep(_LOOK_INTERVAL_S)
    return 100 * running / looks


def limit_memory(pid: int) -> int:
    """Let a process have no more address space than it has now; returns the limit in bytes."""
    pages = int(_statm(pid)[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE")
    _, most = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, most))
    return limit


def unlimit_memory(pid: int) -> None:
    """Undo `limit_memory`: the soft limit is raised to the hard one, which was not touched."""
    _, most = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (most, most))


def memory_limit(pid: int) -> int | None:
    """The limit that the kernel holds a process to, None if there is none."""
    limit, _ = resource.prlimit(pid, resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def _statm(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/statm").read_text().split()
