"""The environment `local`: nodes are processes of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.environments.base import NodePlan, System
from harness.environments.local.capabilities import choose, offered
from harness.environments.local.host import KeptHost
from harness.environments.machine.environment import MachineEnvironment
from harness.environments.network.network import Namespaces
from harness.environments.network.proxies import Proxies
from harness.store.journal import Journal
from nemesis.capabilities.cluster import Capability


class LocalEnvironment(MachineEnvironment):
    """What the machine allows is found out when the environment is made; nothing is started before `set_up`."""

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
        """Choose the mechanisms; `EnvironmentFailed` when one was asked for that this machine does not offer."""
        chosen = choose(network, page_cache, needs)
        super().__init__(
            run_directory, system, brokers, controllers, chosen, needs=needs, journal=journal, combined=combined
        )

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What faults can count on."""
        return offered(self._chosen) - self._system.cannot(*self._chosen)

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """How each capability is done here, in words for the report."""
        return {
            "process": "signals to the node's process group",
            "network": Namespaces.how if self._chosen.network == "namespaces" else Proxies.how,
            "page-cache-loss": self._disks_told(),
        }

    def _host(self, plan: NodePlan) -> KeptHost:
        return KeptHost(self._kept_by, plan.node_id)
