"""Answers queries from the image and the logs: metadata, offsets, epochs, log infos."""

from __future__ import annotations

from broker.core.broker_node import directories
from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.broker_node.state import BrokerState
from broker.core.configuration.settings import CLIENT_LISTENER
from broker.core.log.segments.timestamps import Effort
from broker.core.messages import (
    EpochEnd,
    EpochEndPartition,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ReplicaLogInfo,
    operations,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import TopicImage
from broker.core.metadata.records import PartitionState, is_legal_name
from broker.core.ports.files import StorageError
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Replica, Role

END_NOT_CERTAIN = sometimes("ListOffsets refused: the high watermark is not certain (LO-2)")
EFFORT_SPENT = sometimes("ListOffsets refused: the searches before it in the same request took too long")

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
_SPECIAL_SINCE = {
    _LATEST: 0,
    _EARLIEST: 0,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version of the ListOffsets request with each of the timestamps that stand for something else."""


def metadata(broker: BrokerState, request: MetadataRequest) -> MetadataResponse:
    """Topics, their leaders and the brokers that clients can reach."""
    image = broker.image
    if request.topics is None:
        topics = [_topic(broker, topic) for topic in image.topics.values()]
    else:
        asked = {
            (name or image.topic_names.get(topic_id) or topic_id): (name, topic_id) for name, topic_id in request.topics
        }
        topics = [_asked_topic(broker, name, topic_id) for name, topic_id in asked.values()]
    if request.include_topic_authorized_operations:
        topics = [
            topic._replace(authorized_operations=operations.OF_TOPIC) if topic.error_code == ErrorCode.NONE else topic
            for topic in topics
        ]
    of_cluster = operations.OF_CLUSTER if request.include_cluster_authorized_operations else operations.NOT_ASKED
    brokers, controller = reachable_brokers(broker)
    return MetadataResponse(brokers, broker.settings.cluster_id, controller, tuple(topics), of_cluster)


def reachable_brokers(broker: BrokerState) -> tuple[tuple[MetadataBroker, ...], int]:
    """The brokers that clients can reach, and the one reported as controller.

    Clients send administration to "the controller"; every broker forwards it, so any active one will do.
    """
    brokers = []
    for member in broker.image.brokers.values():
        address = member.address(CLIENT_LISTENER)
        if not member.fenced and address is not None:
            brokers.append(MetadataBroker(member.broker_id, *address, member.rack))
    active = [member.node_id for member in brokers]
    return tuple(brokers), broker.broker_id if broker.broker_id in active else (active[0] if active else -1)


def unknown_topics(broker: BrokerState, request: MetadataRequest) -> list[str]:
    """Unknown names in a metadata request, without the internal topic that a coordinator creates."""
    known = {*broker.image.topics, OFFSETS_TOPIC}
    return [name for name, _ in request.topics or () if name and name not in known and is_legal_name(name)]


def _asked_topic(broker: BrokerState, name: str | None, topic_id: str) -> MetadataTopic:
    name = name or broker.image.topic_names.get(topic_id)
    topic = broker.image.topics.get(name) if name else None
    if topic is not None:
        return _topic(broker, topic)
    if topic_id and not name:
        error = ErrorCode.UNKNOWN_TOPIC_ID
    elif is_legal_name(name or ""):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataTopic(error, name, topic_id, is_internal=False, partitions=())


def _topic(broker: BrokerState, topic: TopicImage) -> MetadataTopic:
    return MetadataTopic(
        ErrorCode.NONE,
        topic.name,
        topic.topic_id,
        is_internal=topic.name == OFFSETS_TOPIC,
        partitions=tuple(_partition(broker, number, state) for number, state in topic.partitions.items()),
    )


def _partition(broker: BrokerState, number: int, state: PartitionState) -> MetadataPartition:
    reachable = state.leader >= 0 and not broker.image.brokers[state.leader].fenced
    return MetadataPartition(
        ErrorCode.NONE if reachable else ErrorCode.LEADER_NOT_AVAILABLE,
        number,
        state.leader if reachable else -1,
        state.leader_epoch,
        state.replicas,
        state.isr,
        offline_replicas(broker, state),
    )


def offline_replicas(broker: BrokerState, state: PartitionState) -> tuple[int, ...]:
    """The replicas of brokers that are not active, or whose log directory has failed (KIP-858)."""
    return tuple(one for one in state.replicas if one in state.offline or not broker.image.is_active(one))


def _led_replica(broker: BrokerState, topic: str, partition: int, epoch: int) -> tuple[Replica | None, ErrorCode]:
    """FE-2 and FE-3 for a query: the replica if this broker leads it in that epoch."""
    replica = broker.replicas.get((topic, partition))
    if replica is None:
        return None, broker.absence_error(topic, partition)
    error = broker.rules.fetch.check_epoch(epoch, replica.leader_epoch)
    if error == ErrorCode.NONE and replica.role is not Role.LEADER:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return replica, error


def list_offsets(broker: BrokerState, request: ListOffsetsRequest, api_version: int) -> ListOffsetsResponse:
    """LO-1, LO-2; the largest timestamp by KIP-734, of all records below the high watermark.

    All storage is local, so nothing is tiered, and nothing waits for it (KIP-405, KIP-1005, KIP-1023).
    """
    by_follower = request.replica_id >= 0
    effort = Effort()
    special = [timestamp for timestamp, since in _SPECIAL_SINCE.items() if api_version >= since]
    return ListOffsetsResponse(
        tuple(
            _list_offset(broker, part, effort, by_follower=by_follower)
            if part.timestamp >= 0 or part.timestamp in special
            else ListedOffset(part.topic, part.partition, ErrorCode.UNSUPPORTED_VERSION)
            for part in request.partitions
        )
    )


def _list_offset(broker: BrokerState, part: ListOffsetsPartition, effort: Effort, *, by_follower: bool) -> ListedOffset:
    replica, error = _led_replica(broker, part.topic, part.partition, part.current_leader_epoch)
    if replica is None or error != ErrorCode.NONE:
        return ListedOffset(part.topic, part.partition, error)
    log = replica.log
    end = log.end_offset if by_follower else replica.high_watermark
    if part.timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return ListedOffset(part.topic, part.partition, ErrorCode.NONE)
    if part.timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        epoch = log.epochs.epoch_at(log.start_offset)
        return ListedOffset(part.topic, part.partition, ErrorCode.NONE, -1, log.start_offset, epoch)
    if not by_follower and not broker.rules.high_watermark.is_certain(
        replica.high_watermark, replica.leader_epoch_start
    ):
        # LO-2 (KIP-207): the end that clients see must not go back over an election
        broker.runtime.mark(END_NOT_CERTAIN)
        return ListedOffset(part.topic, part.partition, ErrorCode.OFFSET_NOT_AVAILABLE)
    if part.timestamp == _LATEST:
        return ListedOffset(part.topic, part.partition, ErrorCode.NONE, -1, end, replica.leader_epoch)
    if effort.is_spent:
        broker.runtime.mark(EFFORT_SPENT)
        return ListedOffset(part.topic, part.partition, ErrorCode.REQUEST_TIMED_OUT)
    try:
        if part.timestamp == _MAX_TIMESTAMP:
            found = log.latest_timestamp(end, effort)
        else:
            found = log.offset_for_timestamp(part.timestamp, end, effort)
    except StorageError as failure:
        directories.fail(broker, failure)
        return ListedOffset(part.topic, part.partition, ErrorCode.KAFKA_STORAGE_ERROR)
    if found is None:
        return ListedOffset(part.topic, part.partition, ErrorCode.NONE)
    return ListedOffset(part.topic, part.partition, ErrorCode.NONE, *found)


def epoch_ends(broker: BrokerState, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Answer for each partition."""
    return OffsetForLeaderEpochResponse(tuple(_epoch_end(broker, part) for part in request.partitions))


def _epoch_end(broker: BrokerState, part: EpochEndPartition) -> EpochEnd:
    """OE-1: where a leader epoch ends in this leader's log."""
    replica, error = _led_replica(broker, part.topic, part.partition, part.current_leader_epoch)
    if replica is None or error != ErrorCode.NONE:
        return EpochEnd(part.topic, part.partition, error)
    found = replica.log.epochs.end_offset(part.leader_epoch, replica.log.end_offset)
    return EpochEnd(part.topic, part.partition, ErrorCode.NONE, *(found or (-1, -1)))


def replica_log_infos(broker: BrokerState, request: GetReplicaLogInfoRequest) -> GetReplicaLogInfoResponse:
    """UR-12: log ends and epochs of local replicas, leader or not; logs are recovered before requests are served.

    The epoch of a log without records is the one that held where it begins: below that all is committed, and a shorter
    log of the same epoch must not be taken for a better one.
    """
    infos = []
    for part in request.partitions:
        topic = part.topic or broker.image.topic_names.get(part.topic_id, "")
        replica = broker.replicas.get((topic, part.partition))
        if replica is not None and part.topic_id not in ("", replica.topic_id):
            replica = None  # of a topic that was deleted: UR-12
        error = ErrorCode.NONE if replica else broker.absence_error(topic, part.partition)
        if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:  # leader or not, there is no log
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        info = ReplicaLogInfo(topic, part.partition, error, topic_id=part.topic_id)
        if replica is not None:
            info = info._replace(
                last_written_leader_epoch=replica.log.epoch_at_end,
                current_leader_epoch=replica.leader_epoch,
                log_end_offset=replica.log.end_offset,
            )
        infos.append(info)
    return GetReplicaLogInfoResponse(broker.broker_epoch, tuple(infos))
