"""Defines what only some client libraries can be: members of consumer groups, administrators of topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, get_args, runtime_checkable

from workloads.clients.base import ClientError, ClientLibrary, ClientMissingError, ClientSettings, Partition, Poll
from workloads.clients.classify import Status

SESSION_TIMEOUT_MS: Final = 3_000
"""Half of the least that Kafka accepts by default, so that a group soon notices that a member has crashed."""


class SessionRefusedError(ClientError):
    """A coordinator does not accept the session timeout of a member (INVALID_SESSION_TIMEOUT), and never will."""


Assignor = Literal["eager", "cooperative"]
"""How a group moves partitions: all are given up before a rebalance (range), or those alone that move (cooperative
sticky, KIP-429)."""

ASSIGNORS: Final[tuple[Assignor, ...]] = get_args(Assignor)


@dataclass(frozen=True)
class Membership:
    """A group, its topics, and the timeouts of its members."""

    group: str
    topics: tuple[str, ...]
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    heartbeat_interval_ms: int = 500
    assignor: str = "eager"
    instance: str | None = None  # of a static member (KIP-345)


class Assigned(NamedTuple):
    """A member was assigned partitions; all earlier assignments are over."""

    at_ns: int
    member: str
    generation: int
    partitions: frozenset[Partition]


class Revoked(NamedTuple):
    """A member gave partitions up, or noticed that it had lost them."""

    at_ns: int
    partitions: frozenset[Partition]


class CommitEnd(NamedTuple):
    """How a commit ended."""

    status: Status
    error: str | None = None
    node: int | None = None
    """The coordinator that acknowledged it."""
    member: str | None = None
    generation: int | None = None
    """As they were sent; None if nothing was."""
    in_doubt: bool = False
    """An attempt before the one that succeeded may still take effect."""


class CommittedReply(NamedTuple):
    """A coordinator's answer."""

    offset: int | None  # None: there is none
    node: int | None = None


class GroupMember(Protocol):
    """A subscribed client, for one thread, which must go on polling. Methods may raise `ClientError`; `crash` never."""

    def poll(self, timeout_s: float) -> Poll:
        """Return available records of the assigned partitions, joining and rejoining the group as needed.

        A position other than the one after the last poll's is where the client started again. Raises
        `SessionRefusedError` if the group does not accept the member's session timeout.
        """
        ...

    def changes(self) -> Sequence[Assigned | Revoked]:
        """Return the assignments and revocations since the last call, in order, each once."""
        ...

    def commit(self, offsets: Mapping[Partition, int], timeout_s: float) -> CommitEnd:
        """Commit offsets as a member, and wait for the answer."""
        ...

    def committed(self, partition: Partition, timeout_s: float) -> CommittedReply:
        """Query the group's coordinator for a committed offset."""
        ...

    def leave(self) -> None:
        """Give up all partitions and leave the group."""
        ...

    def crash(self) -> None:
        """Disappear without leaving the group, which notices when the session times out."""
        ...


@runtime_checkable
class GroupLibrary(Protocol):
    """A client library whose consumers can be members of groups, static ones (KIP-345) among them."""

    @property
    def assignors(self) -> frozenset[Assignor]:
        """The assignors that its members support."""
        ...

    def member(self, settings: ClientSettings, membership: Membership, now: Callable[[], int]) -> GroupMember:
        """Create a member; raises `ClientError` if no broker can be reached. `now` is the run's clock."""
        ...


def group_library(library: ClientLibrary, assignor: str = "eager") -> GroupLibrary:
    """Narrow a library to one whose members support an assignor. Raises `ClientMissingError` if it has none."""
    if isinstance(library, GroupLibrary):
        if assignor in library.assignors:
            return library
        raise ClientMissingError(
            f"assignor: expected one that {library.name} supports, found {assignor}; it supports "
            f"{', '.join(sorted(library.assignors))} alone"
        )
    raise ClientMissingError(
        f"the workload groups needs a client that Harrow uses as a member of groups, and {library.name} is not;"
        " use kafka-python, aiokafka or confluent-kafka"
    )


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
