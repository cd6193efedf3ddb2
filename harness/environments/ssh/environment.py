"""The environment `ssh`: set a cluster up on machines of a fleet, let faults and clients at it, take it down."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from harness.environments.administrator import SpawnedAdministrator
from harness.environments.base import Addresses, EnvironmentFailed, Mechanisms, NodePlan, Process, System
from harness.environments.cluster import ClusterUnderTest
from harness.environments.layout import listeners_of, plan_nodes
from harness.environments.machine.clients import run_client
from harness.environments.machine.helper import HelperRefused
from harness.environments.machine.keeper import Keeper
from harness.environments.machine.node import LOG_NAME
from harness.environments.machine.processes import RUN_MARK
from harness.environments.machine.wall_clock import compile_library
from harness.environments.network.network import JournaledNetwork
from harness.environments.ssh.hosts import Fleet
from harness.environments.ssh.machine import Machine, Wishes
from harness.environments.ssh.network import FleetAddresses, OnTheMachines
from harness.environments.ssh.node import SshNode
from harness.environments.ssh.offers import DISKS_TOLD, SshOffers
from harness.journal import Journal
from harness.spec import PACE_OF_VMS
from nemesis.cluster import CLIENTS, Capability, NodeError

SshCluster = ClusterUnderTest[SshNode, JournaledNetwork]

_T = TypeVar("_T")


class SshEnvironment:
    """Implements `harness.environments.base.Environment`. Nothing is changed anywhere before `set_up`."""

    def __init__(
        self,
        run_directory: Path,
        system: System,
        brokers: int,
        controllers: int,
        fleet: Fleet,
        offers: SshOffers,
        page_cache: str = "auto",
        *,
        needs: frozenset[Capability] = frozenset(),
        journal: Journal,
        combined: bool = False,
    ) -> None:
        """Plan the nodes. `EnvironmentFailed` when a page cache was asked for that the machines do not offer."""
        self._system = system
        self._fleet = fleet
        self._journal = journal
        self._needs = needs
        self._offers = offers
        self._disk = offers.choose_disk(page_cache, needs)
        self._token = secrets.token_hex(8)
        self._sockets = Path(tempfile.gettempdir(), f"harrow-{self._token}")
        plans = plan_nodes(run_directory, self._sockets, brokers, controllers, "files", combined=combined)
        self.plans: Sequence[NodePlan] = [replace(plan, pace=PACE_OF_VMS if fleet.ours else 1) for plan in plans]
        self._listeners = listeners_of(system, self.plans)
        self._keeper: Keeper | None = None
        self._engine: OnTheMachines | None = None
        self._cluster: SshCluster | None = None
        self._undo = ExitStack()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What faults can count on."""
        return self._offers.offered(Mechanisms("", self._disk))

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """How each capability is done here, in words for the report."""
        return {
            "machines": self._fleet.how,
            "process": "signals to the node's process group, by an agent on its machine",
            "network": OnTheMachines.how,
            "page-cache-loss": DISKS_TOLD[self._disk],
        }

    @property
    def addresses(self) -> Addresses:
        """Where listeners bind and are reached. Known once the machines are there."""
        return _made(self._engine).addresses

    @property
    def cluster(self) -> SshCluster:
        """What faults act on. Known once it is set up."""
        return _made(self._cluster)

    def set_up(self) -> None:
        """Have machines, install, start all nodes; takes everything down again if that fails."""
        try:
            self._set_up()
        except (HelperRefused, NodeError, OSError, subprocess.SubprocessError) as error:
            self.tear_down()
            raise EnvironmentFailed(f"expected to set the cluster up, found: {error}") from error
        except BaseException:
            self.tear_down()
            raise

    def _set_up(self) -> None:
        self._journal.record("run", token=self._token, sockets=str(self._sockets))
        self._undo.callback(shutil.rmtree, self._sockets, ignore_errors=True)
        self._sockets.mkdir(mode=0o700)
        self._keeper = Keeper(self._fleet.settings(list(self._listeners)), {RUN_MARK: self._token})
        self._undo.callback(self._keeper.close)
        self._journal.record("keeper", pid=self._keeper.pid)
        self._undo.callback(self._fleet.tear_down)
        self._fleet.set_up(self._keeper, self._sockets, list(self._listeners))
        addresses = FleetAddresses(self._fleet, self._listeners)
        machines = self._machines()
        self._engine = OnTheMachines(machines, self._fleet, addresses)
        self._undo.callback(self._engine.close)
        for plan in self.plans:
            plan.directory.mkdir(parents=True, exist_ok=True)
            machine = machines[plan.node_id]
            self._system.configure(machine.settings_plan, [one.settings_plan for one in machines.values()], addresses)
            machine.came_back = partial(self._engine.tell_again, plan.node_id)
            self._undo.callback(self._leave, machine)
        self._on_all(machines.values(), Machine.attach)
        own_power = self._disk == "power-cut"
        nodes = {
            node_id: SshNode(machine, self._system, self._journal, own_power=own_power)
            for node_id, machine in machines.items()
        }
        endpoints = (CLIENTS, *self._listeners)
        network = JournaledNetwork(endpoints, self._engine, self._journal)
        log = self.plans[0].directory.parent / "administration.log"
        administrator = SpawnedAdministrator(self.spawn_client, self.addresses, self.plans, log)
        self._cluster = ClusterUnderTest(nodes, network, self.capabilities, self._system, self.plans, administrator)
        self._on_all(nodes.values(), SshNode.start)

    def _machines(self) -> Mapping[int, Machine]:
        clock: Literal["library", "real", ""] = ""
        library = b""
        if "clock" in self._needs:
            clock = "real" if self._fleet.ours else "library"
            if clock == "library":
                target = self.plans[0].directory.parent / "clock.so"
                target.parent.mkdir(parents=True, exist_ok=True)
                library = compile_library(target).read_bytes()
        wishes = Wishes(
            token=self._token,
            disk=self._disk,
            clock=clock,
            library=library,
            peers={plan.node_id: self._fleet.host(plan.node_id).peer for plan in self.plans},
        )
        machines = {}
        for plan in self.plans:
            host = self._fleet.host(plan.node_id)
            if not self._fleet.ours:  # machines that are ours end with the run, whatever becomes of it
                self._journal.record("ssh", node=plan.node_id, **host.told())
            machines[plan.node_id] = machine = Machine(plan, self._system, self._fleet, wishes)
            self._undo.callback(machine.close)
        return machines

    def _leave(self, machine: Machine) -> None:
        """Fetch the node's log before its machine is left."""
        if machine.is_there:
            with contextlib.suppress(NodeError):  # the machine is gone, and so is its log
                machine.call("node", "kill")
                machine.fetch_log(machine.plan.directory / LOG_NAME)

    @staticmethod
    def _on_all(things: Iterable[_T], work: Callable[[_T], None]) -> None:
        """Do it for all at once; the first error is raised when all have ended."""
        things = list(things)
        with ThreadPoolExecutor(len(things)) as pool:
            for done in [pool.submit(work, thing) for thing in things]:
                done.result()

    def await_ready(self, timeout_s: float) -> None:
        """Wait until every node serves; `NodeError` with its last log lines for one that does not."""
        for node in self.cluster.nodes.values():
            node.await_ready(timeout_s)

    def spawn_client(self, command: Sequence[str], log: Path) -> Process:
        """Run a client process as endpoint `CLIENTS`, with pipes for standard input and output."""
        return run_client(_made(self._keeper), self._journal, command, log)

    def tear_down(self) -> None:
        """Stop everything that was started and undo everything that was made. Safe at any time, and twice."""
        try:
            self._undo.close()
        except (HelperRefused, NodeError, OSError) as error:
            raise EnvironmentFailed(f"expected to take the cluster down, found: {error}") from error


def _made(thing: _T | None) -> _T:
    if thing is None:
        raise EnvironmentFailed("expected the environment to be set up, found that it is not")
    return thing
