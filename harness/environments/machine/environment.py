"""What environments on this machine have in common: set a cluster up, let faults and clients at it, take it down.

They differ in what a node is housed in: see `MachineEnvironment._host`.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, TypeVar

from harness.environments.administrator import SpawnedAdministrator
from harness.environments.base import Addresses, EnvironmentFailed, Mechanisms, NodePlan, Process, System
from harness.environments.cluster import ClusterUnderTest
from harness.environments.layout import listeners_of, plan_nodes
from harness.environments.machine.clients import run_client
from harness.environments.machine.helper import HelperRefused
from harness.environments.machine.keeper import Keeper
from harness.environments.machine.keeper_process import Settings
from harness.environments.machine.node import Host, MachineNode
from harness.environments.machine.processes import RUN_MARK
from harness.environments.machine.wall_clock import WallClock, compile_library
from harness.environments.network.network import JournaledNetwork, Namespaces, NetworkEngine
from harness.environments.network.proxies import Proxies
from harness.environments.storage.fuse import FuseMounts
from harness.environments.storage.page_cache import Ext4Images, Ledger, PageCache
from harness.journal import Journal
from nemesis.cluster import CLIENTS, Capability, Endpoint

MachineCluster = ClusterUnderTest[MachineNode, JournaledNetwork]

_T = TypeVar("_T")


class MachineEnvironment(ABC):
    """Implements `harness.environments.base.Environment`. Nothing is started before `set_up`."""

    _MOUNTS_ARE_PRIVATE = True
    """Whether disks are seen by processes of the keeper alone, and end with it."""

    def __init__(
        self,
        run_directory: Path,
        system: System,
        brokers: int,
        controllers: int,
        chosen: Mechanisms,
        *,
        needs: frozenset[Capability],
        journal: Journal,
        combined: bool = False,
    ) -> None:
        """Plan the nodes. `needs` is what the run's faults need, `chosen` the mechanisms that offer it."""
        self._system = system
        self._journal = journal
        self._needs = needs
        self._chosen = chosen
        self._token = secrets.token_hex(8)
        self._sockets = Path(tempfile.gettempdir(), f"harrow-{self._token}")
        storage: Literal["files", "page-cache"] = "page-cache" if chosen.page_cache == "page-cache" else "files"
        self.plans: Sequence[NodePlan] = plan_nodes(
            run_directory, self._sockets, brokers, controllers, storage, combined=combined
        )
        self._listeners = listeners_of(system, self.plans)
        self._keeper: Keeper | None = None
        self._engine: NetworkEngine | None = None
        self._cluster: MachineCluster | None = None
        self._undo = ExitStack()

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[Capability]:
        """What faults can count on."""

    @property
    @abstractmethod
    def mechanisms(self) -> Mapping[str, str]:
        """How each capability is done here, in words for the report."""

    @abstractmethod
    def _host(self, plan: NodePlan) -> Host:
        """What runs the processes of a node."""

    def _make_namespaces(self) -> Mapping[Endpoint, str]:
        """Make the network namespaces of those endpoints that bring their own; their paths."""
        return {}

    @property
    def _kept_by(self) -> Keeper:
        return _made(self._keeper)

    def _disks_told(self) -> str:
        return {"ext4": Ext4Images.how, "fuse": FuseMounts.how, "page-cache": Ledger.how}[self._chosen.page_cache]

    @property
    def addresses(self) -> Addresses:
        """Where listeners bind and are reached. Known once the network is up."""
        return _made(self._engine).addresses

    @property
    def cluster(self) -> MachineCluster:
        """What faults act on. Known once it is set up."""
        return _made(self._cluster)

    def set_up(self) -> None:
        """Make network and disks, write settings, start all nodes; takes everything down again if that fails."""
        try:
            self._set_up()
        except (HelperRefused, OSError, subprocess.SubprocessError) as error:
            self.tear_down()
            raise EnvironmentFailed(f"expected to set the cluster up, found: {error}") from error
        except BaseException:
            self.tear_down()
            raise

    def _set_up(self) -> None:
        self._journal.record("run", token=self._token, sockets=str(self._sockets))
        self._undo.callback(shutil.rmtree, self._sockets, ignore_errors=True)
        self._sockets.mkdir(mode=0o700)
        endpoints = (CLIENTS, *self._listeners)
        mark = {RUN_MARK: self._token}
        settings = Settings(
            network=self._chosen.network == "namespaces",
            mounts=self._chosen.page_cache == "ext4" and self._MOUNTS_ARE_PRIVATE,
            endpoints=endpoints,
            namespaces=list(self._make_namespaces().items()),
        )
        disk: PageCache
        self._keeper = Keeper(settings, mark)
        self._undo.callback(self._keeper.close)
        self._journal.record("keeper", pid=self._keeper.pid)
        if self._chosen.page_cache == "ext4":
            disk = Ext4Images(self._keeper, self._journal)
        elif self._chosen.page_cache == "fuse":
            disk = FuseMounts(self._journal, mark)
        else:
            disk = Ledger(self._system)
        for plan in self.plans:
            plan.directory.mkdir(parents=True, exist_ok=True)
            self._undo.callback(disk.release, plan)
            disk.prepare(plan)
        if self._chosen.network == "namespaces":
            self._engine = Namespaces(self._keeper, self._listeners)
        else:
            self._engine = Proxies(self._listeners, mark)
        self._undo.callback(self._engine.close)
        for plan in self.plans:
            self._system.configure(plan, self.plans, self._engine.addresses)
        clocks = self._make_clocks()
        nodes = {
            plan.node_id: MachineNode(
                plan,
                self._system,
                self._host(plan),
                disk,
                self._journal,
                clocks.get(plan.node_id),
            )
            for plan in self.plans
        }
        network = JournaledNetwork(endpoints, self._engine, self._journal)
        log = self.plans[0].directory.parent / "administration.log"
        administrator = SpawnedAdministrator(self.spawn_client, self.addresses, self.plans, log)
        self._cluster = ClusterUnderTest(nodes, network, self.capabilities, self._system, self.plans, administrator)
        for node in nodes.values():
            self._undo.callback(node.kill)
            node.start()

    def _make_clocks(self) -> Mapping[int, WallClock]:
        """A wall clock for every node, if a fault needs one: a preloaded library is nothing to have without need."""
        if "clock" not in self._needs:
            return {}
        library = compile_library(self.plans[0].directory.parent / "clock.so")
        return {plan.node_id: WallClock(library, plan.directory / "clock") for plan in self.plans}

    def await_ready(self, timeout_s: float) -> None:
        """Wait until every node serves; `NodeError` with its last log lines for one that does not."""
        for node in self.cluster.nodes.values():
            node.await_ready(timeout_s)

    def spawn_client(self, command: Sequence[str], log: Path) -> Process:
        """Run a client process as endpoint `CLIENTS`, with pipes for standard input and output."""
        return run_client(self._kept_by, self._journal, command, log)

    def tear_down(self) -> None:
        """Stop everything that was started and undo everything that was made. Safe at any time, and twice."""
        try:
            self._undo.close()
        except (HelperRefused, OSError) as error:
            raise EnvironmentFailed(f"expected to take the cluster down, found: {error}") from error


def _made(thing: _T | None) -> _T:
    if thing is None:
        raise EnvironmentFailed("expected the environment to be set up, found that it is not")
    return thing
