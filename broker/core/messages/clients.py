"""Requests of clients to brokers and of followers to leaders: metadata, produce, fetch, offsets, epochs, producers."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.messages.operations import NOT_ASKED

NO_LEADER = -1
UNKNOWN = -1
"""Unknown offset, epoch or broker epoch."""

NO_PREFERRED_REPLICA = -1
"""The consumer goes on with the replica that it asked."""


class MetadataRequest(NamedTuple):
    """Metadata (3). `topics` None asks for all; an entry is (name or None, topic id or "")."""

    topics: tuple[tuple[str | None, str], ...] | None = None
    allow_auto_topic_creation: bool = False
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class MetadataBroker(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


class MetadataPartition(NamedTuple):
    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class MetadataTopic(NamedTuple):
    error_code: int
    name: str | None
    topic_id: str
    is_internal: bool
    partitions: tuple[MetadataPartition, ...]
    authorized_operations: int = NOT_ASKED


class MetadataResponse(NamedTuple):
    brokers: tuple[MetadataBroker, ...]
    cluster_id: str
    controller_id: int
    topics: tuple[MetadataTopic, ...]
    authorized_operations: int = NOT_ASKED


class ProducePartition(NamedTuple):
    topic: str
    partition: int
    records: bytes
    topic_id: str = ""


class ProduceRequest(NamedTuple):
    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]
    transactional_id: str | None = None


class ProducedPartition(NamedTuple):
    topic: str
    partition: int
    error_code: int
    base_offset: int = -1
    log_start_offset: int = -1
    topic_id: str = ""
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None  # (leader id, leader epoch), v10+
    log_append_time_ms: int = -1  # the time that the leader gave all records, -1 if they keep the producer's
    record_errors: tuple[tuple[int, str | None], ...] = ()  # place in the batch, and what is wrong (v8+)


class ProduceResponse(NamedTuple):
    partitions: tuple[ProducedPartition, ...]


class FetchPartition(NamedTuple):
    topic: str
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = UNKNOWN
    last_fetched_epoch: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    topic_id: str = ""


class FetchRequest(NamedTuple):
    """Fetch (1). `replica_id` -1 is a consumer; `replica_epoch` is the broker epoch of the follower."""

    partitions: tuple[FetchPartition, ...]
    replica_id: int = -1
    replica_epoch: int = -1
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 0x7FFFFFFF
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    forgotten: tuple[tuple[str, str, int], ...] = ()  # (topic or "", topic id or "", partition)
    cluster_id: str | None = None
    rack_id: str = ""  # of a consumer, v11+


class FetchedPartition(NamedTuple):
    topic: str
    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    diverging_epoch: tuple[int, int] | None = None  # (epoch, end offset)
    current_leader: tuple[int, int] | None = None  # (leader id, leader epoch)
    snapshot_id: tuple[int, int] | None = None  # (end offset, epoch)
    topic_id: str = ""
    preferred_read_replica: int = NO_PREFERRED_REPLICA


class FetchResponse(NamedTuple):
    partitions: tuple[FetchedPartition, ...]
    error_code: int = 0
    session_id: int = 0


class ListOffsetsPartition(NamedTuple):
    topic: str
    partition: int
    timestamp: (
        int  # -1 latest, -2 earliest, -3 max timestamp, -4 … -6 of tiered storage, else the first record at or after it
    )
    current_leader_epoch: int = UNKNOWN


class ListOffsetsRequest(NamedTuple):
    partitions: tuple[ListOffsetsPartition, ...]
    replica_id: int = -1
    isolation_level: int = 0


class ListedOffset(NamedTuple):
    topic: str
    partition: int
    error_code: int
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListOffsetsResponse(NamedTuple):
    partitions: tuple[ListedOffset, ...]


class EpochEndPartition(NamedTuple):
    topic: str
    partition: int
    current_leader_epoch: int
    leader_epoch: int


class OffsetForLeaderEpochRequest(NamedTuple):
    partitions: tuple[EpochEndPartition, ...]
    replica_id: int = -2


class EpochEnd(NamedTuple):
    topic: str
    partition: int
    error_code: int
    leader_epoch: int = -1
    end_offset: int = -1


class OffsetForLeaderEpochResponse(NamedTuple):
    partitions: tuple[EpochEnd, ...]


class InitProducerIdRequest(NamedTuple):
    transactional_id: str | None = None
    producer_id: int = -1
    producer_epoch: int = -1


class InitProducerIdResponse(NamedTuple):
    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


class FindCoordinatorRequest(NamedTuple):
    key_type: int
    keys: tuple[str, ...]


class Coordinator(NamedTuple):
    key: str
    error_code: int
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_message: str | None = None


class FindCoordinatorResponse(NamedTuple):
    coordinators: tuple[Coordinator, ...]
