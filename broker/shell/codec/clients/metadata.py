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
from broker.shell.codec.base import Codec
from broker.shell.codec.wire import Parts


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


def _wire_partition(partition: MetadataPartition, version: int) -> schema.WireMessage:
    return WireResponse.MetadataResponseTopic.MetadataResponsePartition(
        version=version,
        error_code=partition.error_code,
        partition_index=partition.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=partition.offline_replicas,
    )


def _wire_topic(topic: MetadataTopic, version: int) -> schema.WireMessage:
    return WireResponse.MetadataResponseTopic(
        version=version,
        error_code=topic.error_code,
        # The name may be null only from version 12 on, the first that allows requests by id.
        name=topic.name if version >= 12 else topic.name or "",
        topic_id=schema.uuid_or_zero(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=[_wire_partition(partition, version) for partition in topic.partitions],
    )


def _encode_response(response: MetadataResponse, version: int) -> Parts:
    return schema.encode(
        WireResponse,
        version,
        brokers=[
            WireResponse.MetadataResponseBroker(
                version=version, node_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in response.brokers
        ],
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        topics=[_wire_topic(topic, version) for topic in response.topics],
    )


def _topic(wire: schema.WireMessage) -> MetadataTopic:
    return MetadataTopic(
        wire.error_code,
        wire.name,
        schema.uuid_text(wire.topic_id),
        bool(wire.is_internal),
        tuple(
            MetadataPartition(
                each.error_code,
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
                tuple(each.offline_replicas or ()),
            )
            for each in schema.elements(wire.partitions)
        ),
    )


def _decode_response(data: bytes, position: int, version: int) -> MetadataResponse:
    wire = schema.decode(WireResponse, data, position, version)
    return MetadataResponse(
        tuple(MetadataBroker(each.node_id, each.host, each.port, each.rack) for each in schema.elements(wire.brokers)),
        wire.cluster_id or "",
        wire.controller_id,
        tuple(_topic(topic) for topic in schema.elements(wire.topics)),
    )


METADATA = Codec(
    api_key=3,
    name="Metadata",
    versions=(0, 13),
    flexible_from=9,
    request_type=MetadataRequest,
    decode_request=_decode_request,
    encode_request=_encode_request,
    decode_response=_decode_response,
    encode_response=_encode_response,
)
