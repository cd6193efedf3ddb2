"""Codec of other requests about the metadata log: DescribeQuorum (55), versions 0 to 2, FetchSnapshot (59), 0 and 1.

FetchSnapshot is hand-written: kafka-python cannot express a structure that is neither nullable nor in
an array.
"""

from __future__ import annotations

import struct

from kafka.protocol.admin import DescribeQuorumRequest as WireDescribeRequest
from kafka.protocol.admin import DescribeQuorumResponse as WireDescribeResponse

from broker.core.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumReplica,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_TOPIC
from broker.shell.codec import mapping, wire
from broker.shell.codec.base import Codec
from broker.shell.codec.cluster.quorum import one_topic, the_partition
from broker.shell.codec.mapping import Message, Structure, many, mapped, record
from broker.shell.codec.wire import NO_TAGS, DecodeError, Parts

# --- DescribeQuorum ---------------------------------------------------------------------------------------

_REPLICA = record(QuorumReplica, last_fetch_ms="last_fetch_timestamp", last_caught_up_ms="last_caught_up_timestamp")
_DESCRIBED = record(DescribeQuorumResponse, voters=("current_voters", many(_REPLICA)), observers=many(_REPLICA))
_read, _write = Structure.directions(WireDescribeResponse.TopicData.PartitionData, _DESCRIBED.columns)


def _decode_describe_request(data: bytes, position: int, version: int) -> DescribeQuorumRequest:
    the_partition(mapping.decode_message(WireDescribeRequest, data, position, version))
    return DescribeQuorumRequest()


def _encode_describe_request(_: DescribeQuorumRequest, version: int) -> Parts:
    return mapping.encode_message(WireDescribeRequest, version, topics=one_topic(WireDescribeRequest, version, {}))


def _decode_describe_response(data: bytes, position: int, version: int) -> DescribeQuorumResponse:
    return _DESCRIBED.make(_read(the_partition(mapping.decode_message(WireDescribeResponse, data, position, version))))


def _encode_describe_response(response: DescribeQuorumResponse, version: int) -> Parts:
    topics = one_topic(WireDescribeResponse, version, _write(response, version))
    return mapping.encode_message(WireDescribeResponse, version, error_code=0, topics=topics, nodes=[])


DESCRIBE_QUORUM = mapped(
    (0, 2),
    Message(WireDescribeRequest, DescribeQuorumRequest, _decode_describe_request, _encode_describe_request),
    Message(WireDescribeResponse, DescribeQuorumResponse, _decode_describe_response, _encode_describe_response),
)

# --- FetchSnapshot ----------------------------------------------------------------------------------------

_CLUSTER_ID_TAG = 0
_CURRENT_LEADER_TAG = 0
_LIMITS = struct.Struct(">ii")  # replica id, max bytes
_ASKED = struct.Struct(">iiqiBq")  # partition, leader epoch, snapshot's end offset and epoch, no tags, position
_HEAD = struct.Struct(">ih")  # throttle time, error code
_SAID = struct.Struct(">ihqiBqq")  # partition, error code, snapshot's end offset and epoch, no tags, size, position
_LEADER = struct.Struct(">iix")  # leader id, leader epoch, no tags
_ONE = wire.array_size(1, flexible=True)
_ONE_TOPIC = _ONE + wire.nullable_string(METADATA_TOPIC, flexible=True) + _ONE


def _enter(data: bytes, position: int) -> int:
    """Skip the names before the one partition."""
    if data[position : position + len(_ONE_TOPIC)] != _ONE_TOPIC:
        raise DecodeError(f"expected one partition of {METADATA_TOPIC}")
    return position + len(_ONE_TOPIC)


def _decode_snapshot_request(data: bytes, position: int, _: int) -> FetchSnapshotRequest:
    replica_id, max_bytes = _LIMITS.unpack_from(data, position)
    position = _enter(data, position + _LIMITS.size)
    _, epoch, end_offset, snapshot_epoch, tags, offset = _ASKED.unpack_from(data, position)
    if tags:
        raise DecodeError("tagged fields in a snapshot's id, which has none")
    position = wire.skip_tags(data, wire.skip_tags(data, position + _ASKED.size))
    fields, _ = wire.read_tags(data, position)
    cluster_id = None
    if _CLUSTER_ID_TAG in fields:
        cluster_id, _ = wire.read_nullable_string(data, fields[_CLUSTER_ID_TAG][0], flexible=True)
    snapshot_id = (end_offset, snapshot_epoch)
    return FetchSnapshotRequest(cluster_id or "", replica_id, max_bytes, epoch, snapshot_id, offset)


def _encode_snapshot_request(request: FetchSnapshotRequest, _: int) -> Parts:
    return [
        _LIMITS.pack(request.replica_id, request.max_bytes),
        _ONE_TOPIC,
        _ASKED.pack(0, request.current_leader_epoch, *request.snapshot_id, 0, request.position),
        NO_TAGS * 2,
        wire.tags([(_CLUSTER_ID_TAG, wire.nullable_string(request.cluster_id, flexible=True))]),
    ]


def _decode_snapshot_response(data: bytes, position: int, _: int) -> FetchSnapshotResponse:
    __, top_level = _HEAD.unpack_from(data, position)
    position = _enter(data, position + _HEAD.size)
    __, error_code, end_offset, epoch, tags, size, offset = _SAID.unpack_from(data, position)
    if tags:
        raise DecodeError("tagged fields in a snapshot's id, which has none")
    content, position = wire.read_records(data, position + _SAID.size, flexible=True)
    fields, position = wire.read_tags(data, position)
    leader = (-1, -1)
    if _CURRENT_LEADER_TAG in fields:
        leader = _LEADER.unpack_from(data, fields[_CURRENT_LEADER_TAG][0])
    wire.skip_tags(data, wire.skip_tags(data, position))
    return FetchSnapshotResponse(top_level or error_code, (end_offset, epoch), size, offset, content, *leader)


def _encode_snapshot_response(response: FetchSnapshotResponse, _: int) -> Parts:
    wrong_cluster = response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    ends = *response.snapshot_id, 0, response.size, response.position
    leader = _LEADER.pack(response.leader_id, response.leader_epoch)
    return [
        _HEAD.pack(0, response.error_code if wrong_cluster else 0),
        _ONE_TOPIC,
        _SAID.pack(0, response.error_code, *ends),
        wire.records_size(response.data, flexible=True),
        response.data,
        wire.tags([(_CURRENT_LEADER_TAG, leader)]),
        NO_TAGS * 2,
    ]


FETCH_SNAPSHOT = Codec(
    api_key=59,
    name="FetchSnapshot",
    versions=(0, 1),
    flexible_from=0,
    request_type=FetchSnapshotRequest,
    decode_request=_decode_snapshot_request,
    encode_request=_encode_snapshot_request,
    decode_response=_decode_snapshot_response,
    encode_response=_encode_snapshot_response,
)
