"""Codec of Fetch (1), versions 4 to 16, hand-written because consumers, followers and the metadata log all use it.

Followers need version 15 or later to send their broker epoch (KIP-903), and from version 13 on topics are named
by id only. So a node sends version 16 when it knows the ids of all topics it asks for, otherwise 12, with
names.
"""

from __future__ import annotations

import struct
from itertools import groupby

from broker.core.messages import NO_PREFERRED_REPLICA, FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from broker.shell.codec import wire
from broker.shell.codec.base import Codec
from broker.shell.codec.wire import INT32, NO_TAGS, DecodeError, Parts

_FLEXIBLE = 12
_TOPIC_IDS = 13
_BY_NAME = 12
_BY_ID = 16

_LIMITS = struct.Struct(">iiib")  # max wait, min bytes, max bytes, isolation level
_SESSION = struct.Struct(">ii")  # session id, session epoch
_REPLICA_STATE = struct.Struct(">iqx")  # replica id, replica epoch, no tags

# partition, [current leader epoch 9+], fetch offset, [last fetched epoch 12+], [log start 5+], max bytes
_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqi")

# partition, error code, high watermark, last stable offset, [log start 5+]
_FETCHED_V4 = struct.Struct(">ihqq")
_FETCHED_V5 = struct.Struct(">ihqqq")

_HEAD_V7 = struct.Struct(">ihi")  # throttle time, error code, session id
_EPOCH_END = struct.Struct(">iqx")  # epoch, end offset, no tags
_LEADER = struct.Struct(">iix")  # leader id, leader epoch, no tags
_SNAPSHOT = struct.Struct(">qix")  # end offset, epoch, no tags
_DIVERGING_EPOCH_TAG, _CURRENT_LEADER_TAG, _SNAPSHOT_ID_TAG = 0, 1, 2
_CLUSTER_ID_TAG, _REPLICA_STATE_TAG = 0, 1
_ABORTED_TRANSACTION_BYTES = 16


def _version_for(request: FetchRequest) -> int:
    ids = [partition.topic_id for partition in request.partitions] + [topic_id for _, topic_id, _ in request.forgotten]
    return _BY_ID if all(ids) else _BY_NAME


def _read_topic(data: bytes, position: int, version: int) -> tuple[str, str, int]:
    """Read the name or id that the version carries; returns (name, id, position after it)."""
    if version >= _TOPIC_IDS:
        topic_id, position = wire.read_topic_id(data, position)
        return "", topic_id, position
    name, position = wire.read_string(data, position, version >= _FLEXIBLE)
    return name, "", position


def _topic(name: str, topic_id: str, version: int) -> bytes:
    if version >= _TOPIC_IDS:
        return wire.topic_id_bytes(topic_id)
    return wire.nullable_string(name, version >= _FLEXIBLE)


# --- requests ---------------------------------------------------------------------------------------------


def _read_partition(data: bytes, position: int, version: int, name: str, topic_id: str) -> tuple[FetchPartition, int]:
    if version >= 12:
        partition, leader_epoch, offset, fetched_epoch, start, size = _PARTITION_V12.unpack_from(data, position)
        position = wire.skip_tags(data, position + _PARTITION_V12.size)
        return FetchPartition(name, partition, offset, size, leader_epoch, fetched_epoch, start, topic_id), position
    if version >= 9:
        partition, leader_epoch, offset, start, size = _PARTITION_V9.unpack_from(data, position)
        return FetchPartition(name, partition, offset, size, leader_epoch, -1, start), position + _PARTITION_V9.size
    if version >= 5:
        partition, offset, start, size = _PARTITION_V5.unpack_from(data, position)
        return FetchPartition(name, partition, offset, size, -1, -1, start), position + _PARTITION_V5.size
    partition, offset, size = _PARTITION_V4.unpack_from(data, position)
    return FetchPartition(name, partition, offset, size), position + _PARTITION_V4.size


def _read_partitions(data: bytes, position: int, version: int) -> tuple[tuple[FetchPartition, ...], int]:
    flexible = version >= _FLEXIBLE
    topics, position = wire.read_array_size(data, position, flexible)
    partitions = []
    for _ in range(topics):
        name, topic_id, position = _read_topic(data, position, version)
        count, position = wire.read_array_size(data, position, flexible)
        for _ in range(count):
            partition, position = _read_partition(data, position, version, name, topic_id)
            partitions.append(partition)
        if flexible:
            position = wire.skip_tags(data, position)
    return tuple(partitions), position


def _read_forgotten(data: bytes, position: int, version: int) -> tuple[tuple[tuple[str, str, int], ...], int]:
    flexible = version >= _FLEXIBLE
    topics, position = wire.read_array_size(data, position, flexible)
    forgotten = []
    for _ in range(topics):
        name, topic_id, position = _read_topic(data, position, version)
        count, position = wire.read_array_size(data, position, flexible)
        for _ in range(count):
            forgotten.append((name, topic_id, INT32.unpack_from(data, position)[0]))
            position += 4
        if flexible:
            position = wire.skip_tags(data, position)
    return tuple(forgotten), position


def _decode_request(data: bytes, position: int, version: int) -> FetchRequest:
    replica_id, replica_epoch, session_id, session_epoch = -1, -1, 0, -1
    if version < 15:
        replica_id = INT32.unpack_from(data, position)[0]
        position += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(data, position)
    position += _LIMITS.size
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(data, position)
        position += _SESSION.size
    partitions, position = _read_partitions(data, position, version)
    forgotten: tuple[tuple[str, str, int], ...] = ()
    if version >= 7:
        forgotten, position = _read_forgotten(data, position, version)
    rack_id = ""
    if version >= 11:
        rack_id, position = wire.read_string(data, position, version >= _FLEXIBLE)
    cluster_id = None
    if version >= _FLEXIBLE:
        fields, position = wire.read_tags(data, position)
        if _CLUSTER_ID_TAG in fields:
            cluster_id, _ = wire.read_nullable_string(data, fields[_CLUSTER_ID_TAG][0], flexible=True)
        if version >= 15 and _REPLICA_STATE_TAG in fields:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(data, fields[_REPLICA_STATE_TAG][0])
    return FetchRequest(
        partitions,
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        forgotten,
        cluster_id,
        rack_id,
    )


def _partition(each: FetchPartition, version: int) -> bytes:
    index, offset, start, size = each.partition, each.fetch_offset, each.log_start_offset, each.max_bytes
    if version >= 12:
        epochs = each.current_leader_epoch, each.last_fetched_epoch
        return _PARTITION_V12.pack(index, epochs[0], offset, epochs[1], start, size) + NO_TAGS
    if version >= 9:
        return _PARTITION_V9.pack(index, each.current_leader_epoch, offset, start, size)
    if version >= 5:
        return _PARTITION_V5.pack(index, offset, start, size)
    return _PARTITION_V4.pack(index, offset, size)


def _forgotten(request: FetchRequest, version: int) -> Parts:
    flexible = version >= _FLEXIBLE
    topics = [(topic, list(group)) for topic, group in groupby(request.forgotten, lambda f: (f[0], f[1]))]
    parts = [wire.array_size(len(topics), flexible)]
    for (name, topic_id), members in topics:
        parts += (_topic(name, topic_id, version), wire.array_size(len(members), flexible))
        parts += [INT32.pack(partition) for _, _, partition in members]
        if flexible:
            parts.append(NO_TAGS)
    return parts


def _request_tags(request: FetchRequest, version: int) -> bytes:
    fields = []
    if request.cluster_id is not None:
        fields.append((_CLUSTER_ID_TAG, wire.nullable_string(request.cluster_id, flexible=True)))
    if version >= 15 and (request.replica_id, request.replica_epoch) != (-1, -1):
        fields.append((_REPLICA_STATE_TAG, _REPLICA_STATE.pack(request.replica_id, request.replica_epoch)))
    return wire.tags(fields) if fields else NO_TAGS


def _encode_request(request: FetchRequest, version: int) -> Parts:
    flexible = version >= _FLEXIBLE
    parts = [INT32.pack(request.replica_id)] if version < 15 else []
    limits = request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level
    parts.append(_LIMITS.pack(*limits))
    if version >= 7:
        parts.append(_SESSION.pack(request.session_id, request.session_epoch))
    topics = [(key, list(group)) for key, group in groupby(request.partitions, lambda p: (p.topic, p.topic_id))]
    parts.append(wire.array_size(len(topics), flexible))
    for (name, topic_id), partitions in topics:
        parts += (_topic(name, topic_id, version), wire.array_size(len(partitions), flexible))
        parts += [_partition(partition, version) for partition in partitions]
        if flexible:
            parts.append(NO_TAGS)
    if version >= 7:
        parts += _forgotten(request, version)
    if version >= 11:
        parts.append(wire.nullable_string(request.rack_id, flexible))
    if flexible:
        parts.append(_request_tags(request, version))
    return parts


# --- responses --------------------------------------------------------------------------------------------


def _fetched_tags(each: FetchedPartition) -> bytes:
    if each.diverging_epoch is None and each.current_leader is None and each.snapshot_id is None:
        return NO_TAGS
    fields = []
    if each.diverging_epoch is not None:
        fields.append((_DIVERGING_EPOCH_TAG, _EPOCH_END.pack(*each.diverging_epoch)))
    if each.current_leader is not None:
        fields.append((_CURRENT_LEADER_TAG, _LEADER.pack(*each.current_leader)))
    if each.snapshot_id is not None:
        fields.append((_SNAPSHOT_ID_TAG, _SNAPSHOT.pack(*each.snapshot_id)))
    return wire.tags(fields)


def _fetched(each: FetchedPartition, version: int) -> Parts:
    flexible = version >= _FLEXIBLE
    fixed = each.partition, each.error_code, each.high_watermark, each.last_stable_offset
    head = _FETCHED_V4.pack(*fixed) if version < 5 else _FETCHED_V5.pack(*fixed, each.log_start_offset)
    head += wire.array_size(0, flexible)
    if version >= 11:
        head += INT32.pack(each.preferred_read_replica)
    parts = [head + wire.records_size(each.records, flexible), each.records]
    if flexible:
        parts.append(_fetched_tags(each))
    return parts


def _encode_response(response: FetchResponse, version: int) -> Parts:
    flexible = version >= _FLEXIBLE
    head = _HEAD_V7.pack(0, response.error_code, response.session_id) if version >= 7 else INT32.pack(0)
    topics = [(key, list(group)) for key, group in groupby(response.partitions, lambda p: (p.topic, p.topic_id))]
    parts = [head, wire.array_size(len(topics), flexible)]
    for (name, topic_id), partitions in topics:
        parts += (_topic(name, topic_id, version), wire.array_size(len(partitions), flexible))
        for partition in partitions:
            parts += _fetched(partition, version)
        if flexible:
            parts.append(NO_TAGS)
    if flexible:
        parts.append(NO_TAGS)
    return parts


def _skip_aborted_transactions(data: bytes, position: int, flexible: bool) -> int:
    count, position = wire.read_array_size(data, position, flexible)
    if count * _ABORTED_TRANSACTION_BYTES > len(data) - position:
        raise DecodeError(f"{count} aborted transactions do not fit into the frame")
    for _ in range(count):
        position += _ABORTED_TRANSACTION_BYTES
        if flexible:
            position = wire.skip_tags(data, position)
    return position


def _read_fetched(data: bytes, position: int, version: int, name: str, topic_id: str) -> tuple[FetchedPartition, int]:
    start = -1
    if version >= 5:
        partition, error_code, high_watermark, stable, start = _FETCHED_V5.unpack_from(data, position)
        position += _FETCHED_V5.size
    else:
        partition, error_code, high_watermark, stable = _FETCHED_V4.unpack_from(data, position)
        position += _FETCHED_V4.size
    flexible = version >= _FLEXIBLE
    position = _skip_aborted_transactions(data, position, flexible)
    preferred = NO_PREFERRED_REPLICA
    if version >= 11:
        (preferred,) = INT32.unpack_from(data, position)
        position += 4
    records, position = wire.read_records(data, position, flexible)
    diverging = leader = snapshot = None
    if flexible:
        fields, position = wire.read_tags(data, position)
        if fields:
            if _DIVERGING_EPOCH_TAG in fields:
                diverging = _EPOCH_END.unpack_from(data, fields[_DIVERGING_EPOCH_TAG][0])
            if _CURRENT_LEADER_TAG in fields:
                leader = _LEADER.unpack_from(data, fields[_CURRENT_LEADER_TAG][0])
            if _SNAPSHOT_ID_TAG in fields:
                snapshot = _SNAPSHOT.unpack_from(data, fields[_SNAPSHOT_ID_TAG][0])
    fetched = FetchedPartition(
        name,
        partition,
        error_code,
        high_watermark,
        stable,
        start,
        records,
        diverging,
        leader,
        snapshot,
        topic_id,
        preferred,
    )
    return fetched, position


def _decode_response(data: bytes, position: int, version: int) -> FetchResponse:
    flexible = version >= _FLEXIBLE
    error_code = session_id = 0
    if version >= 7:
        _, error_code, session_id = _HEAD_V7.unpack_from(data, position)
        position += _HEAD_V7.size
    else:
        _, position = INT32.unpack_from(data, position), position + 4
    topics, position = wire.read_array_size(data, position, flexible)
    partitions = []
    for _ in range(topics):
        name, topic_id, position = _read_topic(data, position, version)
        count, position = wire.read_array_size(data, position, flexible)
        for _ in range(count):
            partition, position = _read_fetched(data, position, version, name, topic_id)
            partitions.append(partition)
        if flexible:
            position = wire.skip_tags(data, position)
    if flexible:
        wire.skip_tags(data, position)
    return FetchResponse(tuple(partitions), error_code, session_id)


def _name_topics(response: FetchResponse, request: FetchRequest) -> FetchResponse:
    names = {partition.topic_id: partition.topic for partition in request.partitions}
    named = tuple(
        partition if partition.topic else partition._replace(topic=names.get(partition.topic_id, ""))
        for partition in response.partitions
    )
    return response._replace(partitions=named)


FETCH = Codec(
    api_key=1,
    name="Fetch",
    versions=(4, 16),
    flexible_from=_FLEXIBLE,
    request_type=FetchRequest,
    decode_request=_decode_request,
    encode_request=_encode_request,
    decode_response=_decode_response,
    encode_response=_encode_response,
    version_for=_version_for,
    name_topics=_name_topics,
)
