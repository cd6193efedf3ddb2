"""The environment `local`: nodes are processes of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.environments.base import NodePlan, System
from harness.environments.local.capabilities import choose, offered
from harness.environments.machine.environment import MachineEnvironment
from harness.environments.machine.process_host import ProcessHost
from harness.environments.network.network import Namespaces
from harness.environments.network.proxies import Proxies
from harness.store.journal import Journal
from nemesis.capabilities.cluster import Capability


class LocalEnvironment(MachineEnvironment):
    """The machine is probed when the environment is created; nothing is started before `set_up`."""

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
        combined: bool = False,
    ) -> None:
        """Select the mechanisms; `EnvironmentFailed` when this machine lacks one that the user asked for."""
        chosen = choose(network, page_cache, needs)
        super().__init__(
            run_directory, system, brokers, controllers, chosen, needs=needs, journal=journal, combined=combined
        )

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that faults can use."""
        return offered(self._chosen) - self._system.cannot(*self._chosen)

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """Descriptions of the mechanisms, for the report."""
        return {
            "process": "signals to the node's process group",
            "network": Namespaces.how if self._chosen.network == "namespaces" else Proxies.how,
            "page-cache-loss": self._disk_description(),
        }

    def _host(self, plan: NodePlan) -> ProcessHost:
        return ProcessHost(self._running_supervisor, plan.node_id)
