"""What faults ask of a cluster's administration. All of it goes through the cluster's own protocol, as a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Administrator(Protocol):
    """Somebody who may administer the cluster. Errors are `NodeError`: the cluster refused, or did not answer."""

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> None:
        """Create a topic."""
        ...

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        ...

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic so many partitions in all."""
        ...

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Ask for these replicas, the preferred leader first; returns before they are in place."""
        ...

    def elect(self, topic: str, partition: int) -> None:
        """Have the preferred replica lead."""
        ...

    def setting(self, topic: str, name: str) -> str:
        """Tell a topic's setting."""
        ...

    def set(self, topic: str, name: str, value: str) -> None:
        """Change a topic's setting."""
        ...
