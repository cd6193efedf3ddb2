"""Defines the interface of clients that administer topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from workloads.clients.base import ClientLibrary, ClientMissingError, ClientSettings, Partition


class Placement(NamedTuple):
    """The replicas of a partition, and all brokers."""

    replicas: tuple[int, ...]  # the preferred leader first
    brokers: tuple[int, ...]


class TopicAdministrator(Protocol):
    """Administers topics, for one thread. A request that raises `ClientError` may have taken effect all the same."""

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with as many replicas as the cluster has by default."""
        ...

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        ...

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase the number of a topic's partitions to `total`."""
        ...

    def placement(self, partition: Partition) -> Placement:
        """Query the replicas of a partition."""
        ...

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Request these replicas; returns before they are in place."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...


@runtime_checkable
class AdminLibrary(Protocol):
    """A client library that can administer topics."""

    def administrator(self, settings: ClientSettings) -> TopicAdministrator:
        """Connect; raises `ClientError` if no broker can be reached."""
        ...


def admin_library(library: ClientLibrary) -> AdminLibrary:
    """Narrow a library to one that administers topics. Raises `ClientMissingError` if it cannot."""
    if isinstance(library, AdminLibrary):
        return library
    raise ClientMissingError(
        f"the workload admin needs a client that Harrow uses as an administrator, and {library.name} is not;"
        " use kafka-python"
    )
