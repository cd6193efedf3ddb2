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
from broker.shell.codec.base import Codec
from broker.shell.codec.grouping import by_topic
from broker.shell.codec.schema import WireMessage
from broker.shell.codec.wire import Parts

# --- OffsetCommit -----------------------------------------------------------------------------------------


def _decode_commit_request(data: bytes, position: int, version: int) -> OffsetCommitRequest:
    wire = schema.decode(WireCommitRequest, data, position, version)
    partitions = tuple(
        OffsetCommitPartition(
            topic.name,
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.committed_metadata,
        )
        for topic in schema.elements(wire.topics)
        for each in schema.elements(topic.partitions)
    )
    return OffsetCommitRequest(
        wire.group_id, wire.generation_id_or_member_epoch, wire.member_id, partitions, wire.group_instance_id
    )


def _encode_commit_request(request: OffsetCommitRequest, version: int) -> Parts:
    topic_class = WireCommitRequest.OffsetCommitRequestTopic
    topics = [
        topic_class(
            version=version,
            name=name,
            partitions=[
                topic_class.OffsetCommitRequestPartition(
                    version=version,
                    partition_index=each.partition,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    committed_metadata=each.metadata,
                )
                for each in partitions
            ],
        )
        for name, partitions in by_topic((each.topic, each) for each in request.partitions)
    ]
    return schema.encode(
        WireCommitRequest,
        version,
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.instance_id,
        topics=topics,
    )


def _decode_commit_response(data: bytes, position: int, version: int) -> OffsetCommitResponse:
    wire = schema.decode(WireCommitResponse, data, position, version)
    return OffsetCommitResponse(
        tuple(
            CommittedPartition(topic.name, each.partition_index, each.error_code)
            for topic in schema.elements(wire.topics)
            for each in schema.elements(topic.partitions)
        )
    )


def _encode_commit_response(response: OffsetCommitResponse, version: int) -> Parts:
    topic_class = WireCommitResponse.OffsetCommitResponseTopic
    topics = [
        topic_class(
            version=version,
            name=name,
            partitions=[
                topic_class.OffsetCommitResponsePartition(
                    version=version, partition_index=each.partition, error_code=each.error_code
                )
                for each in partitions
            ],
        )
        for name, partitions in by_topic((each.topic, each) for each in response.partitions)
    ]
    return schema.encode(WireCommitResponse, version, topics=topics)


OFFSET_COMMIT = Codec(
    api_key=8,
    name="OffsetCommit",
    versions=(2, 9),
    flexible_from=8,
    request_type=OffsetCommitRequest,
    decode_request=_decode_commit_request,
    encode_request=_encode_commit_request,
    decode_response=_decode_commit_response,
    encode_response=_encode_commit_response,
)

# --- OffsetFetch ------------------------------------------------------------------------------------------

_BATCHED = 8
"""From this version on a request asks for several groups (KIP-709)."""


def _asked_partitions(topics: list[WireMessage] | None) -> tuple[tuple[str, int], ...] | None:
    if topics is None:
        return None
    return tuple((topic.name, index) for topic in topics for index in schema.elements(topic.partition_indexes))


def _decode_fetch_request(data: bytes, position: int, version: int) -> OffsetFetchRequest:
    wire = schema.decode(WireFetchRequest, data, position, version)
    if version < _BATCHED:
        groups: tuple[OffsetFetchGroup, ...] = (OffsetFetchGroup(wire.group_id, _asked_partitions(wire.topics)),)
    else:
        groups = tuple(
            OffsetFetchGroup(group.group_id, _asked_partitions(group.topics)) for group in schema.elements(wire.groups)
        )
    return OffsetFetchRequest(groups, bool(wire.require_stable))


def _wire_asked(
    topic_class: WireMessage, version: int, partitions: tuple[tuple[str, int], ...] | None
) -> list[WireMessage] | None:
    if partitions is None:
        return None
    return [
        topic_class(version=version, name=name, partition_indexes=indexes) for name, indexes in by_topic(partitions)
    ]


def _encode_fetch_request(request: OffsetFetchRequest, version: int) -> Parts:
    if version < _BATCHED:
        single = request.groups[0] if request.groups else OffsetFetchGroup("", ())
        topics = _wire_asked(WireFetchRequest.OffsetFetchRequestTopic, version, single.partitions)
        return schema.encode(
            WireFetchRequest,
            version,
            group_id=single.group_id,
            topics=topics,
            require_stable=request.require_stable,
        )
    group_class = WireFetchRequest.OffsetFetchRequestGroup
    groups = [
        group_class(
            version=version,
            group_id=group.group_id,
            topics=_wire_asked(group_class.OffsetFetchRequestTopics, version, group.partitions),
        )
        for group in request.groups
    ]
    return schema.encode(WireFetchRequest, version, groups=groups, require_stable=request.require_stable)


def _fetched_group(group_id: str, wire: WireMessage) -> FetchedGroup:
    partitions = tuple(
        FetchedOffset(
            topic.name,
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for topic in schema.elements(wire.topics)
        for each in schema.elements(topic.partitions)
    )
    return FetchedGroup(group_id, wire.error_code, partitions)


def _decode_fetch_response(data: bytes, position: int, version: int) -> OffsetFetchResponse:
    wire = schema.decode(WireFetchResponse, data, position, version)
    if version < _BATCHED:
        return OffsetFetchResponse((_fetched_group("", wire),))
    return OffsetFetchResponse(tuple(_fetched_group(group.group_id, group) for group in schema.elements(wire.groups)))


def _wire_fetched(
    topic_class: WireMessage, partition_class: WireMessage, version: int, group: FetchedGroup
) -> list[WireMessage]:
    return [
        topic_class(
            version=version,
            name=name,
            partitions=[
                partition_class(
                    version=version,
                    partition_index=each.partition,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in partitions
            ],
        )
        for name, partitions in by_topic((each.topic, each) for each in group.partitions)
    ]


def _encode_fetch_response(response: OffsetFetchResponse, version: int) -> Parts:
    if version < _BATCHED:
        single = response.groups[0] if response.groups else FetchedGroup("", 0)
        topic_class = WireFetchResponse.OffsetFetchResponseTopic
        topics = _wire_fetched(topic_class, topic_class.OffsetFetchResponsePartition, version, single)
        return schema.encode(WireFetchResponse, version, topics=topics, error_code=single.error_code)
    group_class = WireFetchResponse.OffsetFetchResponseGroup
    topic_class = group_class.OffsetFetchResponseTopics
    groups = [
        group_class(
            version=version,
            group_id=group.group_id,
            topics=_wire_fetched(topic_class, topic_class.OffsetFetchResponsePartitions, version, group),
            error_code=group.error_code,
        )
        for group in response.groups
    ]
    return schema.encode(WireFetchResponse, version, groups=groups)


OFFSET_FETCH = Codec(
    api_key=9,
    name="OffsetFetch",
    versions=(2, 9),
    flexible_from=6,
    request_type=OffsetFetchRequest,
    decode_request=_decode_fetch_request,
    encode_request=_encode_fetch_request,
    decode_response=_decode_fetch_response,
    encode_response=_encode_fetch_response,
)

# --- OffsetDelete -----------------------------------------------------------------------------------------


def _decode_delete_request(data: bytes, position: int, version: int) -> OffsetDeleteRequest:
    wire = schema.decode(WireDeleteRequest, data, position, version)
    return OffsetDeleteRequest(
        wire.group_id,
        tuple(
            (topic.name, each.partition_index)
            for topic in schema.elements(wire.topics)
            for each in schema.elements(topic.partitions)
        ),
    )


def _encode_delete_request(request: OffsetDeleteRequest, version: int) -> Parts:
    topic_class = WireDeleteRequest.OffsetDeleteRequestTopic
    partition_class = topic_class.OffsetDeleteRequestPartition
    topics = [
        topic_class(
            version=version,
            name=name,
            partitions=[partition_class(version=version, partition_index=index) for index in indexes],
        )
        for name, indexes in by_topic(request.partitions)
    ]
    return schema.encode(WireDeleteRequest, version, group_id=request.group_id, topics=topics)


def _decode_delete_response(data: bytes, position: int, version: int) -> OffsetDeleteResponse:
    wire = schema.decode(WireDeleteResponse, data, position, version)
    return OffsetDeleteResponse(
        wire.error_code,
        tuple(
            DeletedOffset(topic.name, each.partition_index, each.error_code)
            for topic in schema.elements(wire.topics)
            for each in schema.elements(topic.partitions)
        ),
    )


def _encode_delete_response(response: OffsetDeleteResponse, version: int) -> Parts:
    topic_class = WireDeleteResponse.OffsetDeleteResponseTopic
    partition_class = topic_class.OffsetDeleteResponsePartition
    topics = [
        topic_class(
            version=version,
            name=name,
            partitions=[
                partition_class(version=version, partition_index=each.partition, error_code=each.error_code)
                for each in partitions
            ],
        )
        for name, partitions in by_topic((each.topic, each) for each in response.partitions)
    ]
    return schema.encode(WireDeleteResponse, version, error_code=response.error_code, topics=topics)


OFFSET_DELETE = Codec(
    api_key=47,
    name="OffsetDelete",
    versions=(0, 0),
    flexible_from=1,
    request_type=OffsetDeleteRequest,
    decode_request=_decode_delete_request,
    encode_request=_encode_delete_request,
    decode_response=_decode_delete_response,
    encode_response=_encode_delete_response,
)
