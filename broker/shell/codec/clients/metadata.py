"""Codec of Metadata (3), versions 0 to 13."""

from __future__ import annotations

from kafka.protocol.metadata import MetadataRequest as WireRequest
from kafka.protocol.metadata import MetadataResponse as WireResponse

from broker.core.messages import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from broker.shell.codec import schema
from broker.shell.codec.mapping import ARRAY, BOOL, TEXT, UUID, Message, many, mapped, message, record, text_before
from broker.shell.codec.wire import Parts

_NAME_MAY_BE_NULL = 12
"""From this version on, the first that allows requests by id."""


def _decode_request(data: bytes, position: int, version: int) -> MetadataRequest:
    wire = schema.decode(WireRequest, data, position, version)
    # Version 0 has no null: its empty array asks for all topics, in later versions for none.
    if wire.topics is None or (version == 0 and not wire.topics):
        topics = None
    else:
        topics = tuple((each.name, schema.uuid_text(each.topic_id)) for each in wire.topics)
    return MetadataRequest(topics, version < 4 or wire.allow_auto_topic_creation)


def _encode_request(request: MetadataRequest, version: int) -> Parts:
    topics = None
    if request.topics is not None:
        topics = [
            WireRequest.MetadataRequestTopic(version=version, name=name, topic_id=schema.uuid_or_zero(topic_id))
            for name, topic_id in request.topics
        ]
    elif version == 0:
        topics = []
    allow = request.allow_auto_topic_creation
    return schema.encode(WireRequest, version, topics=topics, allow_auto_topic_creation=allow)


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
)
_RESPONSE = record(MetadataResponse, brokers=many(record(MetadataBroker)), cluster_id=TEXT, topics=many(_TOPIC))

METADATA = mapped(
    (0, 13),
    Message(WireRequest, MetadataRequest, _decode_request, _encode_request),
    message(WireResponse, _RESPONSE),
)
