"""Codec of DescribeTopicPartitions (75), version 0, and DescribeCluster (60), versions 0 and 1.

Version 2 of DescribeCluster asks for fenced brokers too, which the core does not report.
"""

from __future__ import annotations

from kafka.protocol.admin import DescribeClusterRequest as WireClusterRequest
from kafka.protocol.admin import DescribeClusterResponse as WireClusterResponse
from kafka.protocol.admin import DescribeTopicPartitionsRequest as WirePartitionsRequest
from kafka.protocol.admin import DescribeTopicPartitionsResponse as WirePartitionsResponse

from broker.core.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedPartition,
    DescribedTopic,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataBroker,
)
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.wire import Parts

# --- DescribeTopicPartitions ------------------------------------------------------------------------------

Cursor = tuple[str, int]
"""The topic and the partition with which the next page begins."""


def _cursor(wire: schema.WireMessage | None) -> Cursor | None:
    return None if wire is None else (wire.topic_name, wire.partition_index)


def _wire_cursor(kind: schema.WireMessage, cursor: Cursor | None, version: int) -> schema.WireMessage | None:
    if cursor is None:
        return None
    topic, partition = cursor
    return kind(version=version, topic_name=topic, partition_index=partition)


def _decode_partitions_request(data: bytes, position: int, version: int) -> DescribeTopicPartitionsRequest:
    wire = schema.decode(WirePartitionsRequest, data, position, version)
    names = tuple(each.name for each in schema.elements(wire.topics))
    return DescribeTopicPartitionsRequest(names, wire.response_partition_limit, _cursor(wire.cursor))


def _encode_partitions_request(request: DescribeTopicPartitionsRequest, version: int) -> Parts:
    return schema.encode(
        WirePartitionsRequest,
        version,
        topics=[WirePartitionsRequest.TopicRequest(version=version, name=name) for name in request.topics],
        response_partition_limit=request.partition_limit,
        cursor=_wire_cursor(WirePartitionsRequest.Cursor, request.cursor, version),
    )


def _partition(wire: schema.WireMessage) -> DescribedPartition:
    return DescribedPartition(
        wire.error_code,
        wire.partition_index,
        wire.leader_id,
        wire.leader_epoch,
        tuple(wire.replica_nodes),
        tuple(wire.isr_nodes),
        tuple(schema.elements(wire.eligible_leader_replicas)),
        tuple(schema.elements(wire.last_known_elr)),
        tuple(wire.offline_replicas),
    )


def _decode_partitions_response(data: bytes, position: int, version: int) -> DescribeTopicPartitionsResponse:
    wire = schema.decode(WirePartitionsResponse, data, position, version)
    topics = tuple(
        DescribedTopic(
            each.error_code,
            each.name or "",
            schema.uuid_text(each.topic_id),
            each.is_internal,
            tuple(_partition(partition) for partition in schema.elements(each.partitions)),
        )
        for each in schema.elements(wire.topics)
    )
    return DescribeTopicPartitionsResponse(topics, _cursor(wire.next_cursor))


def _wire_partition(partition: DescribedPartition, version: int) -> schema.WireMessage:
    topic_class = WirePartitionsResponse.DescribeTopicPartitionsResponseTopic
    return topic_class.DescribeTopicPartitionsResponsePartition(
        version=version,
        error_code=partition.error_code,
        partition_index=partition.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=partition.offline_replicas,
    )


def _encode_partitions_response(response: DescribeTopicPartitionsResponse, version: int) -> Parts:
    topics = [
        WirePartitionsResponse.DescribeTopicPartitionsResponseTopic(
            version=version,
            error_code=each.error_code,
            name=each.name,
            topic_id=schema.uuid_or_zero(each.topic_id),
            is_internal=each.is_internal,
            partitions=[_wire_partition(partition, version) for partition in each.partitions],
        )
        for each in response.topics
    ]
    next_cursor = _wire_cursor(WirePartitionsResponse.Cursor, response.next_cursor, version)
    return schema.encode(WirePartitionsResponse, version, topics=topics, next_cursor=next_cursor)


DESCRIBE_TOPIC_PARTITIONS = Codec(
    api_key=75,
    name="DescribeTopicPartitions",
    versions=(0, 0),
    flexible_from=0,
    request_type=DescribeTopicPartitionsRequest,
    decode_request=_decode_partitions_request,
    encode_request=_encode_partitions_request,
    decode_response=_decode_partitions_response,
    encode_response=_encode_partitions_response,
)

# --- DescribeCluster --------------------------------------------------------------------------------------


_ENDPOINT_TYPE = 1
"""From this version on one may ask for controllers instead (KIP-919)."""

_BROKERS = 1


def _decode_cluster_request(data: bytes, position: int, version: int) -> DescribeClusterRequest:
    wire = schema.decode(WireClusterRequest, data, position, version)
    return DescribeClusterRequest(wire.endpoint_type if version >= _ENDPOINT_TYPE else _BROKERS)


def _encode_cluster_request(request: DescribeClusterRequest, version: int) -> Parts:
    return schema.encode(
        WireClusterRequest,
        version,
        include_cluster_authorized_operations=False,
        endpoint_type=request.endpoint_type,
    )


def _decode_cluster_response(data: bytes, position: int, version: int) -> DescribeClusterResponse:
    wire = schema.decode(WireClusterResponse, data, position, version)
    brokers = tuple(
        MetadataBroker(each.broker_id, each.host, each.port, each.rack) for each in schema.elements(wire.brokers)
    )
    return DescribeClusterResponse(wire.error_code, wire.cluster_id, wire.controller_id, brokers)


def _encode_cluster_response(response: DescribeClusterResponse, version: int) -> Parts:
    brokers = [
        WireClusterResponse.DescribeClusterBroker(
            version=version, broker_id=each.node_id, host=each.host, port=each.port, rack=each.rack
        )
        for each in response.brokers
    ]
    return schema.encode(
        WireClusterResponse,
        version,
        error_code=response.error_code,
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers=brokers,
    )


DESCRIBE_CLUSTER = Codec(
    api_key=60,
    name="DescribeCluster",
    versions=(0, 1),
    flexible_from=0,
    request_type=DescribeClusterRequest,
    decode_request=_decode_cluster_request,
    encode_request=_encode_cluster_request,
    decode_response=_decode_cluster_response,
    encode_response=_encode_cluster_response,
)
