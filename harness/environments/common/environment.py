"""The common base of all environments: sets a cluster up, gives access to it, and takes it down.

They differ in where nodes run, in their disks and in their network (`ClusterEnvironment._set_up`).
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from harness.environments.base import Addresses, EnvironmentFailed, NodePlan, Process, System
from harness.environments.common.cluster import ClusterUnderTest, SpawnedAdministrator
from harness.environments.common.layout import listeners_of, place_for_sockets
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import ClientProcess, Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.machine.kernel.process_identity import RUN_MARK
from harness.environments.network.network import JournaledNetwork, NetworkEngine
from harness.store.journal import Journal
from nemesis.capabilities.cluster import CLIENTS, Capability, ClusterNode, Endpoint


def run_client(supervisor: Supervisor, journal: Journal, command: Sequence[str], log: Path) -> Process:
    """Run a client process as endpoint `CLIENTS`, with pipes for standard input and output; its errors go to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    child_input, our_output = os.pipe()
    our_input, child_output = os.pipe()
    try:
        process = supervisor.spawn(command, CLIENTS, child_input, child_output, errors)
    except HelperRefused as refusal:
        os.close(our_output)
        os.close(our_input)
        raise EnvironmentFailed(f"expected to run {command[0]!r} as a client, found: {refusal}") from None
    finally:
        for descriptor in (child_input, child_output, errors):
            os.close(descriptor)
    journal.record("process", what="client", pid=process.pid, start_time=process.start_time)
    return ClientProcess(process, os.fdopen(our_output, "wb"), os.fdopen(our_input, "rb"))


class StartedNode(ClusterNode, Protocol):
    """A node as its environment sees it."""

    def await_ready(self, timeout_s: float) -> None:
        """Wait until it serves; `NodeError` when it dies first, or the timeout passes."""
        ...


NodeT = TypeVar("NodeT", bound=StartedNode)
EngineT = TypeVar("EngineT", bound=NetworkEngine)
_T = TypeVar("_T")


class ClusterEnvironment(ABC, Generic[NodeT, EngineT]):
    """Implements `harness.environments.base.Environment`. Nothing is started before `set_up`."""

    _TROUBLES: tuple[type[Exception], ...] = (HelperRefused, OSError, subprocess.SubprocessError)
    """Exceptions of set-up and tear-down besides `EnvironmentFailed`."""

    def __init__(self, system: System, *, needs: frozenset[Capability], journal: Journal) -> None:
        """`needs` are the capabilities that the run's faults need."""
        self._system = system
        self._journal = journal
        self._needs = needs
        self._token = secrets.token_hex(8)
        self._sockets = place_for_sockets() / f"harrow-{self._token}"
        self._supervisor: Supervisor | None = None
        self._engine: EngineT | None = None
        self._cluster: ClusterUnderTest[NodeT, JournaledNetwork] | None = None
        self._undo = ExitStack()
        self.spare: frozenset[int] = frozenset()
        """Nodes whose files and links set-up makes, but which it does not start."""

        self._lay_out(())

    def _lay_out(self, plans: Sequence[NodePlan]) -> None:
        self.plans = plans
        self._listeners: Mapping[Endpoint, Sequence[str]] = listeners_of(self._system, plans)

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that faults can use."""

    @property
    @abstractmethod
    def mechanisms(self) -> Mapping[str, str]:
        """Descriptions of the mechanisms, for the report."""

    @abstractmethod
    def _set_up(self) -> None:
        """Create everything and start all nodes; `_undo` is run if it fails."""

    @property
    def addresses(self) -> Addresses:
        """Addresses of listeners. Available once the network is up."""
        return _made(self._engine).addresses

    @property
    def cluster(self) -> ClusterUnderTest[NodeT, JournaledNetwork]:
        """The cluster that faults act on. Available after set-up."""
        return _made(self._cluster)

    @property
    def _running_supervisor(self) -> Supervisor:
        return _made(self._supervisor)

    def set_up(self) -> None:
        """Create what nodes need, write their settings, start them all; takes everything down again if that fails."""
        try:
            self._journal.record("run", token=self._token, sockets=str(self._sockets))
            self._undo.callback(shutil.rmtree, self._sockets, ignore_errors=True)
            self._sockets.mkdir(mode=0o700)
            self._set_up()
        except self._TROUBLES as error:
            self.tear_down()
            raise EnvironmentFailed(f"expected to set the cluster up, found: {error}") from error
        except BaseException:
            self.tear_down()
            raise

    def _start_supervisor(self, settings: SupervisorSettings) -> Supervisor:
        self._supervisor = Supervisor(settings, {RUN_MARK: self._token})
        self._undo.callback(self._supervisor.close)
        self._journal.record("keeper", pid=self._supervisor.pid)
        return self._supervisor

    def _assemble(self, nodes: Mapping[int, NodeT], engine: NetworkEngine) -> None:
        """Create the cluster that faults act on."""
        network = JournaledNetwork((CLIENTS, *self._listeners), engine, self._journal)
        log = self.plans[0].directory.parent / "administration.log"
        administrator = SpawnedAdministrator(self.spawn_client, self.addresses, self.plans, log)
        self._cluster = ClusterUnderTest(nodes, network, self.capabilities, self._system, self.plans, administrator)

    def await_ready(self, timeout_s: float) -> None:
        """Wait until all nodes but the spare ones serve; `NodeError` with its last log lines for one that does not."""
        for node_id, node in self.cluster.nodes.items():
            if node_id not in self.spare:
                node.await_ready(timeout_s)

    def spawn_client(self, command: Sequence[str], log: Path) -> Process:
        """Run a client process as endpoint `CLIENTS`, with pipes for standard input and output."""
        return run_client(self._running_supervisor, self._journal, command, log)

    def tear_down(self) -> None:
        """Stop all processes and remove all resources that set-up created. Safe at any time, and twice."""
        try:
            self._undo.close()
        except self._TROUBLES as error:
            raise EnvironmentFailed(f"expected to take the cluster down, found: {error}") from error


def _made(thing: _T | None) -> _T:
    if thing is None:
        raise EnvironmentFailed("expected the environment to be set up, found that it is not")
    return thing
