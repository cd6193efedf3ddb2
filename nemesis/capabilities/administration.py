"""The interface by which faults administer topics. It uses the cluster's own protocol, as a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Administrator(Protocol):
    """Administers topics. Errors are `NodeError`: the cluster refused, or did not answer."""

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> None:
        """Create a topic."""
        ...

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        ...

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase the number of a topic's partitions to `total`."""
        ...

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Request these replicas, the preferred leader first; returns before they are in place."""
        ...

    def elect(self, topic: str, partition: int) -> None:
        """Elect the preferred leader."""
        ...

    def setting(self, topic: str, name: str) -> str:
        """Return the value of a topic's setting."""
        ...

    def set(self, topic: str, name: str, value: str) -> None:
        """Change a topic's setting."""
        ...
