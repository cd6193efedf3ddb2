"""Administers a cluster by client processes, one per request (`harness.client_tasks.administration`).

The process runs in the clients' network namespace, so it meets the same faults as they do, in every environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.environments.base import Addresses, NodePlan, Process
from harness.environments.machine.helpers.own_python import module_command
from nemesis.capabilities.cluster import CLIENTS, NodeError, is_broker

_TIMEOUT_S = 30.0
_CLIENT_LISTENER = "CLIENT"


@dataclass(frozen=True)
class SpawnedAdministrator:
    """Implements `nemesis.capabilities.cluster.Administrator`."""

    spawn: Callable[[Sequence[str], Path], Process]
    addresses: Addresses
    plans: Sequence[NodePlan]
    log: Path

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
        request = json.dumps({"bootstrap": bootstrap, "do": do, "topic": topic, **details})
        process = self.spawn(module_command("harness.client_tasks.administration", request), self.log)
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
