"""The records of the metadata log: one JSON array per record inside ordinary record batches.

A batch is one atomic change: its records are committed, and applied, together (CT-1, EL-0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from broker.core.messages import Listener
from broker.core.records import decode_records, encode_batch

_LEGAL_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
METADATA_TOPIC = "__cluster_metadata"
METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"
"""Where the log is kept, in the first log directory: a voter's log, or a broker's copy."""

RECOVERED = 0
RECOVERING = 1


class PartitionState(NamedTuple):
    """The controller's state of one partition (§2.1). `isr` and `replicas` are ordered; the others are kept sorted."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovery_state: int = RECOVERED
    offline: tuple[int, ...] = ()
    """Brokers whose replica is in a failed log directory (KIP-858); they count as inactive for the partition."""


class BrokerRegistered(NamedTuple):
    """A broker registered, fenced; its epoch is this record's offset (RG-4), which a snapshot has to store."""

    broker_id: int
    incarnation_id: str
    listeners: tuple[Listener, ...]
    rack: str | None
    epoch: int | None = None


class BrokerChanged(NamedTuple):
    """A broker was fenced, unfenced, or began a controlled shutdown."""

    broker_id: int
    fenced: bool
    in_controlled_shutdown: bool


class BrokerUnregistered(NamedTuple):
    """A broker's registration is removed: it is unknown until it registers again."""

    broker_id: int


class TopicCreated(NamedTuple):
    name: str
    topic_id: str


class TopicDeleted(NamedTuple):
    topic_id: str


class PartitionSet(NamedTuple):
    """The complete new state of a partition; `partition_epoch` is one more than before (CT-3)."""

    topic_id: str
    partition: int
    state: PartitionState


class ConfigChanged(NamedTuple):
    """A setting of a topic, or of the cluster (topic ""); None removes it."""

    topic: str
    key: str
    value: str | None


class BrokerConfigChanged(NamedTuple):
    """A setting of one broker; None removes it."""

    broker_id: int
    key: str
    value: str | None


class ProducerIdsAllocated(NamedTuple):
    next_producer_id: int


MetadataRecord = (
    BrokerRegistered
    | BrokerChanged
    | BrokerUnregistered
    | TopicCreated
    | TopicDeleted
    | PartitionSet
    | ConfigChanged
    | BrokerConfigChanged
    | ProducerIdsAllocated
)

_KINDS: dict[str, type[MetadataRecord]] = {
    kind.__name__: kind
    for kind in (
        BrokerRegistered,
        BrokerChanged,
        BrokerUnregistered,
        TopicCreated,
        TopicDeleted,
        PartitionSet,
        ConfigChanged,
        BrokerConfigChanged,
        ProducerIdsAllocated,
    )
}


def is_legal_name(name: str) -> bool:
    """Whether a topic may have this name; that of the metadata log is reserved."""
    return _LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..", METADATA_TOPIC)


def encode_change(records: list[MetadataRecord], base_offset: int, leader_epoch: int) -> bytes:
    """Encode one atomic change as a record batch."""
    return encode_batch(
        [(None, json.dumps([type(record).__name__, *record], separators=(",", ":")).encode()) for record in records],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        timestamp_ms=0,
    )


def decode_change(batch: bytes) -> Iterator[tuple[int, MetadataRecord]]:
    """The (offset, record) pairs of a batch."""
    for record in decode_records(batch):
        yield record.offset, _decode(record.value)


@lru_cache(maxsize=1_024)  # every node of a simulation reads the same batches
def change_in(batch: bytes) -> tuple[tuple[int, MetadataRecord], ...]:
    """The same of a batch of the metadata log; for a snapshot, which may be large, see `decode_change`."""
    return tuple(decode_change(batch))


@lru_cache(maxsize=4_096)  # snapshots hold the records of many batches
def _decode(value: bytes | None) -> MetadataRecord:
    if value is None:
        raise ValueError("a metadata record without a value")
    name, *fields = json.loads(value)
    if name == "PartitionSet":
        topic_id, partition, state = fields
        return PartitionSet(topic_id, partition, _partition_state(state))
    if name == "BrokerRegistered":
        broker_id, incarnation_id, listeners, rack, epoch = fields
        return BrokerRegistered(broker_id, incarnation_id, tuple(Listener(*item) for item in listeners), rack, epoch)
    return _KINDS[name](*fields)


def _partition_state(fields: list[object]) -> PartitionState:
    return PartitionState(*(tuple(item) if isinstance(item, list) else item for item in fields))  # type: ignore[arg-type]
