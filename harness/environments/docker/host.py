"""Runs a node as a container: created once, started with the node, in the network namespace of another container."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.environments.base import EnvironmentFailed
from harness.environments.docker import control_group
from harness.environments.docker.engine import LABEL, expecting
from harness.environments.docker.process import ContainerProcess, Output
from harness.environments.local.host import ProcessHost
from harness.environments.machine import resource_limits
from harness.environments.machine.helpers.supervisor import SupervisedProcess, Supervisor
from harness.environments.machine.node import RunningProcess
from nemesis.capabilities.cluster import Endpoint, NodeError

if TYPE_CHECKING:
    from docker import DockerClient

_MIB = 1 << 20
_MORE_MEMORY = 2 * _MIB
_MORE_MEMORY_MOST = 128 * _MIB


@dataclass(frozen=True)
class Limits:
    """A node's normal resource limits."""

    memory_mib: int
    cpus: float  # 0: all of them


@dataclass(frozen=True)
class Housing:
    """The parameters of a node's container."""

    name: str
    token: str
    image: str
    namespace_of: str  # the container whose network it shares
    directories: Sequence[Path]  # mounted at the same path as outside
    read_only: Sequence[Path]
    environment: Mapping[str, str]
    limits: Limits
    python: str = ""  # the interpreter in the container; empty: unknown
    settings: Mapping[str, Any] = field(default_factory=dict)  # further parameters, by the engine's names


class ContainerHost:
    """Implements `harness.environments.machine.node.Host`."""

    def __init__(
        self,
        client: DockerClient,
        supervisor: Supervisor,
        endpoint: Endpoint,
        housing: Housing,
        sidecar: Callable[[int], Sequence[str]] | None = None,
    ) -> None:
        """`sidecar` gives the command of the sidecar for a process id; None: the node serves its socket itself."""
        self._sidecar = sidecar
        self._sidecar_process: SupervisedProcess | None = None
        self._client = client
        self._supervisor = supervisor
        self._endpoint = endpoint
        self._housing = housing
        self._container: Any = None
        self._made_for: tuple[Sequence[str], Mapping[str, str]] | None = None

    def launch(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> ContainerProcess:
        """Start the container; it is created the first time, and again when the command changes."""
        try:
            with expecting(f"run {command[0]!r} as node {self._endpoint}"):
                if self._made_for != (command, environment):
                    self._make(command, environment)
                # Attached before the start, so that no line is missed.
                output = Output(self._container.attach(stdout=True, stderr=True, stream=True), log)
                self._container.start()
                process = ContainerProcess(self._container, output)
            if self._sidecar is not None and process.pid:  # it may have ended at once
                self._start_sidecar(self._sidecar(process.pid), log)
            return process
        except EnvironmentFailed as failed:
            raise NodeError(str(failed)) from failed

    def _start_sidecar(self, command: Sequence[str], log: Path) -> None:
        """Run the sidecar in the node's network."""
        if self._sidecar_process is not None:
            self._sidecar_process.kill()
        self._sidecar_process = ProcessHost(self._supervisor, self._endpoint).launch(command, {}, log)

    def _make(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        if self._container is not None:
            self._container.remove(force=True, v=True)
        housing = self._housing
        memory = housing.limits.memory_mib * _MIB
        binds = {str(path): {"bind": str(path), "mode": "rw"} for path in housing.directories}
        binds |= {str(path): {"bind": str(path), "mode": "ro"} for path in housing.read_only}
        self._container = self._client.containers.create(
            housing.image,
            entrypoint=self._inside(command),
            command=[],
            name=housing.name,
            labels={LABEL: housing.token},
            environment={**housing.environment, **environment},
            network_mode=f"container:{housing.namespace_of}",
            volumes=binds,
            mem_limit=memory,
            memswap_limit=memory,
            nano_cpus=int(housing.limits.cpus * 1e9),
            log_config={"Type": "none"},  # its output goes to the node's log
            **housing.settings,
        )
        self._made_for = (command, environment)

    def run_beside(self, command: Sequence[str], log: Path) -> None:
        """Run it in the same container."""
        try:
            with expecting(f"run {command[0]!r} beside node {self._endpoint}"):
                Output(self._container.exec_run(self._inside(command), stream=True).output, log)
        except EnvironmentFailed as failed:
            raise NodeError(str(failed)) from failed

    def _inside(self, command: Sequence[str]) -> list[str]:
        """Replace this machine's interpreter by the container's, whose path may differ."""
        return [self._housing.python or command[0] if command[0] == sys.executable else command[0], *command[1:]]

    def throttle(self, process: RunningProcess, percent: int) -> resource_limits.Throttle:
        """Stop and continue it periodically: a quota would not affect a broker that is mostly idle."""
        return resource_limits.Throttle(self._supervisor, process, self._endpoint, percent)

    def limit_memory(self, process: RunningProcess) -> int:
        """Limit its control group to its current use; the kernel kills it when it needs more."""
        in_use = control_group.memory_in_use(process.pid)
        for limit in range(in_use, in_use + _MORE_MEMORY_MOST, _MORE_MEMORY):
            with contextlib.suppress(EnvironmentFailed):  # its use has grown, or cannot be reclaimed
                self._update_memory(limit)
                return limit
        raise OSError(0, f"expected a limit of some {in_use >> 20} MiB to be taken, found that none was")

    def unlimit_memory(self, process: RunningProcess) -> None:
        """Restore its container's normal limit, for this process or the next."""
        normal = self._housing.limits.memory_mib * _MIB
        try:
            try:
                self._update_memory(normal)
            except EnvironmentFailed:
                if process.poll() is None:
                    raise
                self._update_memory(normal)  # it had just died, and the engine did not know yet
        except EnvironmentFailed as failed:
            raise NodeError(str(failed)) from failed

    def memory_limit(self, process: RunningProcess) -> int | None:
        """The limit of its control group, read from the kernel."""
        try:
            limit = control_group.memory_limit(process.pid)
        except OSError:  # it has ended
            return None
        return None if limit is None or limit >= self._housing.limits.memory_mib * _MIB else limit

    def _update_memory(self, limit: int) -> None:
        with expecting(f"limit the memory of node {self._endpoint}"):
            self._container.update(mem_limit=limit, memswap_limit=limit)
