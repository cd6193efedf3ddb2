"""Requests and responses as plain values, with the protocol's field names in snake case.

The wire codec (`broker.shell.codec`) turns them into bytes and back; the simulator passes them as they are. Only the
fields that the core uses are here; a version's other fields get the protocol's defaults in the codec. Topics are
addressed by name; the codec of a version that uses topic ids carries both
(`topic_id` is "" when not known).
"""

from __future__ import annotations

from broker.core.messages.administration import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfig,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ConfigOperation,
    ConfigResource,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedRecords,
    DeletedTopic,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfig,
    DescribedLog,
    DescribedLogDirectory,
    DescribedPartition,
    DescribedProducer,
    DescribedProducers,
    DescribedResource,
    DescribedTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ElectedPartition,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    NamedResult,
    NewPartitions,
    NewTopic,
    OngoingReassignment,
    Reassignment,
    ReassignmentResult,
    ReplacedConfigs,
    ResourceType,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from broker.core.messages.clients import (
    NO_LEADER,
    NO_PREFERRED_REPLICA,
    UNKNOWN,
    Coordinator,
    EpochEnd,
    EpochEndPartition,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.control import (
    LOST_DIRECTORY,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    Listener,
    QuorumReplica,
    ReplicaLogInfo,
    ReplicaLogInfoPartition,
    VoteRequest,
    VoteResponse,
)
from broker.core.messages.groups import GroupRequest, GroupResponse
from broker.core.messages.leadership import LeadershipRequest, LeadershipResponse
from broker.core.messages.outside import OutsideRequest, OutsideResponse

__all__ = [
    "LOST_DIRECTORY",
    "NO_LEADER",
    "NO_PREFERRED_REPLICA",
    "UNKNOWN",
    "AllocateProducerIdsRequest",
    "AllocateProducerIdsResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "AlterPartitionPartition",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterPartitionRequest",
    "AlterPartitionResponse",
    "AlteredConfig",
    "AlteredPartition",
    "AnyRequest",
    "AnyResponse",
    "AssignReplicasToDirsRequest",
    "AssignReplicasToDirsResponse",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatResponse",
    "BrokerRegistrationRequest",
    "BrokerRegistrationResponse",
    "ConfigOperation",
    "ConfigResource",
    "Coordinator",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "CreatedTopic",
    "DeleteRecordsPartition",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DeletedRecords",
    "DeletedTopic",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeLogDirsPartition",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribedConfig",
    "DescribedLog",
    "DescribedLogDirectory",
    "DescribedPartition",
    "DescribedProducer",
    "DescribedProducers",
    "DescribedResource",
    "DescribedTopic",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "ElectedPartition",
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "EpochEnd",
    "EpochEndPartition",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "FetchedPartition",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "GetReplicaLogInfoRequest",
    "GetReplicaLogInfoResponse",
    "GroupRequest",
    "GroupResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "LeadershipRequest",
    "LeadershipResponse",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "ListOffsetsPartition",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListedOffset",
    "Listener",
    "MetadataBroker",
    "MetadataPartition",
    "MetadataRequest",
    "MetadataResponse",
    "MetadataTopic",
    "NamedResult",
    "NewPartitions",
    "NewTopic",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "OngoingReassignment",
    "OutsideRequest",
    "OutsideResponse",
    "ProducePartition",
    "ProduceRequest",
    "ProduceResponse",
    "ProducedPartition",
    "QuorumReplica",
    "Reassignment",
    "ReassignmentResult",
    "ReplacedConfigs",
    "ReplicaLogInfo",
    "ReplicaLogInfoPartition",
    "ResourceType",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "VoteRequest",
    "VoteResponse",
]

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
    | AlterConfigsRequest
    | IncrementalAlterConfigsRequest
    | ListConfigResourcesRequest
    | DescribeConfigsRequest
    | DeleteRecordsRequest
    | DescribeLogDirsRequest
    | DescribeTopicPartitionsRequest
    | DescribeClusterRequest
    | DescribeProducersRequest
    | UnregisterBrokerRequest
    | LeadershipRequest
    | OutsideRequest
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
    | AlterConfigsResponse
    | IncrementalAlterConfigsResponse
    | ListConfigResourcesResponse
    | DescribeConfigsResponse
    | DeleteRecordsResponse
    | DescribeLogDirsResponse
    | DescribeTopicPartitionsResponse
    | DescribeClusterResponse
    | DescribeProducersResponse
    | UnregisterBrokerResponse
    | LeadershipResponse
    | OutsideResponse
)
