"""Codec of DeleteRecords (21), versions 0 to 2."""

from __future__ import annotations

from kafka.protocol.admin import DeleteRecordsRequest as WireRequest
from kafka.protocol.admin import DeleteRecordsResponse as WireResponse

from broker.core.messages import (
    DeletedRecords,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.grouping import by_topic
from broker.shell.codec.wire import Parts


def _decode_request(data: bytes, position: int, version: int) -> DeleteRecordsRequest:
    wire = schema.decode(WireRequest, data, position, version)
    partitions = tuple(
        DeleteRecordsPartition(topic.name, each.partition_index, each.offset)
        for topic in schema.elements(wire.topics)
        for each in schema.elements(topic.partitions)
    )
    return DeleteRecordsRequest(partitions, wire.timeout_ms)


def _encode_request(request: DeleteRecordsRequest, version: int) -> Parts:
    topic_class = WireRequest.DeleteRecordsTopic
    topics = [
        topic_class(
            version=version,
            name=topic,
            partitions=[
                topic_class.DeleteRecordsPartition(version=version, partition_index=each.partition, offset=each.offset)
                for each in partitions
            ],
        )
        for topic, partitions in by_topic((each.topic, each) for each in request.partitions)
    ]
    return schema.encode(WireRequest, version, topics=topics, timeout_ms=request.timeout_ms)


def _decode_response(data: bytes, position: int, version: int) -> DeleteRecordsResponse:
    wire = schema.decode(WireResponse, data, position, version)
    return DeleteRecordsResponse(
        tuple(
            DeletedRecords(topic.name, each.partition_index, each.error_code, each.low_watermark)
            for topic in schema.elements(wire.topics)
            for each in schema.elements(topic.partitions)
        )
    )


def _encode_response(response: DeleteRecordsResponse, version: int) -> Parts:
    topic_class = WireResponse.DeleteRecordsTopicResult
    topics = [
        topic_class(
            version=version,
            name=topic,
            partitions=[
                topic_class.DeleteRecordsPartitionResult(
                    version=version,
                    partition_index=each.partition,
                    low_watermark=each.low_watermark,
                    error_code=each.error_code,
                )
                for each in partitions
            ],
        )
        for topic, partitions in by_topic((each.topic, each) for each in response.partitions)
    ]
    return schema.encode(WireResponse, version, topics=topics)


DELETE_RECORDS = Codec(
    api_key=21,
    name="DeleteRecords",
    versions=(0, 2),
    flexible_from=2,
    request_type=DeleteRecordsRequest,
    decode_request=_decode_request,
    encode_request=_encode_request,
    decode_response=_decode_response,
    encode_response=_encode_response,
)
