"""Codec of ListOffsets (2), versions 1 to 11, and OffsetForLeaderEpoch (23), versions 2 to 4."""

from __future__ import annotations

from kafka.protocol.consumer import ListOffsetsRequest as WireListRequest
from kafka.protocol.consumer import ListOffsetsResponse as WireListResponse
from kafka.protocol.consumer import OffsetForLeaderEpochRequest as WireEpochRequest
from kafka.protocol.consumer import OffsetForLeaderEpochResponse as WireEpochResponse

from broker.core.messages import (
    EpochEnd,
    EpochEndPartition,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.grouping import by_topic
from broker.shell.codec.wire import Parts

# --- ListOffsets ------------------------------------------------------------------------------------------


def _decode_list_request(data: bytes, position: int, version: int) -> ListOffsetsRequest:
    wire = schema.decode(WireListRequest, data, position, version)
    partitions = tuple(
        ListOffsetsPartition(topic.name, each.partition_index, each.timestamp, each.current_leader_epoch)
        for topic in schema.elements(wire.topics)
        for each in schema.elements(topic.partitions)
    )
    return ListOffsetsRequest(partitions, wire.replica_id, wire.isolation_level or 0)


def _encode_list_request(request: ListOffsetsRequest, version: int) -> Parts:
    topic_class = WireListRequest.ListOffsetsTopic
    topics = [
        topic_class(
            version=version,
            name=name,
            partitions=[
                topic_class.ListOffsetsPartition(
                    version=version,
                    partition_index=each.partition,
                    current_leader_epoch=each.current_leader_epoch,
                    timestamp=each.timestamp,
                )
                for each in partitions
            ],
        )
        for name, partitions in by_topic((each.topic, each) for each in request.partitions)
    ]
    return schema.encode(
        WireListRequest,
        version,
        replica_id=request.replica_id,
        isolation_level=request.isolation_level,
        topics=topics,
    )


def _decode_list_response(data: bytes, position: int, version: int) -> ListOffsetsResponse:
    wire = schema.decode(WireListResponse, data, position, version)
    return ListOffsetsResponse(
        tuple(
            ListedOffset(
                topic.name,
                each.partition_index,
                each.error_code,
                each.timestamp,
                each.offset,
                each.leader_epoch,
            )
            for topic in schema.elements(wire.topics)
            for each in schema.elements(topic.partitions)
        )
    )


def _encode_list_response(response: ListOffsetsResponse, version: int) -> Parts:
    topic_class = WireListResponse.ListOffsetsTopicResponse
    topics = [
        topic_class(
            version=version,
            name=name,
            partitions=[
                topic_class.ListOffsetsPartitionResponse(
                    version=version,
                    partition_index=each.partition,
                    error_code=each.error_code,
                    timestamp=each.timestamp,
                    offset=each.offset,
                    leader_epoch=each.leader_epoch,
                )
                for each in partitions
            ],
        )
        for name, partitions in by_topic((each.topic, each) for each in response.partitions)
    ]
    return schema.encode(WireListResponse, version, topics=topics)


LIST_OFFSETS = Codec(
    api_key=2,
    name="ListOffsets",
    versions=(1, 11),
    flexible_from=6,
    request_type=ListOffsetsRequest,
    decode_request=_decode_list_request,
    encode_request=_encode_list_request,
    decode_response=_decode_list_response,
    encode_response=_encode_list_response,
)

# --- OffsetForLeaderEpoch ---------------------------------------------------------------------------------


def _decode_epoch_request(data: bytes, position: int, version: int) -> OffsetForLeaderEpochRequest:
    wire = schema.decode(WireEpochRequest, data, position, version)
    partitions = tuple(
        EpochEndPartition(topic.topic, each.partition, each.current_leader_epoch, each.leader_epoch)
        for topic in schema.elements(wire.topics)
        for each in schema.elements(topic.partitions)
    )
    return OffsetForLeaderEpochRequest(partitions, wire.replica_id)


def _encode_epoch_request(request: OffsetForLeaderEpochRequest, version: int) -> Parts:
    topic_class = WireEpochRequest.OffsetForLeaderTopic
    topics = [
        topic_class(
            version=version,
            topic=name,
            partitions=[
                topic_class.OffsetForLeaderPartition(
                    version=version,
                    partition=each.partition,
                    current_leader_epoch=each.current_leader_epoch,
                    leader_epoch=each.leader_epoch,
                )
                for each in partitions
            ],
        )
        for name, partitions in by_topic((each.topic, each) for each in request.partitions)
    ]
    return schema.encode(WireEpochRequest, version, replica_id=request.replica_id, topics=topics)


def _decode_epoch_response(data: bytes, position: int, version: int) -> OffsetForLeaderEpochResponse:
    wire = schema.decode(WireEpochResponse, data, position, version)
    return OffsetForLeaderEpochResponse(
        tuple(
            EpochEnd(topic.topic, each.partition, each.error_code, each.leader_epoch, each.end_offset)
            for topic in schema.elements(wire.topics)
            for each in schema.elements(topic.partitions)
        )
    )


def _encode_epoch_response(response: OffsetForLeaderEpochResponse, version: int) -> Parts:
    topic_class = WireEpochResponse.OffsetForLeaderTopicResult
    topics = [
        topic_class(
            version=version,
            topic=name,
            partitions=[
                topic_class.EpochEndOffset(
                    version=version,
                    error_code=each.error_code,
                    partition=each.partition,
                    leader_epoch=each.leader_epoch,
                    end_offset=each.end_offset,
                )
                for each in partitions
            ],
        )
        for name, partitions in by_topic((each.topic, each) for each in response.partitions)
    ]
    return schema.encode(WireEpochResponse, version, topics=topics)


OFFSET_FOR_LEADER_EPOCH = Codec(
    api_key=23,
    name="OffsetForLeaderEpoch",
    versions=(2, 4),
    flexible_from=4,
    request_type=OffsetForLeaderEpochRequest,
    decode_request=_decode_epoch_request,
    encode_request=_encode_epoch_request,
    decode_response=_decode_epoch_response,
    encode_response=_encode_epoch_response,
)
