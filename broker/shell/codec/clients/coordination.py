"""Codec of InitProducerId (22), versions 0 to 4, and FindCoordinator (10), versions 0 to 6."""

from __future__ import annotations

from kafka.protocol.metadata import FindCoordinatorRequest as WireFindRequest
from kafka.protocol.metadata import FindCoordinatorResponse as WireFindResponse
from kafka.protocol.producer import InitProducerIdRequest as WireInitRequest
from kafka.protocol.producer import InitProducerIdResponse as WireInitResponse

from broker.core.messages import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.wire import Parts

# --- InitProducerId ---------------------------------------------------------------------------------------


def _decode_init_request(data: bytes, position: int, version: int) -> InitProducerIdRequest:
    wire = schema.decode(WireInitRequest, data, position, version)
    return InitProducerIdRequest(wire.transactional_id, wire.producer_id, wire.producer_epoch)


def _encode_init_request(request: InitProducerIdRequest, version: int) -> Parts:
    return schema.encode(
        WireInitRequest,
        version,
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )


def _decode_init_response(data: bytes, position: int, version: int) -> InitProducerIdResponse:
    wire = schema.decode(WireInitResponse, data, position, version)
    return InitProducerIdResponse(wire.error_code, wire.producer_id, wire.producer_epoch)


def _encode_init_response(response: InitProducerIdResponse, version: int) -> Parts:
    return schema.encode(
        WireInitResponse,
        version,
        error_code=response.error_code,
        producer_id=response.producer_id,
        producer_epoch=response.producer_epoch,
    )


INIT_PRODUCER_ID = Codec(
    api_key=22,
    name="InitProducerId",
    versions=(0, 4),
    flexible_from=2,
    request_type=InitProducerIdRequest,
    decode_request=_decode_init_request,
    encode_request=_encode_init_request,
    decode_response=_decode_init_response,
    encode_response=_encode_init_response,
)

# --- FindCoordinator --------------------------------------------------------------------------------------

_BATCHED = 4
"""From this version on a request asks for several keys (KIP-699)."""


def _decode_find_request(data: bytes, position: int, version: int) -> FindCoordinatorRequest:
    wire = schema.decode(WireFindRequest, data, position, version)
    keys = tuple(schema.elements(wire.coordinator_keys)) if version >= _BATCHED else (wire.key,)
    return FindCoordinatorRequest(wire.key_type or 0, keys)


def _encode_find_request(request: FindCoordinatorRequest, version: int) -> Parts:
    return schema.encode(
        WireFindRequest,
        version,
        key=request.keys[0] if request.keys else "",
        key_type=request.key_type,
        coordinator_keys=request.keys,
    )


def _decode_find_response(data: bytes, position: int, version: int) -> FindCoordinatorResponse:
    wire = schema.decode(WireFindResponse, data, position, version)
    if version < _BATCHED:
        single = Coordinator("", wire.error_code, wire.node_id, wire.host, wire.port, wire.error_message or None)
        return FindCoordinatorResponse((single,))
    return FindCoordinatorResponse(
        tuple(
            Coordinator(each.key, each.error_code, each.node_id, each.host, each.port, each.error_message)
            for each in schema.elements(wire.coordinators)
        )
    )


def _encode_find_response(response: FindCoordinatorResponse, version: int) -> Parts:
    if version < _BATCHED:
        single = response.coordinators[0]
        return schema.encode(
            WireFindResponse,
            version,
            error_code=single.error_code,
            error_message=single.error_message,
            node_id=single.node_id,
            host=single.host,
            port=single.port,
        )
    coordinators = [
        WireFindResponse.Coordinator(
            version=version,
            key=each.key,
            node_id=each.node_id,
            host=each.host,
            port=each.port,
            error_code=each.error_code,
            error_message=each.error_message,
        )
        for each in response.coordinators
    ]
    return schema.encode(WireFindResponse, version, coordinators=coordinators)


FIND_COORDINATOR = Codec(
    api_key=10,
    name="FindCoordinator",
    versions=(0, 6),
    flexible_from=3,
    request_type=FindCoordinatorRequest,
    decode_request=_decode_find_request,
    encode_request=_encode_find_request,
    decode_response=_decode_find_response,
    encode_response=_encode_find_response,
)
