"""What a workload needs of a client that administers topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from workloads.clients.base import ClientLibrary, ClientMissingError, ClientSettings, Partition


class Placement(NamedTuple):
    """Where a partition is, and where it could be."""

    replicas: tuple[int, ...]  # the preferred leader first
    brokers: tuple[int, ...]


class Administrator(Protocol):
    """Administers topics, for one thread. Whatever raises `ClientError` may have happened all the same."""

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with as many replicas as the cluster has by default."""
        ...

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        ...

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic so many partitions in all."""
        ...

    def placement(self, partition: Partition) -> Placement:
        """Tell where a partition is."""
        ...

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Ask for these replicas; returns before they are in place."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...


@runtime_checkable
class AdminLibrary(Protocol):
    """A client library that can administer topics."""

    def administrator(self, settings: ClientSettings) -> Administrator:
        """Connect; raises `ClientError` if no broker can be reached."""
        ...


def admin_library(library: ClientLibrary) -> AdminLibrary:
    """See a library as one that administers. Raises `ClientMissingError` if it is none."""
    if isinstance(library, AdminLibrary):
        return library
    raise ClientMissingError(
        f"the workload admin needs a client that is driven as an administrator, and {library.name} is not;"
        " use kafka-python"
    )
