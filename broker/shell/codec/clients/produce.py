"""Codec of Produce (0), versions 3 to 10, hand-written because every record of a client passes through it."""

from __future__ import annotations

import struct
from itertools import groupby

from broker.core.messages import ProducedPartition, ProducePartition, ProduceRequest, ProduceResponse
from broker.shell.codec import wire
from broker.shell.codec.base import Codec
from broker.shell.codec.wire import INT32, NO_TAGS, DecodeError, Parts

_FLEXIBLE = 9
_ACKS_TIMEOUT = struct.Struct(">hi")
_RESULT = struct.Struct(">ihqq")  # index, error code, base offset, log append time
_RESULT_WITH_START = struct.Struct(">ihqqq")  # … and log start offset (v5+)
_LEADER = struct.Struct(">iix")  # leader id, leader epoch, no tags
_UNTHROTTLED = INT32.pack(0)


def _decode_request(data: bytes, position: int, version: int) -> ProduceRequest:
    flexible = version >= _FLEXIBLE
    transactional_id, position = wire.read_nullable_string(data, position, flexible)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(data, position)
    topics, position = wire.read_array_size(data, position + 6, flexible)
    if topics > wire.ELEMENTS_MAX:
        raise DecodeError(f"expected at most {wire.ELEMENTS_MAX} topics, found {topics}")
    partitions = []
    for _ in range(topics):
        topic, position = wire.read_string(data, position, flexible)
        count, position = wire.read_array_size(data, position, flexible)
        for _ in range(count):
            partition = INT32.unpack_from(data, position)[0]
            records, position = wire.read_records(data, position + 4, flexible)
            if flexible:
                position = wire.skip_tags(data, position)
            partitions.append(ProducePartition(topic, partition, records))
            if len(partitions) > wire.ELEMENTS_MAX:
                raise DecodeError(f"expected at most {wire.ELEMENTS_MAX} partitions, found more")
        if flexible:
            position = wire.skip_tags(data, position)
    if flexible:
        wire.skip_tags(data, position)
    return ProduceRequest(acks, timeout_ms, tuple(partitions), transactional_id)


def _encode_request(request: ProduceRequest, version: int) -> Parts:
    flexible = version >= _FLEXIBLE
    tail = NO_TAGS if flexible else b""
    topics = [(topic, list(group)) for topic, group in groupby(request.partitions, lambda p: p.topic)]
    parts = [
        wire.nullable_string(request.transactional_id, flexible),
        _ACKS_TIMEOUT.pack(request.acks, request.timeout_ms),
        wire.array_size(len(topics), flexible),
    ]
    for topic, partitions in topics:
        parts += (wire.nullable_string(topic, flexible), wire.array_size(len(partitions), flexible))
        for each in partitions:
            size = wire.records_size(each.records, flexible)
            parts += (INT32.pack(each.partition), size, each.records, tail)
        parts.append(tail)
    parts.append(tail)
    return parts


def _result(result: ProducedPartition, version: int) -> bytes:
    head = (result.partition, result.error_code, result.base_offset, result.log_append_time_ms)
    if version < 5:
        return _RESULT.pack(*head)
    fixed = _RESULT_WITH_START.pack(*head, result.log_start_offset)
    if version < 8:
        return fixed
    flexible = version >= _FLEXIBLE
    fixed += wire.array_size(len(result.record_errors), flexible)
    for place, message in result.record_errors:
        fixed += INT32.pack(place) + wire.nullable_string(message, flexible) + (NO_TAGS if flexible else b"")
    fixed += wire.nullable_string(result.error_message, flexible)
    if not flexible:
        return fixed
    if version < 10 or result.current_leader is None:
        return fixed + NO_TAGS
    return fixed + wire.tags([(0, _LEADER.pack(*result.current_leader))])


def _encode_response(response: ProduceResponse, version: int) -> Parts:
    flexible = version >= _FLEXIBLE
    topics = [(topic, list(group)) for topic, group in groupby(response.partitions, lambda p: p.topic)]
    parts = [wire.array_size(len(topics), flexible)]
    for topic, results in topics:
        parts += (wire.nullable_string(topic, flexible), wire.array_size(len(results), flexible))
        parts += [_result(result, version) for result in results]
        if flexible:
            parts.append(NO_TAGS)
    parts.append(_UNTHROTTLED)
    if flexible:
        parts.append(NO_TAGS)
    return parts


def _read_result(data: bytes, position: int, version: int, topic: str) -> tuple[ProducedPartition, int]:
    log_start_offset = -1
    if version < 5:
        partition, error_code, base_offset, append_time_ms = _RESULT.unpack_from(data, position)
        position += _RESULT.size
    else:
        fields = _RESULT_WITH_START.unpack_from(data, position)
        partition, error_code, base_offset, append_time_ms, log_start_offset = fields
        position += _RESULT_WITH_START.size
    flexible = version >= _FLEXIBLE
    message = leader = None
    record_errors = []
    if version >= 8:
        errors, position = wire.read_array_size(data, position, flexible)
        for _ in range(errors):
            (place,) = INT32.unpack_from(data, position)
            wrong, position = wire.read_nullable_string(data, position + INT32.size, flexible)
            record_errors.append((place, wrong))
            if flexible:
                position = wire.skip_tags(data, position)
        message, position = wire.read_nullable_string(data, position, flexible)
    if flexible:
        tags, position = wire.read_tags(data, position)
        if version >= 10 and 0 in tags:
            leader = _LEADER.unpack_from(data, tags[0][0])
    return (
        ProducedPartition(
            topic,
            partition,
            error_code,
            base_offset,
            log_start_offset,
            "",
            message,
            leader,
            append_time_ms,
            tuple(record_errors),
        ),
        position,
    )


def _decode_response(data: bytes, position: int, version: int) -> ProduceResponse:
    flexible = version >= _FLEXIBLE
    topics, position = wire.read_array_size(data, position, flexible)
    results = []
    for _ in range(topics):
        topic, position = wire.read_string(data, position, flexible)
        count, position = wire.read_array_size(data, position, flexible)
        for _ in range(count):
            result, position = _read_result(data, position, version, topic)
            results.append(result)
        if flexible:
            position = wire.skip_tags(data, position)
    _, position = INT32.unpack_from(data, position), position + 4
    if flexible:
        wire.skip_tags(data, position)
    return ProduceResponse(tuple(results))


PRODUCE = Codec(
    api_key=0,
    name="Produce",
    versions=(3, 10),
    flexible_from=_FLEXIBLE,
    request_type=ProduceRequest,
    request_bytes_max=1 << 31,  # `socket.request.max.bytes` is what bounds it
    decode_request=_decode_request,
    encode_request=_encode_request,
    decode_response=_decode_response,
    encode_response=_encode_response,
)
