"""Runs a node as a process of this machine: the supervisor starts it in the node's network namespace."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.environments.machine import resource_limits
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import SupervisedProcess, Supervisor
from harness.environments.machine.node import RunningProcess
from nemesis.capabilities.cluster import Endpoint, NodeError


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

    def throttle(self, process: RunningProcess, percent: int) -> resource_limits.DutyCycle:
        """Stop and continue it periodically."""
        return resource_limits.DutyCycle(self._supervisor, process, self._endpoint, percent)

    def limit_memory(self, process: RunningProcess) -> int:
        """Limit its address space."""
        return resource_limits.limit_memory(process.pid)

    def unlimit_memory(self, process: RunningProcess) -> None:
        """Remove the limit of its address space."""
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                resource_limits.unlimit_memory(process.pid)

    def memory_limit(self, process: RunningProcess) -> int | None:
        """The limit of its address space."""
        try:
            return resource_limits.memory_limit(process.pid)
        except ProcessLookupError:
            return None
