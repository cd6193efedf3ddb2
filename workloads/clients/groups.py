"""What a workload needs of a client that is a member of a consumer group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from workloads.clients.base import ClientLibrary, ClientMissingError, ClientSettings, Partition, Poll
from workloads.clients.classify import Status


@dataclass(frozen=True)
class Membership:
    """Which group, what of, and how quickly a silent member is given up."""

    group: str
    topics: tuple[str, ...]
    session_timeout_ms: int = 3_000
    heartbeat_interval_ms: int = 500


class Assigned(NamedTuple):
    """A member was told what is its own from now on; everything before is over."""

    at_ns: int
    member: str
    generation: int
    partitions: frozenset[Partition]


class Revoked(NamedTuple):
    """A member gave partitions back, or noticed that they had been taken from it."""

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


class CommittedOffset(NamedTuple):
    """A coordinator's answer."""

    offset: int | None  # None: there is none
    node: int | None = None


class GroupMember(Protocol):
    """A subscribed client, for one thread, which must go on polling. Methods may raise `ClientError`; `crash` never."""

    def poll(self, timeout_s: float) -> Poll:
        """Read what is there of what is its own, joining and rejoining the group as needed.

        A position other than the one after the last poll's is where the client began anew.
        """
        ...

    def changes(self) -> Sequence[Assigned | Revoked]:
        """Tell, once, what has changed hands since the last call, in order."""
        ...

    def commit(self, offsets: Mapping[Partition, int], timeout_s: float) -> CommitEnd:
        """Commit offsets as a member, and wait for the answer."""
        ...

    def committed(self, partition: Partition, timeout_s: float) -> CommittedOffset:
        """Ask the group's coordinator for a committed offset."""
        ...

    def leave(self) -> None:
        """Give everything back and leave the group."""
        ...

    def crash(self) -> None:
        """Vanish without a word: the group finds out when the session has ended."""
        ...


@runtime_checkable
class GroupLibrary(Protocol):
    """A client library whose consumers can be members of groups."""

    def member(self, settings: ClientSettings, membership: Membership, now: Callable[[], int]) -> GroupMember:
        """Make a member; raises `ClientError` if no broker can be reached. `now` is the run's clock."""
        ...


def group_library(library: ClientLibrary) -> GroupLibrary:
    """See a library as one for groups. Raises `ClientMissingError` if it is none."""
    if isinstance(library, GroupLibrary):
        return library
    raise ClientMissingError(
        f"the workload groups needs a client that is driven as a member of groups, and {library.name} is not;"
        " use kafka-python"
    )
