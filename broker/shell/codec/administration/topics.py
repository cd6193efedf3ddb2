"""Codec of CreateTopics (19), versions 2 to 7, DeleteTopics (20), 1 to 6, and ElectLeaders (43), 0 to 2."""

from __future__ import annotations

from kafka.protocol.admin import CreateTopicsRequest as WireCreateRequest
from kafka.protocol.admin import CreateTopicsResponse as WireCreateResponse
from kafka.protocol.admin import DeleteTopicsRequest as WireDeleteRequest
from kafka.protocol.admin import DeleteTopicsResponse as WireDeleteResponse
from kafka.protocol.admin import ElectLeadersRequest as WireElectRequest
from kafka.protocol.admin import ElectLeadersResponse as WireElectResponse

from broker.core.messages import (
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectedPartition,
    ElectLeadersRequest,
    ElectLeadersResponse,
    NewTopic,
)
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.grouping import by_topic
from broker.shell.codec.wire import Parts

# --- CreateTopics -----------------------------------------------------------------------------------------


def _new_topic(wire: schema.WireMessage) -> NewTopic:
    return NewTopic(
        wire.name,
        wire.num_partitions,
        wire.replication_factor,
        tuple(
            (each.partition_index, tuple(schema.elements(each.broker_ids)))
            for each in schema.elements(wire.assignments)
        ),
        tuple((each.name, each.value) for each in schema.elements(wire.configs)),
    )


def _decode_create_request(data: bytes, position: int, version: int) -> CreateTopicsRequest:
    wire = schema.decode(WireCreateRequest, data, position, version)
    topics = tuple(_new_topic(topic) for topic in schema.elements(wire.topics))
    return CreateTopicsRequest(topics, wire.timeout_ms, wire.validate_only)


def _wire_new_topic(topic: NewTopic, version: int) -> schema.WireMessage:
    topic_class = WireCreateRequest.CreatableTopic
    return topic_class(
        version=version,
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            topic_class.CreatableReplicaAssignment(version=version, partition_index=index, broker_ids=replicas)
            for index, replicas in topic.assignments
        ],
        configs=[
            topic_class.CreatableTopicConfig(version=version, name=name, value=value) for name, value in topic.configs
        ],
    )


def _encode_create_request(request: CreateTopicsRequest, version: int) -> Parts:
    return schema.encode(
        WireCreateRequest,
        version,
        topics=[_wire_new_topic(topic, version) for topic in request.topics],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )


def _decode_create_response(data: bytes, position: int, version: int) -> CreateTopicsResponse:
    wire = schema.decode(WireCreateResponse, data, position, version)
    return CreateTopicsResponse(
        tuple(
            CreatedTopic(
                each.name,
                each.error_code,
                each.error_message,
                schema.uuid_text(each.topic_id),
                each.num_partitions,
                each.replication_factor,
            )
            for each in schema.elements(wire.topics)
        )
    )


def _encode_create_response(response: CreateTopicsResponse, version: int) -> Parts:
    topics = [
        WireCreateResponse.CreatableTopicResult(
            version=version,
            name=each.name,
            topic_id=schema.uuid_or_zero(each.topic_id),
            error_code=each.error_code,
            error_message=each.error_message,
            num_partitions=each.num_partitions,
            replication_factor=each.replication_factor,
        )
        for each in response.topics
    ]
    return schema.encode(WireCreateResponse, version, topics=topics)


CREATE_TOPICS = Codec(
    api_key=19,
    name="CreateTopics",
    versions=(2, 7),
    flexible_from=5,
    request_type=CreateTopicsRequest,
    decode_request=_decode_create_request,
    encode_request=_encode_create_request,
    decode_response=_decode_create_response,
    encode_response=_encode_create_response,
)

# --- DeleteTopics -----------------------------------------------------------------------------------------

_BY_ID = 6
"""From this version on a topic may be named by its id."""


def _decode_delete_request(data: bytes, position: int, version: int) -> DeleteTopicsRequest:
    wire = schema.decode(WireDeleteRequest, data, position, version)
    topics: tuple[tuple[str | None, str], ...]
    if version >= _BY_ID:
        topics = tuple((each.name, schema.uuid_text(each.topic_id)) for each in schema.elements(wire.topics))
    else:
        topics = tuple((name, "") for name in schema.elements(wire.topic_names))
    return DeleteTopicsRequest(topics, wire.timeout_ms)


def _encode_delete_request(request: DeleteTopicsRequest, version: int) -> Parts:
    timeout_ms = request.timeout_ms
    if version < _BY_ID:
        names = [name for name, _ in request.topics]
        return schema.encode(WireDeleteRequest, version, topic_names=names, timeout_ms=timeout_ms)
    topics = [
        WireDeleteRequest.DeleteTopicState(version=version, name=name, topic_id=schema.uuid_or_zero(topic_id))
        for name, topic_id in request.topics
    ]
    return schema.encode(WireDeleteRequest, version, topics=topics, timeout_ms=timeout_ms)


def _decode_delete_response(data: bytes, position: int, version: int) -> DeleteTopicsResponse:
    wire = schema.decode(WireDeleteResponse, data, position, version)
    return DeleteTopicsResponse(
        tuple(
            DeletedTopic(each.name, schema.uuid_text(each.topic_id), each.error_code, each.error_message)
            for each in schema.elements(wire.responses)
        )
    )


def _encode_delete_response(response: DeleteTopicsResponse, version: int) -> Parts:
    results = [
        WireDeleteResponse.DeletableTopicResult(
            version=version,
            name=each.name if version >= _BY_ID else each.name or "",
            topic_id=schema.uuid_or_zero(each.topic_id),
            error_code=each.error_code,
            error_message=each.error_message,
        )
        for each in response.topics
    ]
    return schema.encode(WireDeleteResponse, version, responses=results)


DELETE_TOPICS = Codec(
    api_key=20,
    name="DeleteTopics",
    versions=(1, 6),
    flexible_from=4,
    request_type=DeleteTopicsRequest,
    decode_request=_decode_delete_request,
    encode_request=_encode_delete_request,
    decode_response=_decode_delete_response,
    encode_response=_encode_delete_response,
)

# --- ElectLeaders -----------------------------------------------------------------------------------------


def _decode_elect_request(data: bytes, position: int, version: int) -> ElectLeadersRequest:
    wire = schema.decode(WireElectRequest, data, position, version)
    partitions = None
    if wire.topic_partitions is not None:
        partitions = tuple(
            (topic.topic, partition)
            for topic in wire.topic_partitions
            for partition in schema.elements(topic.partitions)
        )
    return ElectLeadersRequest(wire.election_type or 0, partitions, wire.timeout_ms)


def _encode_elect_request(request: ElectLeadersRequest, version: int) -> Parts:
    topics = None
    if request.partitions is not None:
        topics = [
            WireElectRequest.TopicPartitions(version=version, topic=topic, partitions=partitions)
            for topic, partitions in by_topic(request.partitions)
        ]
    return schema.encode(
        WireElectRequest,
        version,
        election_type=request.election_type,
        topic_partitions=topics,
        timeout_ms=request.timeout_ms,
    )


def _decode_elect_response(data: bytes, position: int, version: int) -> ElectLeadersResponse:
    wire = schema.decode(WireElectResponse, data, position, version)
    return ElectLeadersResponse(
        wire.error_code or 0,
        tuple(
            ElectedPartition(topic.topic, each.partition_id, each.error_code, each.error_message)
            for topic in schema.elements(wire.replica_election_results)
            for each in schema.elements(topic.partition_result)
        ),
    )


def _encode_elect_response(response: ElectLeadersResponse, version: int) -> Parts:
    topic_class = WireElectResponse.ReplicaElectionResult
    results = [
        topic_class(
            version=version,
            topic=topic,
            partition_result=[
                topic_class.PartitionResult(
                    version=version,
                    partition_id=each.partition,
                    error_code=each.error_code,
                    error_message=each.error_message,
                )
                for each in partitions
            ],
        )
        for topic, partitions in by_topic((each.topic, each) for each in response.partitions)
    ]
    return schema.encode(WireElectResponse, version, error_code=response.error_code, replica_election_results=results)


ELECT_LEADERS = Codec(
    api_key=43,
    name="ElectLeaders",
    versions=(0, 2),
    flexible_from=2,
    request_type=ElectLeadersRequest,
    decode_request=_decode_elect_request,
    encode_request=_encode_elect_request,
    decode_response=_decode_elect_response,
    encode_response=_encode_elect_response,
)
