"""The events of a node in the model, and their outcomes: plain values that can be compared and stored."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from broker.core.messages import AnyRequest, AnyResponse
from broker.core.metadata.records import BrokerRegistered, PartitionSet, PartitionState, decode_change
from broker.core.records import iterate_headers


class Arrives(NamedTuple):
    """A request arrives at `server`. `wanted`: its sender still waits for the answer."""

    client: int
    server: int
    channel: str
    purpose: str
    request: AnyRequest
    wanted: bool = True


class Answered(NamedTuple):
    """The answer arrives at `client`; None stands for a lost connection or a timeout."""

    client: int
    server: int
    channel: str
    purpose: str
    request: AnyRequest
    response: AnyResponse | None


Message = Arrives | Answered


class MetadataBatch(NamedTuple):
    """One atomic change of the metadata; offsets are `base` to `end` (exclusive)."""

    base: int
    end: int
    data: bytes


class Learns(NamedTuple):
    """A broker receives these batches of the metadata, all at once."""

    batches: tuple[MetadataBatch, ...]


class Fires(NamedTuple):
    """A timer of the node fires."""

    key: Hashable


class Beats(NamedTuple):
    """The broker sends a heartbeat."""


class Expires(NamedTuple):
    """To the controller: the session of this broker has expired."""

    broker: int


class Lags(NamedTuple):
    """To a leader: these followers have been behind for too long."""

    members: tuple[int, ...]


class Waits(NamedTuple):
    """To a leader: the longest wait of this follower's fetch is over."""

    client: int


class Produces(NamedTuple):
    """A client's record with this value, to be appended with acks=all."""

    value: int


class Dies(NamedTuple):
    """The process dies; of un-synced records `kept` whole ones survive, all of them if None."""

    kept: int | None = None


class Starts(NamedTuple):
    """A new process starts on the old disk."""

    incarnation: str


class Recalls(NamedTuple):
    """A broker that has no metadata gets a snapshot of it (QU-21)."""

    end: int
    epoch: int
    data: bytes


class Leaves(NamedTuple):
    """The connections from this client are lost; it does not wait for answers any more."""

    client: int


NodeEvent = (
    Arrives | Answered | Learns | Fires | Beats | Expires | Lags | Waits | Produces | Dies | Starts | Recalls | Leaves
)


class Decision(NamedTuple):
    """A change of the metadata: the brokers that registered with it, and the partition before and after."""

    registered: tuple[int, ...]
    before: PartitionState | None
    after: PartitionState | None


Record = tuple[int, int]
"""Leader epoch and value."""


class NodeOutcome(NamedTuple):
    """The outcome of one step of one node. `state` is the number of the node's new state."""

    state: int
    messages: tuple[int, ...] = ()  # numbers of events
    batches: tuple[int, ...] = ()  # numbers of batches
    acknowledged: tuple[tuple[int, int], ...] = ()  # (value, offset)
    decisions: tuple[Decision, ...] = ()
    appended: int = -1  # the leader epoch in which it appended as a leader, -1 if it did not
    removed: tuple[tuple[int, Record], ...] = ()  # (offset, record) cut off
    fault: str | None = None  # a property that this step broke by itself, and how
    log_entries: tuple[str, ...] = ()


def decisions(batches: tuple[MetadataBatch, ...], partition: PartitionState | None) -> Iterator[Decision]:
    """The change that each batch makes to the partition."""
    for batch in batches:
        header = next(header for _, header in iterate_headers(batch.data))
        records = [] if header.is_control else [record for _, record in decode_change(batch.data)]
        states = [record.state for record in records if isinstance(record, PartitionSet)]
        registered = tuple(one.broker_id for one in records if isinstance(one, BrokerRegistered))
        after = states[-1] if states else partition
        yield Decision(registered, partition, after)
        partition = after


def whole_batches(data: bytes, count: int) -> bytes:
    """The first so many batches."""
    ends = [position + header.size for position, header in iterate_headers(data)]
    return data[: ([0, *ends])[min(count, len(ends))]]
