"""The answer of a controller that is not the active one, in the form of each request."""

from __future__ import annotations

from broker.core.errors import ErrorCode
from broker.core.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AnyRequest,
    AnyResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)

_ERROR = ErrorCode.NOT_CONTROLLER


def not_controller(request: AnyRequest) -> AnyResponse:
    """NOT_CONTROLLER, so that the sender looks for the active one and asks again."""
    match request:
        case BrokerRegistrationRequest():
            return BrokerRegistrationResponse(_ERROR)
        case BrokerHeartbeatRequest():
            return BrokerHeartbeatResponse(_ERROR)
        case AlterPartitionRequest():
            return AlterPartitionResponse(_ERROR)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(_ERROR)
        case CreateTopicsRequest():
            return CreateTopicsResponse(tuple(CreatedTopic(topic.name, _ERROR) for topic in request.topics))
        case DeleteTopicsRequest():
            return DeleteTopicsResponse(tuple(DeletedTopic(*topic, _ERROR) for topic in request.topics))
        case ElectLeadersRequest():
            return ElectLeadersResponse(_ERROR, ())
        case _:
            raise TypeError(f"a controller does not serve {type(request).__name__}")
