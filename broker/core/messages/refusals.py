"""Builds responses that refuse a whole request with an error."""

from __future__ import annotations

from broker.core.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
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
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    NamedResult,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.runtime import NotServed


def refusal(request: AnyRequest, error: ErrorCode) -> AnyResponse:
    """The response to a request that controllers serve, with this error for all of it."""
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
        case DescribeQuorumRequest():
            return DescribeQuorumResponse(error)
        case IncrementalAlterConfigsRequest():
            return IncrementalAlterConfigsResponse(
                tuple(AlteredConfig(error, None, asked.resource_type, asked.name) for asked in request.resources)
            )
        case _:
            raise NotServed(f"no controller serves {type(request).__name__}")
