"""Codec of AssignReplicasToDirs (73), version 0 (KIP-858)."""

from __future__ import annotations

from broker.core.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.grouping import by_topic
from broker.shell.codec.wire import Parts

_Request = schema.define("AssignReplicasToDirsRequest")
_Response = schema.define("AssignReplicasToDirsResponse")


def _decode_request(data: bytes, position: int, version: int) -> AssignReplicasToDirsRequest:
    wire = schema.decode(_Request, data, position, version)
    assignments = tuple(
        (schema.uuid_text(directory.id), schema.uuid_text(topic.topic_id), each.partition_index)
        for directory in schema.elements(wire.directories)
        for topic in schema.elements(directory.topics)
        for each in schema.elements(topic.partitions)
    )
    return AssignReplicasToDirsRequest(wire.broker_id, wire.broker_epoch, assignments)


def _encode_request(request: AssignReplicasToDirsRequest, version: int) -> Parts:
    rows = [(directory, topic, {"partition_index": partition}) for directory, topic, partition in request.assignments]
    return schema.encode(
        _Request,
        version,
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        directories=_nested(_Request, version, rows),
    )


def _decode_response(data: bytes, position: int, version: int) -> AssignReplicasToDirsResponse:
    wire = schema.decode(_Response, data, position, version)
    results = tuple(
        (schema.uuid_text(directory.id), schema.uuid_text(topic.topic_id), each.partition_index, each.error_code)
        for directory in schema.elements(wire.directories)
        for topic in schema.elements(directory.topics)
        for each in schema.elements(topic.partitions)
    )
    return AssignReplicasToDirsResponse(wire.error_code, results)


def _encode_response(response: AssignReplicasToDirsResponse, version: int) -> Parts:
    rows = [
        (directory, topic, {"partition_index": partition, "error_code": error})
        for directory, topic, partition, error in response.results
    ]
    return schema.encode(
        _Response, version, error_code=response.error_code, directories=_nested(_Response, version, rows)
    )


def _nested(
    message: schema.WireMessage, version: int, rows: list[tuple[str, str, dict[str, int]]]
) -> list[schema.WireMessage]:
    """Partitions in topics in directories, from (directory id, topic id, fields of the partition)."""
    directory_class = message.DirectoryData
    topic_class = directory_class.TopicData
    return [
        directory_class(
            version=version,
            id=schema.uuid_or_zero(directory_id),
            topics=[
                topic_class(
                    version=version,
                    topic_id=schema.uuid_or_zero(topic_id),
                    partitions=[topic_class.PartitionData(version=version, **fields) for fields in partitions],
                )
                for topic_id, partitions in by_topic(topics)
            ],
        )
        for directory_id, topics in by_topic((row[0], (row[1], row[2])) for row in rows)
    ]


ASSIGN_REPLICAS_TO_DIRS = Codec(
    api_key=73,
    name="AssignReplicasToDirs",
    versions=(0, 0),
    flexible_from=0,
    request_type=AssignReplicasToDirsRequest,
    decode_request=_decode_request,
    encode_request=_encode_request,
    decode_response=_decode_response,
    encode_response=_encode_response,
)
