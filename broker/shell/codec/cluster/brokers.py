"""Codec of requests of a broker to its controller about itself.

BrokerRegistration (62), versions 0 to 4, BrokerHeartbeat (63), 0 and 1, AllocateProducerIds (67), 0, and
AssignReplicasToDirs (73), 0 (KIP-858).
"""

from __future__ import annotations

from broker.core.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from broker.shell.codec import mapping
from broker.shell.codec.mapping import UUID, UUIDS, Message, grouped, many, mapped, message, record
from broker.shell.codec.wire import Parts

_REGISTRATION = record(BrokerRegistrationRequest, incarnation_id=UUID, listeners=many(record(Listener)), log_dirs=UUIDS)

BROKER_REGISTRATION = mapped(
    (0, 4),
    message(mapping.define("brokers", "BrokerRegistrationRequest"), _REGISTRATION),
    message(mapping.define("brokers", "BrokerRegistrationResponse"), record(BrokerRegistrationResponse)),
)

BROKER_HEARTBEAT = mapped(
    (0, 1),
    message(mapping.define("brokers", "BrokerHeartbeatRequest"), record(BrokerHeartbeatRequest)),
    message(mapping.define("brokers", "BrokerHeartbeatResponse"), record(BrokerHeartbeatResponse)),
)

ALLOCATE_PRODUCER_IDS = mapped(
    (0, 0),
    message(mapping.define("brokers", "AllocateProducerIdsRequest"), record(AllocateProducerIdsRequest)),
    message(mapping.define("brokers", "AllocateProducerIdsResponse"), record(AllocateProducerIdsResponse)),
)

# --- AssignReplicasToDirs ---------------------------------------------------------------------------------

_AssignRequest = mapping.define("brokers", "AssignReplicasToDirsRequest")
_AssignResponse = mapping.define("brokers", "AssignReplicasToDirsResponse")


def _decode_assign_request(data: bytes, position: int, version: int) -> AssignReplicasToDirsRequest:
    wire = mapping.decode_message(_AssignRequest, data, position, version)
    assignments = tuple(
        (mapping.uuid_text(directory.id), mapping.uuid_text(topic.topic_id), each.partition_index)
        for directory in mapping.elements(wire.directories)
        for topic in mapping.elements(directory.topics)
        for each in mapping.elements(topic.partitions)
    )
    return AssignReplicasToDirsRequest(wire.broker_id, wire.broker_epoch, assignments)


def _encode_assign_request(request: AssignReplicasToDirsRequest, version: int) -> Parts:
    rows = [(directory, topic, {"partition_index": partition}) for directory, topic, partition in request.assignments]
    return mapping.encode_message(
        _AssignRequest,
        version,
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        directories=_nested(_AssignRequest, version, rows),
    )


def _decode_assign_response(data: bytes, position: int, version: int) -> AssignReplicasToDirsResponse:
    wire = mapping.decode_message(_AssignResponse, data, position, version)
    results = tuple(
        (mapping.uuid_text(directory.id), mapping.uuid_text(topic.topic_id), each.partition_index, each.error_code)
        for directory in mapping.elements(wire.directories)
        for topic in mapping.elements(directory.topics)
        for each in mapping.elements(topic.partitions)
    )
    return AssignReplicasToDirsResponse(wire.error_code, results)


def _encode_assign_response(response: AssignReplicasToDirsResponse, version: int) -> Parts:
    rows = [
        (directory, topic, {"partition_index": partition, "error_code": error})
        for directory, topic, partition, error in response.results
    ]
    return mapping.encode_message(
        _AssignResponse, version, error_code=response.error_code, directories=_nested(_AssignResponse, version, rows)
    )


def _nested(
    message: mapping.WireMessage, version: int, rows: list[tuple[str, str, dict[str, int]]]
) -> list[mapping.WireMessage]:
    """Partitions in topics in directories, from (directory id, topic id, fields of the partition)."""
    directory_class = message.DirectoryData
    topic_class = directory_class.TopicData
    return [
        directory_class(
            version=version,
            id=mapping.uuid_or_zero(directory_id),
            topics=[
                topic_class(
                    version=version,
                    topic_id=mapping.uuid_or_zero(topic_id),
                    partitions=[topic_class.PartitionData(version=version, **fields) for fields in partitions],
                )
                for topic_id, partitions in grouped(topics)
            ],
        )
        for directory_id, topics in grouped((row[0], (row[1], row[2])) for row in rows)
    ]


ASSIGN_REPLICAS_TO_DIRS = mapped(
    (0, 0),
    Message(_AssignRequest, AssignReplicasToDirsRequest, _decode_assign_request, _encode_assign_request),
    Message(_AssignResponse, AssignReplicasToDirsResponse, _decode_assign_response, _encode_assign_response),
)
