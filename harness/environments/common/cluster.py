"""The cluster as faults see it: its nodes, its network, and the state that the system reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from harness.environments.base import NodePlan, System
from nemesis.capabilities.cluster import Administrator, Capability, ClusterNode, Network, PartitionView, VoterView

NodeT = TypeVar("NodeT", bound=ClusterNode)
NetworkT = TypeVar("NetworkT", bound=Network)


class ClusterUnderTest(Generic[NodeT, NetworkT]):
    """Implements `nemesis.capabilities.cluster.Cluster`."""

    def __init__(
        self,
        nodes: Mapping[int, NodeT],
        network: NetworkT,
        capabilities: frozenset[Capability],
        system: System,
        plans: Sequence[NodePlan],
        administrator: Administrator,
    ) -> None:
        self.administrator = administrator
        self.nodes = nodes
        self.network = network
        self.capabilities = capabilities
        self._system = system
        self._plans = plans

    def partitions(self) -> Sequence[PartitionView]:
        """The latest view; empty if no node answers."""
        return self._system.view(self._answering())

    def active_controller(self) -> int | None:
        """The node that is the active controller."""
        return self._system.active_controller(self._answering())

    def voters(self) -> Sequence[VoterView]:
        """The quorum as each answering controller reports it."""
        return self._system.voters(self._answering())

    def _answering(self) -> Sequence[NodePlan]:
        """The nodes that can answer. Asking dead and paused nodes would cost a timeout."""
        return [
            plan
            for plan in self._plans
            if self.nodes[plan.node_id].is_alive() and not self.nodes[plan.node_id].is_paused()
        ]
