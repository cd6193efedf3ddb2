"""Codec of group offsets: OffsetCommit (8), versions 2 to 9, OffsetFetch (9), 2 to 9, OffsetDelete (47), 0."""

from __future__ import annotations

from kafka.protocol.consumer import OffsetCommitRequest as WireCommitRequest
from kafka.protocol.consumer import OffsetCommitResponse as WireCommitResponse
from kafka.protocol.consumer import OffsetDeleteRequest as WireDeleteRequest
from kafka.protocol.consumer import OffsetDeleteResponse as WireDeleteResponse
from kafka.protocol.consumer import OffsetFetchRequest as WireFetchRequest
from kafka.protocol.consumer import OffsetFetchResponse as WireFetchResponse

from broker.core.messages.groups import (
    CommittedPartition,
    DeletedOffset,
    FetchedGroup,
    FetchedOffset,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from broker.shell.codec import schema
from broker.shell.codec.mapping import BOOL, NOT_ON_WIRE, by_topic, many, mapped, message, nullable, record, row
from broker.shell.codec.wire import Parts

# --- OffsetCommit -----------------------------------------------------------------------------------------

_COMMIT = record(
    OffsetCommitPartition,
    partition="partition_index",
    offset="committed_offset",
    leader_epoch="committed_leader_epoch",
    metadata="committed_metadata",
)
_COMMITTED = record(CommittedPartition, partition="partition_index")

OFFSET_COMMIT = mapped(
    (2, 9),
    message(
        WireCommitRequest,
        record(
            OffsetCommitRequest,
            generation_id="generation_id_or_member_epoch",
            partitions=("topics", by_topic(_COMMIT)),
            instance_id="group_instance_id",
        ),
    ),
    message(WireCommitResponse, record(OffsetCommitResponse, partitions=("topics", by_topic(_COMMITTED)))),
)

# --- OffsetFetch ------------------------------------------------------------------------------------------

_BATCHED = 8
"""From this version on a request asks for several groups (KIP-709); before it, its one group is the message."""

_ASKED = record(
    OffsetFetchGroup, partitions=("topics", nullable(by_topic(row("topic", "partition"), "partition_indexes")))
)
_OFFSET = record(
    FetchedOffset,
    partition="partition_index",
    offset="committed_offset",
    leader_epoch="committed_leader_epoch",
)
_FOUND = ("topics", by_topic(_OFFSET))
_FETCH = message(WireFetchRequest, record(OffsetFetchRequest, groups=many(_ASKED), require_stable=BOOL))
_FETCH_ONE = _ASKED.bind(WireFetchRequest)
_FETCHED = message(WireFetchResponse, record(OffsetFetchResponse, groups=many(record(FetchedGroup, partitions=_FOUND))))
_FETCHED_ONE = message(WireFetchResponse, record(FetchedGroup, group_id=NOT_ON_WIRE, partitions=_FOUND))


def _decode_fetch_request(data: bytes, position: int, version: int) -> OffsetFetchRequest:
    if version >= _BATCHED:
        return _FETCH.decode(data, position, version)
    wire = schema.decode(WireFetchRequest, data, position, version)
    return OffsetFetchRequest((_FETCH_ONE.read(wire),), bool(wire.require_stable))


def _encode_fetch_request(request: OffsetFetchRequest, version: int) -> Parts:
    if version >= _BATCHED:
        return _FETCH.encode(request, version)
    wire = _FETCH_ONE.write(request.groups[0] if request.groups else OffsetFetchGroup("", ()), version)
    wire.require_stable = request.require_stable
    return [bytes(wire.encode())]


def _decode_fetch_response(data: bytes, position: int, version: int) -> OffsetFetchResponse:
    if version >= _BATCHED:
        return _FETCHED.decode(data, position, version)
    return OffsetFetchResponse((_FETCHED_ONE.decode(data, position, version),))


def _encode_fetch_response(response: OffsetFetchResponse, version: int) -> Parts:
    if version >= _BATCHED:
        return _FETCHED.encode(response, version)
    return _FETCHED_ONE.encode(response.groups[0] if response.groups else FetchedGroup("", 0), version)


OFFSET_FETCH = mapped(
    (2, 9),
    _FETCH._replace(decode=_decode_fetch_request, encode=_encode_fetch_request),
    _FETCHED._replace(decode=_decode_fetch_response, encode=_encode_fetch_response),
)

# --- OffsetDelete -----------------------------------------------------------------------------------------

_DELETE = row("topic", "partition_index")
_DELETED = record(DeletedOffset, partition="partition_index")

OFFSET_DELETE = mapped(
    (0, 0),
    message(WireDeleteRequest, record(OffsetDeleteRequest, partitions=("topics", by_topic(_DELETE)))),
    message(WireDeleteResponse, record(OffsetDeleteResponse, partitions=("topics", by_topic(_DELETED)))),
)
