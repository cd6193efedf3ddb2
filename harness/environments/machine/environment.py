"""The common base of the environments on this machine (`local`, `docker`): sets a cluster up and takes it down.

They differ in how they run a node: see `MachineEnvironment._host`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from harness.environments.base import Mechanisms, NodePlan, System
from harness.environments.common.environment import ClusterEnvironment
from harness.environments.common.layout import plan_nodes
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.machine.kernel.process_identity import RUN_MARK
from harness.environments.machine.node import MachineNode, NodeHost
from harness.environments.machine.wall_clock import SkewedClock, compile_library
from harness.environments.network.network import Namespaces, NetworkEngine
from harness.environments.network.proxies import Proxies
from harness.environments.storage.fuse import FuseMounts
from harness.environments.storage.page_cache import Ext4Images, Ledger, PageCache
from harness.store.journal import Journal
from nemesis.capabilities.cluster import CLIENTS, Capability, Endpoint


class MachineEnvironment(ClusterEnvironment[MachineNode, NetworkEngine]):
    """An environment of this machine. Nothing is started before `set_up`."""

    _MOUNTS_ARE_PRIVATE = True
    """Whether only processes of the supervisor see the disks, which then end with it."""

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
        """Plan the nodes. `needs` are the capabilities that the run's faults need, `chosen` the mechanisms for them."""
        super().__init__(system, needs=needs, journal=journal)
        self._chosen = chosen
        storage: Literal["files", "page-cache"] = "page-cache" if chosen.page_cache == "page-cache" else "files"
        plans = plan_nodes(
            run_directory,
            self._sockets,
            brokers,
            controllers,
            storage,
            combined=combined,
            controllers_from=system.traits.controllers_from,
        )
        self._lay_out(plans)

    @abstractmethod
    def _host(self, plan: NodePlan) -> NodeHost:
        """The host that runs a node's processes."""

    def _make_namespaces(self) -> Mapping[Endpoint, str]:
        """Create the namespaces of endpoints that bring their own; returns their paths."""
        return {}

    def _disk_description(self) -> str:
        if "page-cache-loss" in self._system.cannot(*self._chosen):
            return "none: the nodes' files are ordinary ones"
        return {"ext4": Ext4Images.how, "fuse": FuseMounts.how, "page-cache": Ledger.how}[self._chosen.page_cache]

    def _set_up(self) -> None:
        endpoints = (CLIENTS, *self._listeners)
        mark = {RUN_MARK: self._token}
        settings = SupervisorSettings(
            network=self._chosen.network == "namespaces",
            mounts=self._chosen.page_cache == "ext4" and self._MOUNTS_ARE_PRIVATE,
            endpoints=endpoints,
            namespaces=list(self._make_namespaces().items()),
        )
        disk: PageCache
        supervisor = self._start_supervisor(settings)
        if self._chosen.page_cache == "ext4":
            disk = Ext4Images(supervisor, self._journal)
        elif self._chosen.page_cache == "fuse":
            disk = FuseMounts(self._journal, mark)
        else:
            disk = Ledger(self._system)
        for plan in self.plans:
            plan.directory.mkdir(parents=True, exist_ok=True)
            self._undo.callback(disk.release, plan)
            disk.prepare(plan)
        if self._chosen.network == "namespaces":
            self._engine = Namespaces(supervisor, self._listeners)
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
        self._assemble(nodes, self._engine)
        for node_id, node in nodes.items():
            self._undo.callback(node.kill)
            if node_id not in self.spare:
                node.start()

    def _make_clocks(self) -> Mapping[int, SkewedClock]:
        """Create a wall clock for every node if a fault needs it; otherwise no library is preloaded."""
        if "clock" not in self._needs:
            return {}
        library = compile_library(self.plans[0].directory.parent / "clock.so")
        return {plan.node_id: SkewedClock(library, plan.directory / "clock") for plan in self.plans}
