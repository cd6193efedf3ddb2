"""Runs a node as a process of this machine, by the supervisor, and limits its processor time and memory.

The process is in the node's network namespace. The limits need no privilege.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.programs import module_command
from harness.environments.machine.helpers.supervisor import SupervisedProcess, Supervisor
from harness.environments.machine.kernel import process_identity
from harness.environments.machine.node import RunningProcess
from nemesis.capabilities.cluster import Endpoint, NodeError

_END_TIMEOUT_S = 5.0


class DutyCycle:
    """Lets the group of a process run for some percent of the time (`duty_cycle`)."""

    def __init__(self, supervisor: Supervisor, process: RunningProcess, endpoint: int, percent: int) -> None:
        self._process = process
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            command = module_command("harness.environments.machine.helpers.duty_cycle", str(process.pid), str(percent))
            self._cycle = supervisor.spawn(command, endpoint, nothing, nothing, nothing)
        finally:
            os.close(nothing)
        process_identity.wait_until(
            lambda: "T" in process_identity.states(process.pid), _END_TIMEOUT_S, process_identity.SAMPLE_INTERVAL_S
        )

    def end(self) -> None:
        """Let the process run without a limit, if it still exists."""
        self._cycle.terminate()
        try:
            self._cycle.wait(_END_TIMEOUT_S)
        except TimeoutError:
            self._cycle.kill()
        self._process.signal(signal.SIGCONT)


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


class ProcessHost:
    """Implements `harness.environments.machine.node.NodeHost`. Its resource limits need no privilege."""

    def __init__(self, supervisor: Supervisor, endpoint: Endpoint) -> None:
        self._supervisor = supervisor
        self._endpoint = endpoint

    def launch(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> SupervisedProcess:
        """Start it through the supervisor."""
        if environment:
            command = ["env", *(f"{name}={value}" for name, value in environment.items()), *command]
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self._supervisor.spawn(command, self._endpoint, nothing, output, output)
        except HelperRefused as refusal:
            raise NodeError(f"expected to run {command[0]!r} as node {self._endpoint}, found: {refusal}") from None
        finally:
            os.close(output)
            os.close(nothing)

    def run_beside(self, command: Sequence[str], log: Path) -> None:
        """Start it through the supervisor as well."""
        self.launch(command, {}, log)

    def throttle(self, process: RunningProcess, percent: int) -> DutyCycle:
        """Stop and continue it periodically."""
        return DutyCycle(self._supervisor, process, self._endpoint, percent)

    def limit_memory(self, process: RunningProcess) -> int:
        """Limit its address space."""
        return limit_memory(process.pid)

    def unlimit_memory(self, process: RunningProcess) -> None:
        """Remove the limit of its address space."""
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                unlimit_memory(process.pid)

    def memory_limit(self, process: RunningProcess) -> int | None:
        """The limit of its address space."""
        try:
            return memory_limit(process.pid)
        except ProcessLookupError:
            return None
