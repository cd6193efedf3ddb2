"""Builds responses that refuse a whole request with an error."""

from __future__ import annotations

from broker.core.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfig,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AnyRequest,
    AnyResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Coordinator,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedLogDirectory,
    DescribedProducers,
    DescribedResource,
    DescribedTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    EpochEnd,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListedOffset,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    NamedResult,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ReplicaLogInfo,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from broker.core.ports.runtime import NotServed

QUERIES = (
    MetadataRequest
    | ListOffsetsRequest
    | OffsetForLeaderEpochRequest
    | FindCoordinatorRequest
    | DescribeConfigsRequest
    | ListConfigResourcesRequest
    | DescribeTopicPartitionsRequest
    | DescribeClusterRequest
    | DescribeLogDirsRequest
    | DescribeProducersRequest
    | GetReplicaLogInfoRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | OffsetFetchRequest
)
"""Requests that a broker answers from what it knows: to serve one changes nothing that is kept."""

ADMINISTRATION = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | ElectLeadersRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | AlterConfigsRequest
    | IncrementalAlterConfigsRequest
    | DescribeQuorumRequest
    | UnregisterBrokerRequest
)
"""Requests of clients that the active controller serves, and that brokers forward to it."""


_SHOWN_MAX = 300


def shown(found: object) -> str:
    """What a client has sent, as part of a message to it: the beginning, since a message may have 32,767 bytes."""
    text = str(found)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}… ({len(text)} characters)"


def refusal(request: AnyRequest, error: ErrorCode) -> AnyResponse:
    """The response with this error for all of a request. Raises `NotServed` if the request has none.

    Controllers have one for all that they serve, brokers for what changes nothing (`QUERIES`).
    """
    if isinstance(request, QUERIES):
        return _of_query(request, error)
    match request:
        case BrokerRegistrationRequest():
            return BrokerRegistrationResponse(error)
        case BrokerHeartbeatRequest():
            return BrokerHeartbeatResponse(error)
        case AlterPartitionRequest():
            return AlterPartitionResponse(error)
        case AssignReplicasToDirsRequest():
            return AssignReplicasToDirsResponse(error)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(error)
        case CreateTopicsRequest():
            return CreateTopicsResponse(tuple(CreatedTopic(topic.name, error) for topic in request.topics))
        case DeleteTopicsRequest():
            return DeleteTopicsResponse(tuple(DeletedTopic(*topic, error) for topic in request.topics))
        case CreatePartitionsRequest():
            return CreatePartitionsResponse(tuple(NamedResult(wanted.topic, error) for wanted in request.topics))
        case ElectLeadersRequest():
            return ElectLeadersResponse(error, ())
        case AlterPartitionReassignmentsRequest():
            return AlterPartitionReassignmentsResponse(error)
        case ListPartitionReassignmentsRequest():
            return ListPartitionReassignmentsResponse(error)
        case UnregisterBrokerRequest():
            return UnregisterBrokerResponse(error)
        case DescribeQuorumRequest():
            return DescribeQuorumResponse(error)
        case AlterConfigsRequest(resources) | IncrementalAlterConfigsRequest(resources):
            altered = tuple(AlteredConfig(error, None, asked.resource_type, asked.name) for asked in resources)
            old = isinstance(request, AlterConfigsRequest)
            return AlterConfigsResponse(altered) if old else IncrementalAlterConfigsResponse(altered)
        case _:
            raise NotServed(f"there is no refusal of {type(request).__name__}")


def _of_query(request: AnyRequest, error: ErrorCode) -> AnyResponse:
    match request:
        case MetadataRequest(topics):
            asked = () if topics is None else topics
            return MetadataResponse(
                (), "", -1, tuple(MetadataTopic(error, name, topic_id, False, ()) for name, topic_id in asked)
            )
        case ListOffsetsRequest(partitions):
            return ListOffsetsResponse(tuple(ListedOffset(one.topic, one.partition, error) for one in partitions))
        case OffsetForLeaderEpochRequest(partitions):
            return OffsetForLeaderEpochResponse(tuple(EpochEnd(one.topic, one.partition, error) for one in partitions))
        case FindCoordinatorRequest(_, keys):
            return FindCoordinatorResponse(tuple(Coordinator(key, error) for key in keys))
        case DescribeConfigsRequest(resources):
            return DescribeConfigsResponse(
                tuple(DescribedResource(error, None, kind, name, ()) for kind, name, _ in resources)
            )
        case ListConfigResourcesRequest():
            return ListConfigResourcesResponse(error)
        case DescribeTopicPartitionsRequest(names):
            return DescribeTopicPartitionsResponse(tuple(DescribedTopic(error, name, "", False, ()) for name in names))
        case DescribeClusterRequest():
            return DescribeClusterResponse(error, "", -1, ())
        case DescribeLogDirsRequest():
            return DescribeLogDirsResponse((DescribedLogDirectory(error, "", ()),))
        case DescribeProducersRequest(partitions):
            return DescribeProducersResponse(tuple(DescribedProducers(*asked, error) for asked in partitions))
        case GetReplicaLogInfoRequest(partitions):
            return GetReplicaLogInfoResponse(
                -1,
                tuple(ReplicaLogInfo(one.topic, one.partition, error, topic_id=one.topic_id) for one in partitions),
            )
        case DescribeGroupsRequest(groups):
            return DescribeGroupsResponse(tuple(DescribedGroup(error, group_id) for group_id in groups))
        case ListGroupsRequest():
            return ListGroupsResponse(error)
        case OffsetFetchRequest(groups):
            return OffsetFetchResponse(tuple(FetchedGroup(group.group_id, error) for group in groups))
        case _:
            raise NotServed(f"there is no refusal of {type(request).__name__}")
