"""Codec of requests about replicas: AlterPartition (56), versions 2 and 3, and GetReplicaLogInfo (93), version 0.

Both identify topics by id only. The names in a response come from its request.
"""

from __future__ import annotations

from broker.core.messages import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    ReplicaLogInfo,
    ReplicaLogInfoPartition,
)
from broker.shell.codec import mapping
from broker.shell.codec.mapping import ARRAY, NOT_ON_WIRE, UUID, Message, by_topic, grouped, mapped, message, record
from broker.shell.codec.wire import Parts

# --- AlterPartition ---------------------------------------------------------------------------------------

_AlterRequest = mapping.define("replicas", "AlterPartitionRequest")
_EPOCHS_IN_ISR = 3
"""From this version on the ISR's members include their broker epochs (KIP-903)."""


def _new_isr(partition: mapping.WireMessage, version: int) -> tuple[tuple[int, int], ...]:
    if version >= _EPOCHS_IN_ISR:
        return tuple((each.broker_id, each.broker_epoch) for each in mapping.elements(partition.new_isr_with_epochs))
    return tuple((broker_id, -1) for broker_id in mapping.elements(partition.new_isr))


def _decode_alter_request(data: bytes, position: int, version: int) -> AlterPartitionRequest:
    wire = mapping.decode_message(_AlterRequest, data, position, version)
    partitions = tuple(
        AlterPartitionPartition(
            "",
            each.partition_index,
            each.leader_epoch,
            each.partition_epoch,
            _new_isr(each, version),
            each.leader_recovery_state,
            mapping.uuid_text(topic.topic_id),
        )
        for topic in mapping.elements(wire.topics)
        for each in mapping.elements(topic.partitions)
    )
    return AlterPartitionRequest(wire.broker_id, wire.broker_epoch, partitions)


def _wire_alter_partition(each: AlterPartitionPartition, version: int) -> mapping.WireMessage:
    partition_class = _AlterRequest.TopicData.PartitionData
    isr: dict[str, object]
    if version >= _EPOCHS_IN_ISR:
        isr = {
            "new_isr_with_epochs": [
                partition_class.BrokerState(version=version, broker_id=broker_id, broker_epoch=epoch)
                for broker_id, epoch in each.new_isr
            ]
        }
    else:
        isr = {"new_isr": [broker_id for broker_id, _ in each.new_isr]}
    return partition_class(
        **isr,
        version=version,
        partition_index=each.partition,
        leader_epoch=each.leader_epoch,
        leader_recovery_state=each.leader_recovery_state,
        partition_epoch=each.partition_epoch,
    )


def _encode_alter_request(request: AlterPartitionRequest, version: int) -> Parts:
    topics = [
        _AlterRequest.TopicData(
            version=version,
            topic_id=mapping.uuid_or_zero(topic_id),
            partitions=[_wire_alter_partition(each, version) for each in partitions],
        )
        for topic_id, partitions in grouped((each.topic_id, each) for each in request.partitions)
    ]
    return mapping.encode_message(
        _AlterRequest, version, broker_id=request.broker_id, broker_epoch=request.broker_epoch, topics=topics
    )


_ALTERED = record(AlteredPartition, topic=NOT_ON_WIRE, partition="partition_index", isr=ARRAY)
_ALTERED_OF_TOPICS = by_topic(_ALTERED, topic="topic_id", key=UUID)


def _name_altered(response: AlterPartitionResponse, request: AlterPartitionRequest) -> AlterPartitionResponse:
    names = {each.topic_id: each.topic for each in request.partitions}
    named = tuple(each._replace(topic=names.get(each.topic_id, "")) for each in response.partitions)
    return response._replace(partitions=named)


ALTER_PARTITION = mapped(
    (2, 3),
    Message(_AlterRequest, AlterPartitionRequest, _decode_alter_request, _encode_alter_request),
    message(
        mapping.define("replicas", "AlterPartitionResponse"),
        record(AlterPartitionResponse, partitions=("topics", _ALTERED_OF_TOPICS)),
    ),
    _name_altered,
)

# --- GetReplicaLogInfo ------------------------------------------------------------------------------------

_ASKED = by_topic(record(ReplicaLogInfoPartition, topic=NOT_ON_WIRE), topic="topic_id", key=UUID)
_INFOS = by_topic(record(ReplicaLogInfo, topic=NOT_ON_WIRE), "partition_log_info", topic="topic_id", key=UUID)


def _name_infos(response: GetReplicaLogInfoResponse, request: GetReplicaLogInfoRequest) -> GetReplicaLogInfoResponse:
    names = {each.topic_id: each.topic for each in request.partitions}
    named = tuple(each._replace(topic=names.get(each.topic_id, "")) for each in response.partitions)
    return response._replace(partitions=named)


GET_REPLICA_LOG_INFO = mapped(
    (0, 0),
    message(
        mapping.define("replicas", "GetReplicaLogInfoRequest"),
        record(GetReplicaLogInfoRequest, partitions=("topic_partitions", _ASKED)),
    ),
    message(
        mapping.define("replicas", "GetReplicaLogInfoResponse"),
        record(GetReplicaLogInfoResponse, partitions=("topic_partition_log_info_list", _INFOS)),
    ),
    _name_infos,
)
