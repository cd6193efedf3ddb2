"""Answers clients and followers: Metadata from the controller's last UpdateMetadata, and where a leader epoch ends."""

from __future__ import annotations

from broker.core.messages import (
    NO_LEADER,
    UNKNOWN,
    EpochEnd,
    EpochEndPartition,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import Exists
from broker.zookeeper import paths
from broker.zookeeper.choices import C2, WITH_EPOCHS
from broker.zookeeper.procedures import Steps
from broker.zookeeper.state import ZooKeeperState


def metadata(zk: ZooKeeperState, request_id: int, request: MetadataRequest) -> Steps[None]:
    """Answer with what the last `UpdateMetadata` requests have said."""
    known = zk.controlled
    live = frozenset(one.node_id for one in known.live)
    topics: dict[str, list[MetadataPartition]] = {}
    for (topic, number), state in sorted(known.partitions.items()):
        is_led = state.leader in live
        topics.setdefault(topic, []).append(
            MetadataPartition(
                ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
                number,
                state.leader if is_led else NO_LEADER,
                UNKNOWN,
                state.replicas,
                state.isr,
                tuple(one for one in state.replicas if one not in live),
            )
        )
    answers = []
    for name in sorted(topics) if request.topics is None else [name or "" for name, _ in request.topics]:
        error = ErrorCode.NONE if name in topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error and (yield Exists(paths.topic(name))).error is None:
            error = ErrorCode.LEADER_NOT_AVAILABLE  # it is being created
        answers.append(MetadataTopic(error, name, "", is_internal=False, partitions=tuple(topics.get(name, ()))))
    cluster_id = zk.broker.settings.cluster_id
    brokers = tuple(MetadataBroker(*one) for one in known.live)
    zk.broker.runtime.reply(request_id, MetadataResponse(brokers, cluster_id, known.controller_id, tuple(answers)))


def epoch_ends(zk: ZooKeeperState, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Where epochs end in the logs that are led here; in whatever epoch who asks is (B-15)."""
    return OffsetForLeaderEpochResponse(tuple(_epoch_end(zk, part) for part in request.partitions))


def _epoch_end(zk: ZooKeeperState, part: EpochEndPartition) -> EpochEnd:
    hosted = zk.hosted.get((part.topic, part.partition))
    generation = zk.broker.settings.generation
    if generation not in WITH_EPOCHS:
        return EpochEnd(part.topic, part.partition, ErrorCode.UNSUPPORTED_VERSION)
    if hosted is None or not hosted.is_open:
        return EpochEnd(part.topic, part.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log = hosted.replica.log
    found = log.epochs.end_offset(part.leader_epoch, log.end_offset)
    if found is None:
        return EpochEnd(part.topic, part.partition, ErrorCode.NONE)
    epoch, end = found
    if generation == C2:  # where the next higher epoch begins, without a word of which epoch that ends (B-13)
        is_below_all = part.leader_epoch < log.epochs.entries[0][0]
        return EpochEnd(part.topic, part.partition, ErrorCode.NONE, UNKNOWN, UNKNOWN if is_below_all else end)
    return EpochEnd(part.topic, part.partition, ErrorCode.NONE, epoch, end)
