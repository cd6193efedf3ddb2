"""Defines the interface between workloads and Kafka client libraries.

A client library behaves as usual behind these interfaces: it batches, retries, reconnects and deduplicates. The
interfaces add precise outcomes: a send ends in a `SendOutcome` that is `fail` only with proof, and a poll reports a
partition only if a broker answered for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from common.security import PLAIN_TEXT, Security
from workloads.clients.classify import Status

LOG_START = -1
"""A position: the start of the partition's log."""
POLL_RECORDS_MAX: Final = 5_000
"""How many records one poll returns at most."""


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class ClientError(Exception):
    """A client could not carry out a request. `str(error)` is the short name that the history records."""


class PositionLostError(ClientError):
    """The log no longer has the requested position: it was truncated, or retention deleted it."""

    def __init__(self, name: str, partitions: Sequence[Partition]) -> None:
        super().__init__(name)
        self.partitions = tuple(partitions)


class ClientMissingError(Exception):
    """A client library is not installed, or lacks a required feature. One line."""

    def __init__(self, line: str, distribution: str = "") -> None:
        super().__init__(line)
        self.distribution = distribution
        """The package to install, if one is missing."""


class SendOutcome(NamedTuple):
    """How the send of one record ended."""

    status: Status
    offset: int | None = None  # where it was appended, if the broker reported it
    error: str | None = None  # short name, e.g. NotEnoughReplicasError
    node: int | None = None  # the broker that acknowledged it, if the client reports it


Done = Callable[[Sequence[SendOutcome]], None]
"""Receives one outcome per record, in order; called once, on any thread of the client."""


class PolledRecord(NamedTuple):
    """One record as it was read."""

    offset: int
    leader_epoch: int | None
    value: bytes | None


class PolledPartition(NamedTuple):
    """What a poll returned for one partition. A partition without an answer is left out."""

    partition: Partition
    position: int  # requested offset
    next_position: int
    high_watermark: int | None  # only if a broker reported it between the poll's invocation and its completion
    records: Sequence[PolledRecord]  # empty: a broker answered during the poll that there was nothing


class Poll(NamedTuple):
    """What one poll returned."""

    partitions: Sequence[PolledPartition]
    node: int | None = None  # the broker that answered, if one answered for all of it


class EndOffset(NamedTuple):
    """The answer to an end-offset query."""

    offset: int
    node: int | None = None


@dataclass(frozen=True)
class ClientSettings:
    """Settings of clients. Their timeouts are seconds, not minutes, to suit a cluster under faults."""

    bootstrap: tuple[str, ...]  # host:port
    acks: int = -1  # -1 all, 0, 1
    idempotence: bool = True
    request_timeout_ms: int = 4_000
    delivery_timeout_ms: int = 8_000  # from the send until the client gives up, over all its retries
    linger_ms: int = 0
    reconnect_backoff_max_ms: int = 500  # a client must reconnect within a second after its broker is back
    metadata_max_age_ms: int = 1_000  # how long a client may use stale metadata of a leader that it cannot reach
    client_id: str = "harrow"
    security: Security = PLAIN_TEXT


class Producer(Protocol):
    """Sends records. Safe to use from several threads."""

    def send(self, partition: Partition, values: Sequence[bytes], done: Done) -> None:
        """Send records, and return at once; `done` is called when the client knows the outcome of each.

        After `done` the client never sends these records again (what is already in a broker's socket may
        still arrive).
        """
        ...

    def renew(self) -> None:
        """Use a new connection and producer identity for later sends; returns at once."""
        ...

    def close(self, timeout_s: float) -> None:
        """Wait up to the timeout for open sends, then drop them and disconnect."""
        ...


class Consumer(Protocol):
    """Reads by assignment. For one thread. All methods may raise `ClientError`."""

    def assign(self, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Read exactly these partitions from these offsets, or `LOG_START`; returns the offsets."""
        ...

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue an assigned partition from this offset."""
        ...

    def poll(self, timeout_s: float) -> Poll:
        """Return available records, waiting up to the timeout for the first."""
        ...

    def end_offset(self, partition: Partition, timeout_s: float) -> EndOffset:
        """Query the partition's leader for the end that consumers see (the high watermark, LO-2)."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...


class ClientLibrary(Protocol):
    """A client library: creates producers and consumers. Both may block while they connect."""

    @property
    def name(self) -> str:
        """Name as in the history's column `client`."""
        ...

    def producer(self, settings: ClientSettings) -> Producer:
        """Connect a producer; raises `ClientError` if no broker can be reached in `request_timeout_ms`."""
        ...

    def consumer(self, settings: ClientSettings) -> Consumer:
        """Connect a consumer; raises `ClientError` if no broker can be reached in `request_timeout_ms`."""
        ...
