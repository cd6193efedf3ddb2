"""Runs a node as a container, created once and started with the node: its process, its output, its memory limit."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.environments.base import EnvironmentFailed
from harness.environments.docker.engine import LABEL, expecting
from harness.environments.machine import process_host
from harness.environments.machine.helpers.supervisor import SupervisedProcess, Supervisor
from harness.environments.machine.kernel import process_identity
from harness.environments.machine.node import RunningProcess
from harness.environments.machine.process_host import ProcessHost
from nemesis.capabilities.cluster import Endpoint, NodeError

if TYPE_CHECKING:
    from docker import DockerClient


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


_ROOTS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
_PAGE_BYTES = 4096


class _Names(NamedTuple):
    usage: str
    limit: str
    cache: str  # key in memory.stat: what can be reclaimed at once


_V1 = _Names("memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file")
_V2 = _Names("memory.current", "memory.max", "inactive_file")


def memory_in_use(pid: int) -> int:
    """Bytes that the group uses and that cannot be reclaimed at once, in whole pages. `OSError` if it is gone."""
    group, names = _group(pid)
    statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    used = int((group / names.usage).read_text()) - int(statistics[names.cache])
    return -(-max(used, _PAGE_BYTES) // _PAGE_BYTES) * _PAGE_BYTES


def memory_limit(pid: int) -> int | None:
    """The group's limit in bytes; None: no limit. `OSError` if it is gone."""
    group, names = _group(pid)
    limit = (group / names.limit).read_text().strip()
    return None if limit == "max" else int(limit)


def _group(pid: int) -> tuple[Path, _Names]:
    """`/proc/PID/cgroup` has a line `number:controllers:path` for each hierarchy; version 2 has one, `0::path`."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return _ROOTS[0] / path.lstrip("/"), _V1
    for _, controllers, path in lines:
        if not controllers:
            return _ROOTS[1] / path.lstrip("/"), _V2
    raise FileNotFoundError(f"expected a control group of process {pid} that counts memory, found none")


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
    """Implements `harness.environments.machine.node.NodeHost`."""

    def __init__(
        self,
        client: DockerClient,
        supervisor: Supervisor,
        endpoint: Endpoint,
        housing_of: Callable[[], Housing],
        sidecar: Callable[[int], Sequence[str]] | None = None,
    ) -> None:
        """`housing_of` tells the parameters for the next start, which a node that is upgraded changes.

        `sidecar` gives the command of the sidecar for a process id; None: the node serves its socket itself.
        """
        self._sidecar = sidecar
        self._sidecar_process: SupervisedProcess | None = None
        self._client = client
        self._supervisor = supervisor
        self._endpoint = endpoint
        self._housing_of = housing_of
        self._housing = housing_of()
        self._container: Any = None
        self._made_for: tuple[Sequence[str], Mapping[str, str], Housing] | None = None

    def launch(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> ContainerProcess:
        """Start the container; it is created the first time, and again when the command or its parameters change."""
        try:
            with expecting(f"run {command[0]!r} as node {self._endpoint}"):
                if self._made_for != (command, environment, self._housing_of()):
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
        self._housing = housing = self._housing_of()
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
        self._made_for = (command, environment, housing)

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

    def throttle(self, process: RunningProcess, percent: int) -> process_host.DutyCycle:
        """Stop and continue it periodically: a quota would not affect a broker that is mostly idle."""
        return process_host.DutyCycle(self._supervisor, process, self._endpoint, percent)

    def limit_memory(self, process: RunningProcess) -> int:
        """Limit its control group to its current use; the kernel kills it when it needs more."""
        in_use = memory_in_use(process.pid)
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
            limit = memory_limit(process.pid)
        except OSError:  # it has ended
            return None
        return None if limit is None or limit >= self._housing.limits.memory_mib * _MIB else limit

    def _update_memory(self, limit: int) -> None:
        with expecting(f"limit the memory of node {self._endpoint}"):
            self._container.update(mem_limit=limit, memswap_limit=limit)
