"""Codec of requests of a broker to its controller about itself.

BrokerRegistration (62), versions 0 to 4, BrokerHeartbeat (63), 0 and 1, AllocateProducerIds (67), 0.
"""

from __future__ import annotations

from broker.core.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.wire import Parts

_PLAINTEXT = 0

# --- BrokerRegistration -----------------------------------------------------------------------------------

_RegistrationRequest = schema.define("BrokerRegistrationRequest")
_RegistrationResponse = schema.define("BrokerRegistrationResponse")


def _decode_registration_request(data: bytes, position: int, version: int) -> BrokerRegistrationRequest:
    wire = schema.decode(_RegistrationRequest, data, position, version)
    return BrokerRegistrationRequest(
        wire.broker_id,
        wire.cluster_id,
        schema.uuid_text(wire.incarnation_id),
        tuple(Listener(each.name, each.host, each.port) for each in schema.elements(wire.listeners)),
        wire.rack,
        wire.previous_broker_epoch,
        tuple(schema.uuid_text(each) for each in schema.elements(wire.log_dirs)),
    )


def _encode_registration_request(request: BrokerRegistrationRequest, version: int) -> Parts:
    listeners = [
        _RegistrationRequest.Listener(
            version=version, name=each.name, host=each.host, port=each.port, security_protocol=_PLAINTEXT
        )
        for each in request.listeners
    ]
    return schema.encode(
        _RegistrationRequest,
        version,
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=schema.uuid_or_zero(request.incarnation_id),
        listeners=listeners,
        rack=request.rack,
        log_dirs=[schema.uuid_or_zero(each) for each in request.log_dirs],
        previous_broker_epoch=request.previous_broker_epoch,
    )


def _decode_registration_response(data: bytes, position: int, version: int) -> BrokerRegistrationResponse:
    wire = schema.decode(_RegistrationResponse, data, position, version)
    return BrokerRegistrationResponse(wire.error_code, wire.broker_epoch)


def _encode_registration_response(response: BrokerRegistrationResponse, version: int) -> Parts:
    return schema.encode(
        _RegistrationResponse, version, error_code=response.error_code, broker_epoch=response.broker_epoch
    )


BROKER_REGISTRATION = Codec(
    api_key=62,
    name="BrokerRegistration",
    versions=(0, 4),
    flexible_from=0,
    request_type=BrokerRegistrationRequest,
    decode_request=_decode_registration_request,
    encode_request=_encode_registration_request,
    decode_response=_decode_registration_response,
    encode_response=_encode_registration_response,
)

# --- BrokerHeartbeat --------------------------------------------------------------------------------------

_HeartbeatRequest = schema.define("BrokerHeartbeatRequest")
_HeartbeatResponse = schema.define("BrokerHeartbeatResponse")


def _decode_heartbeat_request(data: bytes, position: int, version: int) -> BrokerHeartbeatRequest:
    wire = schema.decode(_HeartbeatRequest, data, position, version)
    return BrokerHeartbeatRequest(
        wire.broker_id,
        wire.broker_epoch,
        wire.current_metadata_offset,
        wire.want_fence,
        wire.want_shut_down,
    )


def _encode_heartbeat_request(request: BrokerHeartbeatRequest, version: int) -> Parts:
    return schema.encode(_HeartbeatRequest, version, **request._asdict())


def _decode_heartbeat_response(data: bytes, position: int, version: int) -> BrokerHeartbeatResponse:
    wire = schema.decode(_HeartbeatResponse, data, position, version)
    return BrokerHeartbeatResponse(wire.error_code, wire.is_caught_up, wire.is_fenced, wire.should_shut_down)


def _encode_heartbeat_response(response: BrokerHeartbeatResponse, version: int) -> Parts:
    return schema.encode(_HeartbeatResponse, version, **response._asdict())


BROKER_HEARTBEAT = Codec(
    api_key=63,
    name="BrokerHeartbeat",
    versions=(0, 1),
    flexible_from=0,
    request_type=BrokerHeartbeatRequest,
    decode_request=_decode_heartbeat_request,
    encode_request=_encode_heartbeat_request,
    decode_response=_decode_heartbeat_response,
    encode_response=_encode_heartbeat_response,
)

# --- AllocateProducerIds ----------------------------------------------------------------------------------

_AllocateRequest = schema.define("AllocateProducerIdsRequest")
_AllocateResponse = schema.define("AllocateProducerIdsResponse")


def _decode_allocate_request(data: bytes, position: int, version: int) -> AllocateProducerIdsRequest:
    wire = schema.decode(_AllocateRequest, data, position, version)
    return AllocateProducerIdsRequest(wire.broker_id, wire.broker_epoch)


def _encode_allocate_request(request: AllocateProducerIdsRequest, version: int) -> Parts:
    return schema.encode(_AllocateRequest, version, **request._asdict())


def _decode_allocate_response(data: bytes, position: int, version: int) -> AllocateProducerIdsResponse:
    wire = schema.decode(_AllocateResponse, data, position, version)
    return AllocateProducerIdsResponse(wire.error_code, wire.producer_id_start, wire.producer_id_len)


def _encode_allocate_response(response: AllocateProducerIdsResponse, version: int) -> Parts:
    return schema.encode(_AllocateResponse, version, **response._asdict())


ALLOCATE_PRODUCER_IDS = Codec(
    api_key=67,
    name="AllocateProducerIds",
    versions=(0, 0),
    flexible_from=0,
    request_type=AllocateProducerIdsRequest,
    decode_request=_decode_allocate_request,
    encode_request=_encode_allocate_request,
    decode_response=_decode_allocate_response,
    encode_response=_encode_allocate_response,
)
