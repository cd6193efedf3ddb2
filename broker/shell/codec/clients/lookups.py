"""Codec of what clients look up before they produce or fetch.

Metadata (3), versions 0 to 13, FindCoordinator (10), 0 to 6, InitProducerId (22), 0 to 4, ListOffsets (2), 1 to 11, and
OffsetForLeaderEpoch (23), 2 to 4.
"""

from __future__ import annotations

from kafka.protocol.consumer import ListOffsetsRequest as WireListRequest
from kafka.protocol.consumer import ListOffsetsResponse as WireListResponse
from kafka.protocol.consumer import OffsetForLeaderEpochRequest as WireEpochRequest
from kafka.protocol.consumer import OffsetForLeaderEpochResponse as WireEpochResponse
from kafka.protocol.metadata import FindCoordinatorRequest as WireFindRequest
from kafka.protocol.metadata import FindCoordinatorResponse as WireFindResponse
from kafka.protocol.metadata import MetadataRequest as WireMetadataRequest
from kafka.protocol.metadata import MetadataResponse as WireMetadataResponse
from kafka.protocol.producer import InitProducerIdRequest as WireInitRequest
from kafka.protocol.producer import InitProducerIdResponse as WireInitResponse

from broker.core.messages import (
    Coordinator,
    EpochEnd,
    EpochEndPartition,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from broker.shell.codec import mapping
from broker.shell.codec.mapping import (
    ARRAY,
    BITS,
    BOOL,
    TEXT,
    UUID,
    Message,
    by_topic,
    many,
    mapped,
    message,
    record,
    text_before,
)
from broker.shell.codec.wire import Parts

# --- Metadata -------------------------------------------------------------------------------------------

_NAME_MAY_BE_NULL = 12
"""From this version on, the first that allows requests by id."""


def _decode_metadata_request(data: bytes, position: int, version: int) -> MetadataRequest:
    wire = mapping.decode_message(WireMetadataRequest, data, position, version)
    # Version 0 has no null: its empty array asks for all topics, in later versions for none.
    if wire.topics is None or (version == 0 and not wire.topics):
        topics = None
    else:
        topics = tuple((each.name, mapping.uuid_text(each.topic_id)) for each in wire.topics)
    return MetadataRequest(
        topics,
        version < 4 or wire.allow_auto_topic_creation,
        bool(wire.include_cluster_authorized_operations),
        bool(wire.include_topic_authorized_operations),
    )


def _encode_metadata_request(request: MetadataRequest, version: int) -> Parts:
    topics = None
    if request.topics is not None:
        topics = [
            WireMetadataRequest.MetadataRequestTopic(
                version=version, name=name, topic_id=mapping.uuid_or_zero(topic_id)
            )
            for name, topic_id in request.topics
        ]
    elif version == 0:
        topics = []
    return mapping.encode_message(
        WireMetadataRequest,
        version,
        topics=topics,
        allow_auto_topic_creation=request.allow_auto_topic_creation,
        include_cluster_authorized_operations=request.include_cluster_authorized_operations,
        include_topic_authorized_operations=request.include_topic_authorized_operations,
    )


_PARTITION = record(
    MetadataPartition,
    partition="partition_index",
    leader="leader_id",
    replicas=("replica_nodes", ARRAY),
    isr=("isr_nodes", ARRAY),
    offline_replicas=ARRAY,
)
_TOPIC = record(
    MetadataTopic,
    name=text_before(_NAME_MAY_BE_NULL),
    topic_id=UUID,
    is_internal=BOOL,
    partitions=many(_PARTITION),
    authorized_operations=BITS,
)
_METADATA = record(
    MetadataResponse,
    brokers=many(record(MetadataBroker)),
    cluster_id=TEXT,
    topics=many(_TOPIC),
    authorized_operations=BITS,
)

METADATA = mapped(
    (0, 13),
    Message(WireMetadataRequest, MetadataRequest, _decode_metadata_request, _encode_metadata_request),
    message(WireMetadataResponse, _METADATA),
)


# --- InitProducerId ---------------------------------------------------------------------------------------

INIT_PRODUCER_ID = mapped(
    (0, 4),
    message(WireInitRequest, record(InitProducerIdRequest)),
    message(WireInitResponse, record(InitProducerIdResponse)),
)

# --- FindCoordinator --------------------------------------------------------------------------------------

_MANY_KEYS = 4
"""From this version on a request asks for several keys (KIP-699)."""


def _decode_find_request(data: bytes, position: int, version: int) -> FindCoordinatorRequest:
    wire = mapping.decode_message(WireFindRequest, data, position, version)
    keys = tuple(mapping.elements(wire.coordinator_keys)) if version >= _MANY_KEYS else (wire.key,)
    return FindCoordinatorRequest(wire.key_type or 0, keys)


def _encode_find_request(request: FindCoordinatorRequest, version: int) -> Parts:
    return mapping.encode_message(
        WireFindRequest,
        version,
        key=request.keys[0] if request.keys else "",
        key_type=request.key_type,
        coordinator_keys=request.keys,
    )


_BATCH = message(WireFindResponse, record(FindCoordinatorResponse, coordinators=many(record(Coordinator))))


def _decode_find_response(data: bytes, position: int, version: int) -> FindCoordinatorResponse:
    if version >= _MANY_KEYS:
        return _BATCH.decode(data, position, version)
    wire = mapping.decode_message(WireFindResponse, data, position, version)
    single = Coordinator("", wire.error_code, wire.node_id, wire.host, wire.port, wire.error_message or None)
    return FindCoordinatorResponse((single,))


def _encode_find_response(response: FindCoordinatorResponse, version: int) -> Parts:
    if version >= _MANY_KEYS:
        return _BATCH.encode(response, version)
    single = response.coordinators[0]._asdict()
    del single["key"]
    return mapping.encode_message(WireFindResponse, version, **single)


FIND_COORDINATOR = mapped(
    (0, 6),
    Message(WireFindRequest, FindCoordinatorRequest, _decode_find_request, _encode_find_request),
    _BATCH._replace(decode=_decode_find_response, encode=_encode_find_response),
)


# --- ListOffsets ------------------------------------------------------------------------------------------

_ASKED = record(ListOffsetsPartition, partition="partition_index")
_LISTED = record(ListedOffset, partition="partition_index")

LIST_OFFSETS = mapped(
    (1, 11),
    message(WireListRequest, record(ListOffsetsRequest, partitions=("topics", by_topic(_ASKED)))),
    message(WireListResponse, record(ListOffsetsResponse, partitions=("topics", by_topic(_LISTED)))),
)

# --- OffsetForLeaderEpoch ---------------------------------------------------------------------------------

_EPOCH = by_topic(record(EpochEndPartition), key="topic")
_END = by_topic(record(EpochEnd), key="topic")

OFFSET_FOR_LEADER_EPOCH = mapped(
    (2, 4),
    message(WireEpochRequest, record(OffsetForLeaderEpochRequest, partitions=("topics", _EPOCH))),
    message(WireEpochResponse, record(OffsetForLeaderEpochResponse, partitions=("topics", _END))),
)
