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
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.grouping import by_topic
from broker.shell.codec.wire import Parts

# --- AlterPartition ---------------------------------------------------------------------------------------

_AlterRequest = schema.define("AlterPartitionRequest")
_AlterResponse = schema.define("AlterPartitionResponse")
_EPOCHS_IN_ISR = 3
"""From this version on the ISR's members include their broker epochs (KIP-903)."""


def _new_isr(partition: schema.WireMessage, version: int) -> tuple[tuple[int, int], ...]:
    if version >= _EPOCHS_IN_ISR:
        return tuple((each.broker_id, each.broker_epoch) for each in schema.elements(partition.new_isr_with_epochs))
    return tuple((broker_id, -1) for broker_id in schema.elements(partition.new_isr))


def _decode_alter_request(data: bytes, position: int, version: int) -> AlterPartitionRequest:
    wire = schema.decode(_AlterRequest, data, position, version)
    partitions = tuple(
        AlterPartitionPartition(
            "",
            each.partition_index,
            each.leader_epoch,
            each.partition_epoch,
            _new_isr(each, version),
            each.leader_recovery_state,
            schema.uuid_text(topic.topic_id),
        )
        for topic in schema.elements(wire.topics)
        for each in schema.elements(topic.partitions)
    )
    return AlterPartitionRequest(wire.broker_id, wire.broker_epoch, partitions)


def _wire_alter_partition(each: AlterPartitionPartition, version: int) -> schema.WireMessage:
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
            topic_id=schema.uuid_or_zero(topic_id),
            partitions=[_wire_alter_partition(each, version) for each in partitions],
        )
        for topic_id, partitions in by_topic((each.topic_id, each) for each in request.partitions)
    ]
    return schema.encode(
        _AlterRequest, version, broker_id=request.broker_id, broker_epoch=request.broker_epoch, topics=topics
    )


def _decode_alter_response(data: bytes, position: int, version: int) -> AlterPartitionResponse:
    wire = schema.decode(_AlterResponse, data, position, version)
    partitions = tuple(
        AlteredPartition(
            "",
            each.partition_index,
            each.error_code,
            each.leader_id,
            each.leader_epoch,
            tuple(schema.elements(each.isr)),
            each.leader_recovery_state,
            each.partition_epoch,
            schema.uuid_text(topic.topic_id),
        )
        for topic in schema.elements(wire.topics)
        for each in schema.elements(topic.partitions)
    )
    return AlterPartitionResponse(wire.error_code, partitions)


def _encode_alter_response(response: AlterPartitionResponse, version: int) -> Parts:
    topic_class = _AlterResponse.TopicData
    topics = [
        topic_class(
            version=version,
            topic_id=schema.uuid_or_zero(topic_id),
            partitions=[
                topic_class.PartitionData(
                    version=version,
                    partition_index=each.partition,
                    error_code=each.error_code,
                    leader_id=each.leader_id,
                    leader_epoch=each.leader_epoch,
                    isr=each.isr,
                    leader_recovery_state=each.leader_recovery_state,
                    partition_epoch=each.partition_epoch,
                )
                for each in partitions
            ],
        )
        for topic_id, partitions in by_topic((each.topic_id, each) for each in response.partitions)
    ]
    return schema.encode(_AlterResponse, version, error_code=response.error_code, topics=topics)


def _name_altered(response: AlterPartitionResponse, request: AlterPartitionRequest) -> AlterPartitionResponse:
    names = {each.topic_id: each.topic for each in request.partitions}
    named = tuple(each._replace(topic=names.get(each.topic_id, "")) for each in response.partitions)
    return response._replace(partitions=named)


ALTER_PARTITION = Codec(
    api_key=56,
    name="AlterPartition",
    versions=(2, 3),
    flexible_from=0,
    request_type=AlterPartitionRequest,
    decode_request=_decode_alter_request,
    encode_request=_encode_alter_request,
    decode_response=_decode_alter_response,
    encode_response=_encode_alter_response,
    name_topics=_name_altered,
)

# --- GetReplicaLogInfo ------------------------------------------------------------------------------------

_InfoRequest = schema.define("GetReplicaLogInfoRequest")
_InfoResponse = schema.define("GetReplicaLogInfoResponse")


def _decode_info_request(data: bytes, position: int, version: int) -> GetReplicaLogInfoRequest:
    wire = schema.decode(_InfoRequest, data, position, version)
    partitions = tuple(
        ReplicaLogInfoPartition("", partition, schema.uuid_text(topic.topic_id))
        for topic in schema.elements(wire.topic_partitions)
        for partition in schema.elements(topic.partitions)
    )
    return GetReplicaLogInfoRequest(partitions)


def _encode_info_request(request: GetReplicaLogInfoRequest, version: int) -> Parts:
    topics = [
        _InfoRequest.TopicPartitions(version=version, topic_id=schema.uuid_or_zero(topic_id), partitions=partitions)
        for topic_id, partitions in by_topic((each.topic_id, each.partition) for each in request.partitions)
    ]
    return schema.encode(_InfoRequest, version, topic_partitions=topics)


def _decode_info_response(data: bytes, position: int, version: int) -> GetReplicaLogInfoResponse:
    wire = schema.decode(_InfoResponse, data, position, version)
    infos = tuple(
        ReplicaLogInfo(
            "",
            each.partition,
            each.error_code,
            each.last_written_leader_epoch,
            each.current_leader_epoch,
            each.log_end_offset,
            schema.uuid_text(topic.topic_id),
        )
        for topic in schema.elements(wire.topic_partition_log_info_list)
        for each in schema.elements(topic.partition_log_info)
    )
    return GetReplicaLogInfoResponse(wire.broker_epoch, infos, wire.truncated)


def _encode_info_response(response: GetReplicaLogInfoResponse, version: int) -> Parts:
    topic_class = _InfoResponse.TopicPartitionLogInfo
    topics = [
        topic_class(
            version=version,
            topic_id=schema.uuid_or_zero(topic_id),
            partition_log_info=[
                topic_class.PartitionLogInfo(
                    version=version,
                    partition=each.partition,
                    last_written_leader_epoch=each.last_written_leader_epoch,
                    current_leader_epoch=each.current_leader_epoch,
                    log_end_offset=each.log_end_offset,
                    error_code=each.error_code,
                )
                for each in infos
            ],
        )
        for topic_id, infos in by_topic((each.topic_id, each) for each in response.partitions)
    ]
    return schema.encode(
        _InfoResponse,
        version,
        broker_epoch=response.broker_epoch,
        truncated=response.truncated,
        topic_partition_log_info_list=topics,
    )


def _name_infos(response: GetReplicaLogInfoResponse, request: GetReplicaLogInfoRequest) -> GetReplicaLogInfoResponse:
    names = {each.topic_id: each.topic for each in request.partitions}
    named = tuple(each._replace(topic=names.get(each.topic_id, "")) for each in response.partitions)
    return response._replace(partitions=named)


GET_REPLICA_LOG_INFO = Codec(
    api_key=93,
    name="GetReplicaLogInfo",
    versions=(0, 0),
    flexible_from=0,
    request_type=GetReplicaLogInfoRequest,
    decode_request=_decode_info_request,
    encode_request=_encode_info_request,
    decode_response=_decode_info_response,
    encode_response=_encode_info_response,
    name_topics=_name_infos,
)
