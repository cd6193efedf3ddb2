"""How a node is a container: made once, started as often as the node is, in the network namespace of another."""

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
from harness.environments.local.host import KeptHost
from harness.environments.machine import resource_limits
from harness.environments.machine.helpers.supervisor import KeptProcess, Supervisor
from harness.environments.machine.node import RunningProcess
from nemesis.capabilities.cluster import Endpoint, NodeError

if TYPE_CHECKING:
    from docker import DockerClient

_MIB = 1 << 20
_MORE_MEMORY = 2 * _MIB
_MORE_MEMORY_MOST = 128 * _MIB


@dataclass(frozen=True)
class Limits:
    """What a node may have on an ordinary day."""

    memory_mib: int
    cpus: float  # 0: as many as there are


@dataclass(frozen=True)
class Housing:
    """What the container of a node is made with."""

    name: str
    token: str
    image: str
    namespace_of: str  # the container whose network it shares
    directories: Sequence[Path]  # seen under the same path inside and outside
    read_only: Sequence[Path]
    environment: Mapping[str, str]
    limits: Limits
    python: str = ""  # the interpreter, in there; empty: nothing is known to be there
    settings: Mapping[str, Any] = field(default_factory=dict)  # further ones, as the engine calls them


class ContainerHost:
    """Implements `harness.environments.machine.node.Host`."""

    def __init__(
        self,
        client: DockerClient,
        keeper: Supervisor,
        endpoint: Endpoint,
        housing: Housing,
        attendant: Callable[[int], Sequence[str]] | None = None,
    ) -> None:
        """`attendant` is the command that answers for a process by its id, outside of the container; None: it does."""
        self._attendant = attendant
        self._attending: KeptProcess | None = None
        self._client = client
        self._keeper = keeper
        self._endpoint = endpoint
        self._housing = housing
        self._container: Any = None
        self._made_for: tuple[Sequence[str], Mapping[str, str]] | None = None

    def launch(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> ContainerProcess:
        """Start the container, which is made the first time, or when it is to run another command."""
        try:
            with expecting(f"run {command[0]!r} as node {self._endpoint}"):
                if self._made_for != (command, environment):
                    self._make(command, environment)
                # Attached before it runs, so that not a line is missed.
                output = Output(self._container.attach(stdout=True, stderr=True, stream=True), log)
                self._container.start()
                process = ContainerProcess(self._container, output)
            if self._attendant is not None and process.pid:  # it may have ended at once
                self._have_attended(self._attendant(process.pid), log)
            return process
        except EnvironmentFailed as failed:
            raise NodeError(str(failed)) from failed

    def _have_attended(self, command: Sequence[str], log: Path) -> None:
        """Run it in the node's network."""
        if self._attending is not None:
            self._attending.kill()
        self._attending = KeptHost(self._keeper, self._endpoint).launch(command, {}, log)

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
            log_config={"Type": "none"},  # what it prints is in the node's log
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
        """The interpreter of this machine need not be in there at the place where it is here."""
        return [self._housing.python or command[0] if command[0] == sys.executable else command[0], *command[1:]]

    def throttle(self, process: RunningProcess, percent: int) -> resource_limits.Throttle:
        """Stop it and let it run in turns: a quota would not hurt a broker that is mostly idle."""
        return resource_limits.Throttle(self._keeper, process, self._endpoint, percent)

    def limit_memory(self, process: RunningProcess) -> int:
        """Let its control group hold no more than it does; the kernel kills it when it wants more."""
        in_use = control_group.memory_in_use(process.pid)
        for limit in range(in_use, in_use + _MORE_MEMORY_MOST, _MORE_MEMORY):
            with contextlib.suppress(EnvironmentFailed):  # it has grown meanwhile, or cannot give back what it counts
                self._update_memory(limit)
                return limit
        raise OSError(0, f"expected a limit of some {in_use >> 20} MiB to be taken, found that none was")

    def unlimit_memory(self, process: RunningProcess) -> None:
        """Let its container have what it may have on an ordinary day, for this process or the next."""
        everyday = self._housing.limits.memory_mib * _MIB
        try:
            try:
                self._update_memory(everyday)
            except EnvironmentFailed:
                if process.poll() is None:
                    raise
                self._update_memory(everyday)  # it had died a moment ago, which the engine did not know
        except EnvironmentFailed as failed:
            raise NodeError(str(failed)) from failed

    def memory_limit(self, process: RunningProcess) -> int | None:
        """The limit of its control group, by the kernel's own account."""
        try:
            limit = control_group.memory_limit(process.pid)
        except OSError:  # it has ended
            return None
        return None if limit is None or limit >= self._housing.limits.memory_mib * _MIB else limit

    def _update_memory(self, limit: int) -> None:
        with expecting(f"limit the memory of node {self._endpoint}"):
            self._container.update(mem_limit=limit, memswap_limit=limit)
