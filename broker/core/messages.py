"""Requests and responses as plain values, with the protocol's field names in snake case.

The wire codec (`broker.shell.codec`) turns them into bytes and back; the simulator passes them as they are. Only the
fields that the core decides on are here; a version's other fields get the protocol's defaults in the codec. Topics are
addressed by name inside; the codec of a version that speaks in topic ids carries both
(`topic_id` is "" when not known).
"""

from __future__ import annotations

from typing import NamedTuple

from broker.core.group_messages import GroupRequest, GroupResponse

NO_LEADER = -1
UNKNOWN = -1
"""Unknown offset, epoch or broker epoch."""


# --- connections -----------------------------------------------------------------------------------------------------


class MetadataRequest(NamedTuple):
    """Metadata (3). `topics` None asks for all; an entry is (name or None, topic id or "")."""

    topics: tuple[tuple[str | None, str], ...] | None = None
    allow_auto_topic_creation: bool = False


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


class MetadataResponse(NamedTuple):
    brokers: tuple[MetadataBroker, ...]
    cluster_id: str
    controller_id: int
    topics: tuple[MetadataTopic, ...]


# --- produce and fetch -----------------------------------------------------------------------------------------------


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


class FetchResponse(NamedTuple):
    partitions: tuple[FetchedPartition, ...]
    error_code: int = 0
    session_id: int = 0


class ListOffsetsPartition(NamedTuple):
    topic: str
    partition: int
    timestamp: int  # -1 latest, -2 earliest, -3 max timestamp, else the first record at or after it
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


# --- administration --------------------------------------------------------------------------------------------------


class NewTopic(NamedTuple):
    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()  # (partition, replicas)
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopicsRequest(NamedTuple):
    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class CreatedTopic(NamedTuple):
    name: str
    error_code: int
    error_message: str | None = None
    topic_id: str = ""
    num_partitions: int = -1
    replication_factor: int = -1


class CreateTopicsResponse(NamedTuple):
    topics: tuple[CreatedTopic, ...]


class DeleteTopicsRequest(NamedTuple):
    topics: tuple[tuple[str | None, str], ...]  # (name or None, topic id or "")
    timeout_ms: int = 60_000


class DeletedTopic(NamedTuple):
    name: str | None
    topic_id: str
    error_code: int
    error_message: str | None = None


class DeleteTopicsResponse(NamedTuple):
    topics: tuple[DeletedTopic, ...]


class ElectLeadersRequest(NamedTuple):
    election_type: int  # 0 preferred, 1 unclean
    partitions: tuple[tuple[str, int], ...] | None = None  # None: all
    timeout_ms: int = 60_000


class ElectedPartition(NamedTuple):
    topic: str
    partition: int
    error_code: int
    error_message: str | None = None


class ElectLeadersResponse(NamedTuple):
    error_code: int
    partitions: tuple[ElectedPartition, ...]


class NewPartitions(NamedTuple):
    topic: str
    total_count: int  # after the change
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitionsRequest(NamedTuple):
    topics: tuple[NewPartitions, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class NamedResult(NamedTuple):
    name: str
    error_code: int
    error_message: str | None = None


class CreatePartitionsResponse(NamedTuple):
    results: tuple[NamedResult, ...]


class Reassignment(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[int, ...] | None  # None cancels


class AlterPartitionReassignmentsRequest(NamedTuple):
    reassignments: tuple[Reassignment, ...]
    timeout_ms: int = 60_000


class ReassignmentResult(NamedTuple):
    topic: str
    partition: int
    error_code: int
    error_message: str | None = None


class AlterPartitionReassignmentsResponse(NamedTuple):
    error_code: int
    results: tuple[ReassignmentResult, ...] = ()


class ListPartitionReassignmentsRequest(NamedTuple):
    partitions: tuple[tuple[str, int], ...] | None = None  # None: all
    timeout_ms: int = 60_000


class OngoingReassignment(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ListPartitionReassignmentsResponse(NamedTuple):
    error_code: int
    reassignments: tuple[OngoingReassignment, ...] = ()


class ConfigOperation(NamedTuple):
    key: str
    operation: int  # 0 set, 1 delete
    value: str | None


class ConfigResource(NamedTuple):
    resource_type: int  # 2 topic, 4 broker
    name: str
    operations: tuple[ConfigOperation, ...]


class IncrementalAlterConfigsRequest(NamedTuple):
    resources: tuple[ConfigResource, ...]
    validate_only: bool = False


class AlteredConfig(NamedTuple):
    error_code: int
    error_message: str | None
    resource_type: int
    name: str


class IncrementalAlterConfigsResponse(NamedTuple):
    results: tuple[AlteredConfig, ...]


class DescribeConfigsRequest(NamedTuple):
    """Resources as (type, name, keys or None for all)."""

    resources: tuple[tuple[int, str, tuple[str, ...] | None], ...]


class DescribedConfig(NamedTuple):
    name: str
    value: str | None
    is_default: bool


class DescribedResource(NamedTuple):
    error_code: int
    error_message: str | None
    resource_type: int
    name: str
    configs: tuple[DescribedConfig, ...]


class DescribeConfigsResponse(NamedTuple):
    results: tuple[DescribedResource, ...]


class DeleteRecordsPartition(NamedTuple):
    topic: str
    partition: int
    offset: int  # -1: the high watermark


class DeleteRecordsRequest(NamedTuple):
    partitions: tuple[DeleteRecordsPartition, ...]
    timeout_ms: int = 60_000


class DeletedRecords(NamedTuple):
    topic: str
    partition: int
    error_code: int
    low_watermark: int = -1


class DeleteRecordsResponse(NamedTuple):
    partitions: tuple[DeletedRecords, ...]


class DescribeLogDirsPartition(NamedTuple):
    topic: str
    partition: int


class DescribeLogDirsRequest(NamedTuple):
    """DescribeLogDirs (35); None asks for all partitions."""

    partitions: tuple[DescribeLogDirsPartition, ...] | None


class DescribedLog(NamedTuple):
    """`size` in bytes; `offset_lag`: how far the log end is behind the high watermark."""

    topic: str
    partition: int
    size: int
    offset_lag: int


class DescribedLogDirectory(NamedTuple):
    error_code: int
    path: str
    logs: tuple[DescribedLog, ...]


class DescribeLogDirsResponse(NamedTuple):
    directories: tuple[DescribedLogDirectory, ...]


class DescribeTopicPartitionsRequest(NamedTuple):
    """DescribeTopicPartitions (75); an empty tuple asks for all topics."""

    topics: tuple[str, ...]
    partition_limit: int = 2000
    cursor: tuple[str, int] | None = None


class DescribedPartition(NamedTuple):
    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class DescribedTopic(NamedTuple):
    error_code: int
    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[DescribedPartition, ...]


class DescribeTopicPartitionsResponse(NamedTuple):
    topics: tuple[DescribedTopic, ...]
    next_cursor: tuple[str, int] | None = None


class DescribeClusterRequest(NamedTuple):
    """DescribeCluster (60)."""

    endpoint_type: int = 1  # 1 brokers, 2 controllers (KIP-919)


class DescribeClusterResponse(NamedTuple):
    error_code: int
    cluster_id: str
    controller_id: int
    brokers: tuple[MetadataBroker, ...]


# --- brokers and controller ------------------------------------------------------------------------------------------


class Listener(NamedTuple):
    name: str
    host: str
    port: int


class BrokerRegistrationRequest(NamedTuple):
    broker_id: int
    cluster_id: str
    incarnation_id: str  # UUID as text
    listeners: tuple[Listener, ...]
    rack: str | None = None
    previous_broker_epoch: int = -1
    log_dirs: tuple[str, ...] = ()  # ids of directories, UUIDs as text


class BrokerRegistrationResponse(NamedTuple):
    error_code: int
    broker_epoch: int = -1


class BrokerHeartbeatRequest(NamedTuple):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool


class BrokerHeartbeatResponse(NamedTuple):
    error_code: int
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


LOST_DIRECTORY = "00000000-0000-0000-0000-000000000001"
"""`DirectoryId.LOST` of KIP-858: a log directory that has failed, whichever it was."""


class AssignReplicasToDirsRequest(NamedTuple):
    """KIP-858. `assignments` are (directory id, topic id, partition)."""

    broker_id: int
    broker_epoch: int
    assignments: tuple[tuple[str, str, int], ...]


class AssignReplicasToDirsResponse(NamedTuple):
    """KIP-858. `results` are (directory id, topic id, partition, error code)."""

    error_code: int
    results: tuple[tuple[str, str, int, int], ...] = ()


class AlterPartitionPartition(NamedTuple):
    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[tuple[int, int], ...]  # (broker id, broker epoch)
    leader_recovery_state: int = 0  # 0 recovered, 1 recovering
    topic_id: str = ""


class AlterPartitionRequest(NamedTuple):
    broker_id: int
    broker_epoch: int
    partitions: tuple[AlterPartitionPartition, ...]


class AlteredPartition(NamedTuple):
    topic: str
    partition: int
    error_code: int
    leader_id: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = -1
    topic_id: str = ""


class AlterPartitionResponse(NamedTuple):
    error_code: int
    partitions: tuple[AlteredPartition, ...] = ()


class AllocateProducerIdsRequest(NamedTuple):
    broker_id: int
    broker_epoch: int


class AllocateProducerIdsResponse(NamedTuple):
    error_code: int
    producer_id_start: int = -1
    producer_id_len: int = 0


class ReplicaLogInfoPartition(NamedTuple):
    topic: str
    partition: int
    topic_id: str = ""


class GetReplicaLogInfoRequest(NamedTuple):
    partitions: tuple[ReplicaLogInfoPartition, ...]


class ReplicaLogInfo(NamedTuple):
    topic: str
    partition: int
    error_code: int
    last_written_leader_epoch: int = -1
    current_leader_epoch: int = -1
    log_end_offset: int = -1
    topic_id: str = ""


class GetReplicaLogInfoResponse(NamedTuple):
    broker_epoch: int
    partitions: tuple[ReplicaLogInfo, ...]
    truncated: bool = False  # only the first 1000 partitions are answered


# --- controller quorum -----------------------------------------------------------------------------------------------


class VoteRequest(NamedTuple):
    """Vote (52) for one candidate; with `pre_vote` (KIP-996) the epoch is the present one and no vote is spent."""

    cluster_id: str
    voter_id: int
    candidate_id: int
    candidate_epoch: int
    last_epoch: int
    last_epoch_end_offset: int
    pre_vote: bool = False


class VoteResponse(NamedTuple):
    error_code: int
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN
    vote_granted: bool = False


class BeginQuorumEpochRequest(NamedTuple):
    cluster_id: str
    voter_id: int
    leader_id: int
    leader_epoch: int


class BeginQuorumEpochResponse(NamedTuple):
    error_code: int
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN


class EndQuorumEpochRequest(NamedTuple):
    cluster_id: str
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[int, ...]


class EndQuorumEpochResponse(NamedTuple):
    error_code: int
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN


class FetchSnapshotRequest(NamedTuple):
    cluster_id: str
    replica_id: int
    max_bytes: int
    current_leader_epoch: int
    snapshot_id: tuple[int, int]  # (end offset, epoch)
    position: int


class FetchSnapshotResponse(NamedTuple):
    error_code: int
    snapshot_id: tuple[int, int] = (-1, -1)
    size: int = 0
    position: int = 0
    data: bytes = b""
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN


class DescribeQuorumRequest(NamedTuple):
    """DescribeQuorum (55) of the metadata log."""


class QuorumReplica(NamedTuple):
    replica_id: int
    log_end_offset: int
    last_fetch_ms: int = -1  # milliseconds since the epoch of 1970, -1 when not known
    last_caught_up_ms: int = -1


class DescribeQuorumResponse(NamedTuple):
    error_code: int
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN
    high_watermark: int = UNKNOWN
    voters: tuple[QuorumReplica, ...] = ()
    observers: tuple[QuorumReplica, ...] = ()


AnyRequest = (
    MetadataRequest
    | ProduceRequest
    | FetchRequest
    | ListOffsetsRequest
    | OffsetForLeaderEpochRequest
    | InitProducerIdRequest
    | FindCoordinatorRequest
    | CreateTopicsRequest
    | DeleteTopicsRequest
    | ElectLeadersRequest
    | BrokerRegistrationRequest
    | BrokerHeartbeatRequest
    | AlterPartitionRequest
    | AssignReplicasToDirsRequest
    | AllocateProducerIdsRequest
    | GetReplicaLogInfoRequest
    | VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchSnapshotRequest
    | GroupRequest
    | DescribeQuorumRequest
    | CreatePartitionsRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | IncrementalAlterConfigsRequest
    | DescribeConfigsRequest
    | DeleteRecordsRequest
    | DescribeLogDirsRequest
    | DescribeTopicPartitionsRequest
    | DescribeClusterRequest
)
AnyResponse = (
    MetadataResponse
    | ProduceResponse
    | FetchResponse
    | ListOffsetsResponse
    | OffsetForLeaderEpochResponse
    | InitProducerIdResponse
    | FindCoordinatorResponse
    | CreateTopicsResponse
    | DeleteTopicsResponse
    | ElectLeadersResponse
    | BrokerRegistrationResponse
    | BrokerHeartbeatResponse
    | AlterPartitionResponse
    | AssignReplicasToDirsResponse
    | AllocateProducerIdsResponse
    | GetReplicaLogInfoResponse
    | VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchSnapshotResponse
    | GroupResponse
    | DescribeQuorumResponse
    | CreatePartitionsResponse
    | AlterPartitionReassignmentsResponse
    | ListPartitionReassignmentsResponse
    | IncrementalAlterConfigsResponse
    | DescribeConfigsResponse
    | DeleteRecordsResponse
    | DescribeLogDirsResponse
    | DescribeTopicPartitionsResponse
    | DescribeClusterResponse
)
