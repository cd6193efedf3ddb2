"""The cluster as faults see it: its nodes, its network, the state that the system reports, and its administration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from harness.environments.base import Addresses, NodePlan, Process, System
from harness.environments.machine.helpers.programs import module_command
from nemesis.capabilities.cluster import (
    CLIENTS,
    Administrator,
    Capability,
    ClusterNode,
    Network,
    NodeError,
    PartitionView,
    VoterView,
    is_broker,
)

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


_TIMEOUT_S = 30.0
_CLIENT_LISTENER = "CLIENT"


@dataclass(frozen=True)
class SpawnedAdministrator:
    """Implements `nemesis.capabilities.cluster.Administrator`."""

    spawn: Callable[[Sequence[str], Path], Process]
    addresses: Addresses
    plans: Sequence[NodePlan]
    log: Path
    client_config: str = ""  # file for TLS and SASL; empty: plain text

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> None:
        """Create a topic."""
        self._ask("create-topic", topic, partitions=partitions, replication_factor=replication_factor)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        self._ask("delete-topic", topic)

    def add_partitions(self, topic: str, total: int) -> None:
        """Raise a topic's number of partitions to `total`."""
        self._ask("add-partitions", topic, total=total)

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Request these replicas for a partition."""
        self._ask("reassign", topic, partition=partition, replicas=list(replicas))

    def elect(self, topic: str, partition: int) -> None:
        """Request the election of the preferred replica."""
        self._ask("elect", topic, partition=partition)

    def setting(self, topic: str, name: str) -> str:
        """Read a topic's setting."""
        return str(self._ask("setting", topic, name=name))

    def set(self, topic: str, name: str, value: str) -> None:
        """Change a topic's setting."""
        self._ask("set", topic, name=name, value=value)

    def _ask(self, do: str, topic: str, **details: object) -> object:
        brokers = [plan.node_id for plan in self.plans if is_broker(plan)]
        reached = (self.addresses.reach(CLIENTS, broker, _CLIENT_LISTENER) for broker in brokers)
        bootstrap = [f"{host}:{port}" for host, port in reached]
        asked = {"bootstrap": bootstrap, "client_config": self.client_config, "do": do, "topic": topic, **details}
        request = json.dumps(asked)
        process = self.spawn(module_command("harness.systems.administration", request), self.log)
        process.stdin.close()
        try:
            status = process.wait(_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            raise NodeError(f"expected the cluster to {do} {topic} within {_TIMEOUT_S:g} s, found no answer") from None
        with process.stdout as stdout:
            answer = stdout.read()
        if status != 0:
            raise NodeError(self._last_words(do, topic))
        return json.loads(answer)

    def _last_words(self, do: str, topic: str) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else f"expected the cluster to {do} {topic}, found that it did not"
