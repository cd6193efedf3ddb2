"""The environment `local`: set a cluster of processes up, let faults and clients at it, take it down."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, TypeVar

from harness.environments.administrator import SpawnedAdministrator
from harness.environments.base import Addresses, EnvironmentFailed, NodePlan, Process, System
from harness.environments.cluster import ClusterUnderTest
from harness.environments.local.host import KeptHost
from harness.environments.local.offers import choose, offered
from harness.environments.machine.helper import HelperRefused
from harness.environments.machine.keeper import ClientProcess, Keeper
from harness.environments.machine.keeper_process import Settings
from harness.environments.machine.node import MachineNode
from harness.environments.machine.processes import RUN_MARK
from harness.environments.machine.wall_clock import WallClock, compile_library
from harness.environments.network.network import JournaledNetwork, Namespaces, NetworkEngine
from harness.environments.network.proxies import Proxies
from harness.environments.storage.fuse import FuseMounts
from harness.environments.storage.page_cache import Ext4Images, Ledger, PageCache
from harness.journal import Journal
from nemesis.cluster import CLIENTS, Capability

FIRST_CONTROLLER = 100

LocalCluster = ClusterUnderTest[MachineNode, JournaledNetwork]

_T = TypeVar("_T")


class LocalEnvironment:
    """Implements `harness.environments.base.Environment` with processes of this machine.

    What the machine allows is found out when the environment is made; nothing is started before `set_up`.
    """

    def __init__(
        self,
        run_directory: Path,
        system: System,
        brokers: int,
        controllers: int = 1,
        network: str = "auto",
        page_cache: str = "auto",
        *,
        needs: frozenset[Capability] = frozenset(),
        journal: Journal,
    ) -> None:
        """Choose the mechanisms; `EnvironmentFailed` when one was asked for that this machine does not offer."""
        self._system = system
        self._journal = journal
        self._needs = needs
        self._chosen = choose(network, page_cache, needs)
        self._token = secrets.token_hex(8)
        self._sockets = Path(tempfile.gettempdir(), f"harrow-{self._token}")
        roles: dict[int, Literal["broker", "controller"]] = dict.fromkeys(range(1, brokers + 1), "broker")
        roles |= dict.fromkeys(range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers), "controller")
        self._listeners = {node_id: tuple(system.listeners(role)) for node_id, role in roles.items()}
        directory = run_directory.absolute() / "nodes"
        self.plans: Sequence[NodePlan] = tuple(
            NodePlan(
                node_id=node_id,
                role=role,
                directory=directory / str(node_id),
                data=directory / str(node_id) / "data",
                socket=self._sockets / f"{node_id}.sock",
                storage="page-cache" if self._chosen.page_cache == "page-cache" else "files",
            )
            for node_id, role in roles.items()
        )
        self._keeper: Keeper | None = None
        self._engine: NetworkEngine | None = None
        self._cluster: LocalCluster | None = None
        self._undo = ExitStack()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What faults can count on."""
        return offered(self._chosen)

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """How each capability is done here, in words for the report."""
        disks = {"ext4": Ext4Images.how, "fuse": FuseMounts.how, "page-cache": Ledger.how}
        return {
            "process": "signals to the node's process group",
            "network": Namespaces.how if self._chosen.network == "namespaces" else Proxies.how,
            "page-cache-loss": disks[self._chosen.page_cache],
        }

    @property
    def addresses(self) -> Addresses:
        """Where listeners bind and are reached. Known once the network is up."""
        return _made(self._engine).addresses

    @property
    def cluster(self) -> LocalCluster:
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
        self._journal.record("local", token=self._token, sockets=str(self._sockets))
        self._undo.callback(shutil.rmtree, self._sockets, ignore_errors=True)
        self._sockets.mkdir(mode=0o700)
        endpoints = (CLIENTS, *self._listeners)
        mark = {RUN_MARK: self._token}
        settings = Settings(self._chosen.network == "namespaces", self._chosen.page_cache == "ext4", endpoints)
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
                KeptHost(self._keeper, plan.node_id),
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
        keeper = _made(self._keeper)
        log.parent.mkdir(parents=True, exist_ok=True)
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        child_input, our_output = os.pipe()
        our_input, child_output = os.pipe()
        try:
            process = keeper.spawn(command, CLIENTS, child_input, child_output, errors)
        except HelperRefused as refusal:
            os.close(our_output)
            os.close(our_input)
            raise EnvironmentFailed(f"expected to run {command[0]!r} as a client, found: {refusal}") from None
        finally:
            for descriptor in (child_input, child_output, errors):
                os.close(descriptor)
        self._journal.record("process", what="client", pid=process.pid, start_time=process.start_time)
        return ClientProcess(process, os.fdopen(our_output, "wb"), os.fdopen(our_input, "rb"))

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
