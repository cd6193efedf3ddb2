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
from broker.shell.codec import mapping
from broker.shell.codec.mapping import (
    ARRAY,
    UUID,
    Message,
    by_topic,
    many,
    many_from,
    mapped,
    message,
    nullable,
    record,
    row,
    text_before,
)
from broker.shell.codec.wire import Parts

# --- CreateTopics -----------------------------------------------------------------------------------------

_NEW_TOPIC = record(
    NewTopic, assignments=many(row("partition_index", ("broker_ids", ARRAY))), configs=many(row("name", "value"))
)
_CREATED = record(CreatedTopic, topic_id=UUID, configs=many_from(5, row("name", "value", "read_only", "config_source")))

CREATE_TOPICS = mapped(
    (2, 7),
    message(WireCreateRequest, record(CreateTopicsRequest, topics=many(_NEW_TOPIC))),
    message(WireCreateResponse, record(CreateTopicsResponse, topics=many(_CREATED))),
)

# --- DeleteTopics -----------------------------------------------------------------------------------------

_BY_ID = 6
"""From this version on a topic may be named by its id."""


def _decode_delete_request(data: bytes, position: int, version: int) -> DeleteTopicsRequest:
    wire = mapping.decode_message(WireDeleteRequest, data, position, version)
    topics: tuple[tuple[str | None, str], ...]
    if version >= _BY_ID:
        topics = tuple((each.name, mapping.uuid_text(each.topic_id)) for each in mapping.elements(wire.topics))
    else:
        topics = tuple((name, "") for name in mapping.elements(wire.topic_names))
    return DeleteTopicsRequest(topics, wire.timeout_ms)


def _encode_delete_request(request: DeleteTopicsRequest, version: int) -> Parts:
    timeout_ms = request.timeout_ms
    if version < _BY_ID:
        names = [name for name, _ in request.topics]
        return mapping.encode_message(WireDeleteRequest, version, topic_names=names, timeout_ms=timeout_ms)
    topics = [
        WireDeleteRequest.DeleteTopicState(version=version, name=name, topic_id=mapping.uuid_or_zero(topic_id))
        for name, topic_id in request.topics
    ]
    return mapping.encode_message(WireDeleteRequest, version, topics=topics, timeout_ms=timeout_ms)


_DELETED = record(DeletedTopic, name=text_before(_BY_ID), topic_id=UUID)

DELETE_TOPICS = mapped(
    (1, 6),
    Message(WireDeleteRequest, DeleteTopicsRequest, _decode_delete_request, _encode_delete_request),
    message(WireDeleteResponse, record(DeleteTopicsResponse, topics=("responses", many(_DELETED)))),
)

# --- ElectLeaders -----------------------------------------------------------------------------------------

_ASKED = nullable(by_topic(row("topic", "partition"), key="topic"))
_ELECTED = by_topic(record(ElectedPartition, partition="partition_id"), "partition_result", key="topic")

ELECT_LEADERS = mapped(
    (0, 2),
    message(WireElectRequest, record(ElectLeadersRequest, partitions=("topic_partitions", _ASKED))),
    message(WireElectResponse, record(ElectLeadersResponse, partitions=("replica_election_results", _ELECTED))),
)
