"""A system of which there are two versions: each node starts with the first, and with the second once it is told to.

The two are systems of their own, with their own settings and programs. They share the nodes' directories and data:
whether the second can read what the first has written is what a run finds out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.environments.base import Addresses, LogRecord, NodePlan, ReplicaState, System, Traits
from harness.systems.definition import Command
from harness.systems.foreign import BrokerFromImage
from nemesis.capabilities.cluster import Capability, NodeRole, PartitionView, VoterView


@dataclass(frozen=True)
class UpgradableSystem:
    """Implements `harness.environments.base.System` and `harness.environments.base.Upgradable`."""

    first: System
    second: System
    _upgraded: set[int] = field(default_factory=set)
    _cluster: dict[int, tuple[Sequence[NodePlan], Addresses]] = field(default_factory=dict)  # as nodes were configured

    @property
    def name(self) -> str:
        """The name of the first version's system."""
        return self.first.name

    @property
    def traits(self) -> Traits:
        """What holds for a node of either version."""
        first, second = self.first.traits, self.second.traits
        return replace(
            first,
            orderly_exits=first.orderly_exits | second.orderly_exits,
            start_s=max(first.start_s, second.start_s),
            stop_s=max(first.stop_s, second.stop_s),
            session_ms_min=max(first.session_ms_min, second.session_ms_min),
            not_back_after=first.not_back_after & second.not_back_after,
            versions={**first.versions, "upgraded to": self.second.version_name},
        )

    @property
    def version_name(self) -> str:
        """The version with which the run starts."""
        return self.first.version_name

    @property
    def next_version(self) -> str:
        """The version to upgrade to."""
        return self.second.version_name

    def upgrade(self, plan: NodePlan) -> None:
        """Run the second version of the node from its next start on: write its settings over those of the first."""
        plans, addresses = self._cluster[plan.node_id]
        self.second.configure(plan, plans, addresses)
        self._upgraded.add(plan.node_id)

    def _of(self, plan: NodePlan) -> System:
        return self.second if plan.node_id in self._upgraded else self.first

    def version(self, plan: NodePlan) -> str | None:
        """The version that the node's process reports, which is the one that it was started with."""
        return self._of(plan).version(plan)

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:
        """What either version does not support."""
        return self.first.cannot(network, page_cache) | self.second.cannot(network, page_cache)

    def listeners(self, role: NodeRole) -> Sequence[str]:
        """Those of the first version; the second has the same."""
        return self.first.listeners(role)

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        """Write the settings of the first version."""
        self._cluster[plan.node_id] = plans, addresses
        self.first.configure(plan, plans, addresses)

    def command(self, plan: NodePlan) -> Sequence[str]:
        """The command that runs the node's version in the foreground."""
        return self._of(plan).command(plan)

    def offsets_partition_of(self, group: str) -> int | None:
        """Where the first version keeps a group, if the second does the same."""
        kept = self.first.offsets_partition_of(group)
        return kept if kept == self.second.offsets_partition_of(group) else None

    def stop_command(self, plan: NodePlan, pid: int) -> Sequence[str] | None:
        """How the node's version is stopped."""
        return self._of(plan).stop_command(plan, pid)

    def log_patterns(self, role: NodeRole) -> Sequence[str]:
        """The log files of either version."""
        return tuple(dict.fromkeys([*self.first.log_patterns(role), *self.second.log_patterns(role)]))

    def is_ready(self, plan: NodePlan) -> bool:
        """Whether the node reports that it serves."""
        return self._of(plan).is_ready(plan)

    def unfit(self, plans: Sequence[NodePlan]) -> str | None:
        """Why the cluster is not the one that is to be tested, by what each node runs."""
        by_version = ([plan for plan in plans if self._of(plan) is system] for system in (self.first, self.second))
        reasons = (system.unfit(own) for system, own in zip((self.first, self.second), by_version, strict=True))
        return next((reason for reason in reasons if reason is not None), None)

    def replicas(self, plan: NodePlan) -> Sequence[ReplicaState]:
        """The states of this node's replicas."""
        return self._of(plan).replicas(plan)

    def view(self, plans: Sequence[NodePlan]) -> Sequence[PartitionView]:
        """The newest view: nodes of both versions report it in the same way."""
        return self.first.view(plans)

    def active_controller(self, plans: Sequence[NodePlan]) -> int | None:
        """The node that is the active controller."""
        return self.first.active_controller(plans)

    def voters(self, plans: Sequence[NodePlan]) -> Sequence[VoterView]:
        """The quorum as the controllers report it."""
        return self.first.voters(plans)

    def log(self, plan: NodePlan, topic: str, partition: int) -> Iterator[LogRecord]:
        """Read a replica's whole log."""
        return self._of(plan).log(plan, topic, partition)

    def lose_page_cache(self, plan: NodePlan) -> Mapping[str, tuple[int, int]]:
        """Drop a dead node's unsynced data."""
        return self._of(plan).lose_page_cache(plan)

    def disk_changed(self, plan: NodePlan) -> None:
        """Discard what is recorded of the files."""
        self._of(plan).disk_changed(plan)


@dataclass(frozen=True)
class UpgradableFromImages(UpgradableSystem):
    """Two versions that are images. Also implements `harness.environments.docker.environment.Contents`."""

    first: BrokerFromImage
    second: BrokerFromImage

    def _of(self, plan: NodePlan) -> BrokerFromImage:
        return self.second if plan.node_id in self._upgraded else self.first

    @property
    def images(self) -> Sequence[str]:
        """The image of the first version and that of the second."""
        return (self.first.image, self.second.image)

    def image_of(self, plan: NodePlan) -> str:
        """The image of the node's version."""
        return self._of(plan).image

    def environment(self, plan: NodePlan) -> Mapping[str, str]:
        """Environment variables of the node's version."""
        return self._of(plan).environment(plan)

    def sidecar(self, plan: NodePlan, pid: int) -> Command:
        """The command of the sidecar of the node's version."""
        return self._of(plan).sidecar(plan, pid)
