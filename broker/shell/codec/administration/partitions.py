"""Codec of CreatePartitions (37), versions 0 to 3, and of AlterPartitionReassignments (45) and
ListPartitionReassignments (46), version 0.

Version 1 of AlterPartitionReassignments may forbid a change of the replication factor; the core does not support
that, so the version is not offered.
"""

from __future__ import annotations

from kafka.protocol.admin import AlterPartitionReassignmentsRequest as WireAlterRequest
from kafka.protocol.admin import AlterPartitionReassignmentsResponse as WireAlterResponse
from kafka.protocol.admin import CreatePartitionsRequest as WireCreateRequest
from kafka.protocol.admin import CreatePartitionsResponse as WireCreateResponse
from kafka.protocol.admin import ListPartitionReassignmentsRequest as WireListRequest
from kafka.protocol.admin import ListPartitionReassignmentsResponse as WireListResponse

from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    NamedResult,
    NewPartitions,
    OngoingReassignment,
    Reassignment,
    ReassignmentResult,
)
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.grouping import by_topic
from broker.shell.codec.wire import Parts

# --- CreatePartitions -------------------------------------------------------------------------------------


def _decode_create_request(data: bytes, position: int, version: int) -> CreatePartitionsRequest:
    wire = schema.decode(WireCreateRequest, data, position, version)
    topics = tuple(
        NewPartitions(
            each.name,
            each.count,
            None
            if each.assignments is None
            else tuple(tuple(schema.elements(new.broker_ids)) for new in each.assignments),
        )
        for each in schema.elements(wire.topics)
    )
    return CreatePartitionsRequest(topics, wire.timeout_ms, wire.validate_only)


def _wire_new_partitions(wanted: NewPartitions, version: int) -> schema.WireMessage:
    topic_class = WireCreateRequest.CreatePartitionsTopic
    assignments = None
    if wanted.assignments is not None:
        assignments = [
            topic_class.CreatePartitionsAssignment(version=version, broker_ids=replicas)
            for replicas in wanted.assignments
        ]
    return topic_class(version=version, name=wanted.topic, count=wanted.total_count, assignments=assignments)


def _encode_create_request(request: CreatePartitionsRequest, version: int) -> Parts:
    return schema.encode(
        WireCreateRequest,
        version,
        topics=[_wire_new_partitions(wanted, version) for wanted in request.topics],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )


def _decode_create_response(data: bytes, position: int, version: int) -> CreatePartitionsResponse:
    wire = schema.decode(WireCreateResponse, data, position, version)
    return CreatePartitionsResponse(
        tuple(NamedResult(each.name, each.error_code, each.error_message) for each in schema.elements(wire.results))
    )


def _encode_create_response(response: CreatePartitionsResponse, version: int) -> Parts:
    result_class = WireCreateResponse.CreatePartitionsTopicResult
    results = [result_class(version=version, **each._asdict()) for each in response.results]
    return schema.encode(WireCreateResponse, version, results=results)


CREATE_PARTITIONS = Codec(
    api_key=37,
    name="CreatePartitions",
    versions=(0, 3),
    flexible_from=2,
    request_type=CreatePartitionsRequest,
    decode_request=_decode_create_request,
    encode_request=_encode_create_request,
    decode_response=_decode_create_response,
    encode_response=_encode_create_response,
)

# --- AlterPartitionReassignments --------------------------------------------------------------------------


def _decode_alter_request(data: bytes, position: int, version: int) -> AlterPartitionReassignmentsRequest:
    wire = schema.decode(WireAlterRequest, data, position, version)
    reassignments = tuple(
        Reassignment(topic.name, each.partition_index, None if each.replicas is None else tuple(each.replicas))
        for topic in schema.elements(wire.topics)
        for each in schema.elements(topic.partitions)
    )
    return AlterPartitionReassignmentsRequest(reassignments, wire.timeout_ms)


def _encode_alter_request(request: AlterPartitionReassignmentsRequest, version: int) -> Parts:
    topic_class = WireAlterRequest.ReassignableTopic
    topics = [
        topic_class(
            version=version,
            name=topic,
            partitions=[
                topic_class.ReassignablePartition(
                    version=version, partition_index=each.partition, replicas=each.replicas
                )
                for each in partitions
            ],
        )
        for topic, partitions in by_topic((each.topic, each) for each in request.reassignments)
    ]
    return schema.encode(WireAlterRequest, version, topics=topics, timeout_ms=request.timeout_ms)


def _decode_alter_response(data: bytes, position: int, version: int) -> AlterPartitionReassignmentsResponse:
    wire = schema.decode(WireAlterResponse, data, position, version)
    results = tuple(
        ReassignmentResult(topic.name, each.partition_index, each.error_code, each.error_message)
        for topic in schema.elements(wire.responses)
        for each in schema.elements(topic.partitions)
    )
    return AlterPartitionReassignmentsResponse(wire.error_code, results)


def _encode_alter_response(response: AlterPartitionReassignmentsResponse, version: int) -> Parts:
    topic_class = WireAlterResponse.ReassignableTopicResponse
    topics = [
        topic_class(
            version=version,
            name=topic,
            partitions=[
                topic_class.ReassignablePartitionResponse(
                    version=version,
                    partition_index=each.partition,
                    error_code=each.error_code,
                    error_message=each.error_message,
                )
                for each in partitions
            ],
        )
        for topic, partitions in by_topic((each.topic, each) for each in response.results)
    ]
    error_code = response.error_code
    return schema.encode(WireAlterResponse, version, error_code=error_code, error_message=None, responses=topics)


ALTER_PARTITION_REASSIGNMENTS = Codec(
    api_key=45,
    name="AlterPartitionReassignments",
    versions=(0, 0),
    flexible_from=0,
    request_type=AlterPartitionReassignmentsRequest,
    decode_request=_decode_alter_request,
    encode_request=_encode_alter_request,
    decode_response=_decode_alter_response,
    encode_response=_encode_alter_response,
)

# --- ListPartitionReassignments ---------------------------------------------------------------------------


def _decode_list_request(data: bytes, position: int, version: int) -> ListPartitionReassignmentsRequest:
    wire = schema.decode(WireListRequest, data, position, version)
    partitions = None
    if wire.topics is not None:
        partitions = tuple(
            (topic.name, partition) for topic in wire.topics for partition in schema.elements(topic.partition_indexes)
        )
    return ListPartitionReassignmentsRequest(partitions, wire.timeout_ms)


def _encode_list_request(request: ListPartitionReassignmentsRequest, version: int) -> Parts:
    topics = None
    if request.partitions is not None:
        topics = [
            WireListRequest.ListPartitionReassignmentsTopics(version=version, name=topic, partition_indexes=partitions)
            for topic, partitions in by_topic(request.partitions)
        ]
    return schema.encode(WireListRequest, version, topics=topics, timeout_ms=request.timeout_ms)


def _decode_list_response(data: bytes, position: int, version: int) -> ListPartitionReassignmentsResponse:
    wire = schema.decode(WireListResponse, data, position, version)
    ongoing = tuple(
        OngoingReassignment(
            topic.name,
            each.partition_index,
            tuple(each.replicas),
            tuple(each.adding_replicas),
            tuple(each.removing_replicas),
        )
        for topic in schema.elements(wire.topics)
        for each in schema.elements(topic.partitions)
    )
    return ListPartitionReassignmentsResponse(wire.error_code, ongoing)


def _encode_list_response(response: ListPartitionReassignmentsResponse, version: int) -> Parts:
    topic_class = WireListResponse.OngoingTopicReassignment
    topics = [
        topic_class(
            version=version,
            name=topic,
            partitions=[
                topic_class.OngoingPartitionReassignment(
                    version=version,
                    partition_index=each.partition,
                    replicas=each.replicas,
                    adding_replicas=each.adding,
                    removing_replicas=each.removing,
                )
                for each in partitions
            ],
        )
        for topic, partitions in by_topic((each.topic, each) for each in response.reassignments)
    ]
    error_code = response.error_code
    return schema.encode(WireListResponse, version, error_code=error_code, error_message=None, topics=topics)


LIST_PARTITION_REASSIGNMENTS = Codec(
    api_key=46,
    name="ListPartitionReassignments",
    versions=(0, 0),
    flexible_from=0,
    request_type=ListPartitionReassignmentsRequest,
    decode_request=_decode_list_request,
    encode_request=_encode_list_request,
    decode_response=_decode_list_response,
    encode_response=_encode_list_response,
)
