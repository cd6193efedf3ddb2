"""Requests between brokers and the active controller, among controllers, and DescribeQuorum."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.messages.clients import NO_LEADER, UNKNOWN


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
"""`DirectoryId.LOST` of KIP-858: a failed log directory, whichever it was."""


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


class VoteRequest(NamedTuple):
    """Vote (52) for one candidate; with `pre_vote` (KIP-996) the epoch is the current one and no vote is spent."""

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
    last_fetch_ms: int = -1  # milliseconds since 1970, -1 if unknown
    last_caught_up_ms: int = -1


class DescribeQuorumResponse(NamedTuple):
    error_code: int
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN
    high_watermark: int = UNKNOWN
    voters: tuple[QuorumReplica, ...] = ()
    observers: tuple[QuorumReplica, ...] = ()
