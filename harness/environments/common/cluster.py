"""The cluster as faults see it: nodes, network, and what the system says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from harness.environments.base import NodePlan, System
from nemesis.capabilities.administration import Administrator
from nemesis.capabilities.cluster import Capability, Network, Node, PartitionView, VoterView

NodeT = TypeVar("NodeT", bound=Node)
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
        """The latest view; empty if nobody can tell."""
        return self._system.view(self._answering())

    def active_controller(self) -> int | None:
        """The node that is the active controller."""
        return self._system.active_controller(self._answering())

    def voters(self) -> Sequence[VoterView]:
        """What each controller that answers says of the quorum."""
        return self._system.voters(self._answering())

    def _answering(self) -> Sequence[NodePlan]:
        """Dead and paused nodes cannot tell; asking them costs a timeout."""
        return [
            plan
            for plan in self._plans
            if self.nodes[plan.node_id].is_alive() and not self.nodes[plan.node_id].is_paused()
        ]
