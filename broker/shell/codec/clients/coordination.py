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
from broker.shell.codec.mapping import Message, many, mapped, message, record
from broker.shell.codec.wire import Parts

# --- InitProducerId ---------------------------------------------------------------------------------------

INIT_PRODUCER_ID = mapped(
    (0, 4),
    message(WireInitRequest, record(InitProducerIdRequest)),
    message(WireInitResponse, record(InitProducerIdResponse)),
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


_BATCH = message(WireFindResponse, record(FindCoordinatorResponse, coordinators=many(record(Coordinator))))


def _decode_find_response(data: bytes, position: int, version: int) -> FindCoordinatorResponse:
    if version >= _BATCHED:
        return _BATCH.decode(data, position, version)
    wire = schema.decode(WireFindResponse, data, position, version)
    single = Coordinator("", wire.error_code, wire.node_id, wire.host, wire.port, wire.error_message or None)
    return FindCoordinatorResponse((single,))


def _encode_find_response(response: FindCoordinatorResponse, version: int) -> Parts:
    if version >= _BATCHED:
        return _BATCH.encode(response, version)
    single = response.coordinators[0]._asdict()
    del single["key"]
    return schema.encode(WireFindResponse, version, **single)


FIND_COORDINATOR = mapped(
    (0, 6),
    Message(WireFindRequest, FindCoordinatorRequest, _decode_find_request, _encode_find_request),
    _BATCH._replace(decode=_decode_find_response, encode=_encode_find_response),
)
