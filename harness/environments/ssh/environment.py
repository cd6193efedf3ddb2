"""The environment `ssh`: sets a cluster up on the machines of a fleet, and takes it down."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from harness.environments.base import Mechanisms, System
from harness.environments.common.environment import ClusterEnvironment
from harness.environments.common.layout import plan_nodes
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.wall_clock import compile_library
from harness.environments.ssh.capabilities import DISK_DESCRIPTIONS, SshCapabilities
from harness.environments.ssh.fleet import Fleet
from harness.environments.ssh.machine import AgentSettings, Machine
from harness.environments.ssh.network import FleetAddresses, OnTheMachines
from harness.environments.ssh.node import SshNode
from harness.spec.spec import PACE_OF_VMS
from harness.store.journal import Journal
from nemesis.capabilities.cluster import Capability, NodeError

_T = TypeVar("_T")


class SshEnvironment(ClusterEnvironment[SshNode, OnTheMachines]):
    """An environment on remote machines. Nothing is changed on them before `set_up`."""

    _TROUBLES = (HelperRefused, NodeError, OSError, subprocess.SubprocessError)

    def __init__(
        self,
        run_directory: Path,
        system: System,
        brokers: int,
        controllers: int,
        fleet: Fleet,
        capabilities: SshCapabilities,
        page_cache: str = "auto",
        *,
        needs: frozenset[Capability] = frozenset(),
        journal: Journal,
        combined: bool = False,
    ) -> None:
        """Plan the nodes. `EnvironmentFailed` when the machines lack the page cache that the user asked for."""
        super().__init__(system, needs=needs, journal=journal)
        self._fleet = fleet
        self._capabilities = capabilities
        self._disk = capabilities.select_disk(page_cache, needs)
        plans = plan_nodes(
            run_directory,
            self._sockets,
            brokers,
            controllers,
            "files",
            combined=combined,
            controllers_from=system.traits.controllers_from,
        )
        self._lay_out([replace(plan, pace=PACE_OF_VMS if fleet.ours else 1) for plan in plans])

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that faults can use."""
        return self._capabilities.offered(Mechanisms("", self._disk))

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """Descriptions of the mechanisms, for the report."""
        return {
            "machines": self._fleet.how,
            "process": "signals to the node's process group, by an agent on its machine",
            "network": OnTheMachines.how,
            "page-cache-loss": DISK_DESCRIPTIONS[self._disk],
        }

    def _set_up(self) -> None:
        supervisor = self._start_supervisor(self._fleet.settings(list(self._listeners)))
        self._undo.callback(self._fleet.tear_down)
        self._fleet.set_up(supervisor, self._sockets, list(self._listeners))
        addresses = FleetAddresses(self._fleet, self._listeners)
        machines = self._machines()
        self._engine = OnTheMachines(machines, self._fleet, addresses)
        self._undo.callback(self._engine.close)
        for plan in self.plans:
            plan.directory.mkdir(parents=True, exist_ok=True)
            machine = machines[plan.node_id]
            self._system.configure(machine.settings_plan, [one.settings_plan for one in machines.values()], addresses)
            machine.came_back = partial(self._engine.reapply, plan.node_id)
            self._undo.callback(self._leave, machine)
        self._on_all(machines.values(), Machine.attach)
        own_power = self._disk == "power-cut"
        nodes = {
            node_id: SshNode(machine, self._system, self._journal, own_power=own_power)
            for node_id, machine in machines.items()
        }
        self._assemble(nodes, self._engine)
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
        settings = AgentSettings(
            token=self._token,
            disk=self._disk,
            clock=clock,
            library=library,
            peers={plan.node_id: self._fleet.host(plan.node_id).peer for plan in self.plans},
        )
        machines = {}
        for plan in self.plans:
            host = self._fleet.host(plan.node_id)
            if not self._fleet.ours:  # our own VMs end with the run, even if it is killed
                self._journal.record("ssh", node=plan.node_id, **host.to_json())
            machines[plan.node_id] = machine = Machine(plan, self._system, self._fleet, settings)
            self._undo.callback(machine.close)
        return machines

    def _leave(self, machine: Machine) -> None:
        """Fetch the node's logs before disconnecting from its machine."""
        if machine.is_there:
            with contextlib.suppress(NodeError):  # the machine is gone, with its logs
                machine.call("node", "kill")
                machine.fetch_logs()

    @staticmethod
    def _on_all(things: Iterable[_T], work: Callable[[_T], None]) -> None:
        """Run `work` for all in parallel; raises the first error after all have ended."""
        things = list(things)
        with ThreadPoolExecutor(len(things)) as pool:
            for done in [pool.submit(work, thing) for thing in things]:
                done.result()
