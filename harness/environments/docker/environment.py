"""The environment `docker`: nodes are containers.

Every node is two containers. The one does nothing but hold the network namespace, so that the node keeps its
interfaces, cuts and shapes over a restart; the other is the node, and shares it. The engine makes no network for them:
the keeper wires their namespaces to its switch, as it does for processes. Clients are processes in a namespace of the
keeper's. Disks are mounted where the engine sees them, and a node finds its files under the same path as the harness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.environments.base import EnvironmentFailed, NodePlan, System
from harness.environments.docker import engine, image
from harness.environments.docker.holder import container_name, hold_namespace
from harness.environments.docker.host import ContainerHost, Housing, Limits
from harness.environments.docker.offers import choose, offered
from harness.environments.docker.python_tree import PACKAGES_AT
from harness.environments.machine.environment import MachineEnvironment
from harness.environments.machine.processes import RUN_MARK
from harness.environments.network.network import Namespaces
from harness.journal import Journal
from nemesis.cluster import Capability, Endpoint

if TYPE_CHECKING:
    from docker import DockerClient

EVERYDAY = Limits(memory_mib=512, cpus=0.0)


class DockerEnvironment(MachineEnvironment):
    """Needs root: see `offers`. Nothing is started before `set_up`."""

    _MOUNTS_ARE_PRIVATE = False  # the engine must see them

    def __init__(
        self,
        run_directory: Path,
        system: System,
        brokers: int,
        controllers: int = 1,
        network: str = "auto",
        page_cache: str = "auto",
        *,
        image_name: str = "",
        limits: Limits = EVERYDAY,
        sources: Sequence[Path] = (),
        needs: frozenset[Capability] = frozenset(),
        journal: Journal,
    ) -> None:
        """Choose the mechanisms; `EnvironmentFailed` when this machine does not offer one that was asked for.

        `image_name` is an image with the system in it; empty: Harrow's own broker, built from nothing. `sources` are
        directories with Python packages that the nodes find besides those of the image.
        """
        chosen = choose(network, page_cache, needs)
        super().__init__(run_directory, system, brokers, controllers, chosen, needs=needs, journal=journal)
        self._image_name = image_name
        self._limits = limits
        self._sources = tuple(path.absolute() for path in sources)
        self._client: DockerClient | None = None
        self._holders: dict[Endpoint, str] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What faults can count on."""
        return offered(self._chosen)

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """How each capability is done here, in words for the report."""
        cpus = f"{self._limits.cpus:g} processors" if self._limits.cpus else "all processors"
        return {
            "process": f"signals to a container's process; {self._limits.memory_mib} MiB of memory, {cpus}",
            "network": f"containers that share a namespace of their own; {Namespaces.how}",
            "page-cache-loss": self._disks_told(),
        }

    def _make_namespaces(self) -> Mapping[Endpoint, str]:
        self._client = client = engine.connect()
        self._undo.callback(client.close)
        if self._image_name:
            self._image_name = image.named_image(client, self._image_name)
        else:
            self._image_name = image.broker_image(client)
        base = image.python_image(client)
        self._journal.record("containers", token=self._token)
        self._undo.callback(engine.remove_containers, client, self._token)
        return {
            plan.node_id: hold_namespace(client, base, self._token, plan.node_id, self._holders) for plan in self.plans
        }

    def _host(self, plan: NodePlan) -> ContainerHost:
        if self._client is None:
            raise EnvironmentFailed("expected the environment to be set up, found that it is not")
        packages = [*map(str, self._sources), PACKAGES_AT]
        housing = Housing(
            name=container_name(self._token, "node", plan.node_id),
            token=self._token,
            image=self._image_name,
            namespace_of=self._holders[plan.node_id],
            directories=(plan.directory.absolute(), plan.socket.parent),
            read_only=(*self._sources, *([plan.directory.parent / "clock.so"] if "clock" in self._needs else [])),
            environment={RUN_MARK: self._token, "PYTHONPATH": ":".join(packages)},
            limits=self._limits,
        )
        return ContainerHost(self._client, self._kept_by, plan.node_id, housing)
