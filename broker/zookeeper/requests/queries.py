"""Answers clients from the tree of znodes, as they would read it themselves; and where logs end."""

from __future__ import annotations

from broker.core.messages import (
    NO_LEADER,
    UNKNOWN,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import is_legal_name
from broker.core.ports.coordination import Answer, GetChildren, GetData
from broker.zookeeper import paths
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import read_ids
from broker.zookeeper.state import ZooKeeperState

_LATEST, _EARLIEST = -1, -2


def metadata(zk: ZooKeeperState, request_id: int, request: MetadataRequest) -> Steps[None]:
    """Read the brokers that are registered, and the partitions of the topics, and answer."""
    brokers = []
    for name in (yield GetChildren(paths.IDS)).children:
        path = f"{paths.IDS}/{name}"
        found = yield GetData(path)
        if found.error is None:
            brokers.append(MetadataBroker(int(name), *paths.decoded_address(found.data, path)))
    zk.addresses |= {one.node_id: (one.host, one.port) for one in brokers}
    names = (
        (yield GetChildren(paths.TOPICS)).children
        if request.topics is None
        else [name or "" for name, _ in request.topics]
    )
    topics = []
    for name in names:
        topics.append((yield from _topic(zk, name, frozenset(one.node_id for one in brokers))))
    controller = min((one.node_id for one in brokers), default=-1)
    zk.broker.runtime.reply(
        request_id, MetadataResponse(tuple(brokers), zk.broker.settings.cluster_id, controller, tuple(topics))
    )


def _topic(zk: ZooKeeperState, name: str, live: frozenset[int]) -> Steps[MetadataTopic]:
    children = (yield GetChildren(paths.topic(name))).children if is_legal_name(name) else ()
    partitions = []
    for child in children:
        number = paths.number_of(child, paths.topic(name))
        key = (name, number)
        replicas = yield from read_ids(paths.replicas(key))
        if replicas is None:
            continue  # it is being created
        leader = ((yield from read_ids(paths.leader(key))) or (NO_LEADER,))[0]
        isr: Answer = yield GetData(paths.insync(key))
        partitions.append(
            MetadataPartition(
                ErrorCode.LEADER_NOT_AVAILABLE if leader not in live else ErrorCode.NONE,
                number,
                leader if leader in live else NO_LEADER,
                UNKNOWN,
                replicas,
                () if isr.error is not None else zk.insync_in(isr.data, paths.insync(key)),
                tuple(one for one in replicas if one not in live),
            )
        )
    partitions.sort(key=lambda part: part.partition)
    error = ErrorCode.NONE if partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataTopic(error, name, "", is_internal=False, partitions=tuple(partitions))


def list_offsets(zk: ZooKeeperState, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Start and high watermark of partitions led here; replicas hear the high watermark of any (see `election`).

    With a controller replicas ask the leader, for the end of its log.
    """
    return ListOffsetsResponse(
        tuple(_list_offset(zk, part, by_replica=request.replica_id >= 0) for part in request.partitions)
    )


def _list_offset(zk: ZooKeeperState, part: ListOffsetsPartition, *, by_replica: bool) -> ListedOffset:
    hosted = zk.hosted.get((part.topic, part.partition))
    if hosted is None or not (hosted.is_open or (by_replica and not zk.is_controlled)):
        return ListedOffset(part.topic, part.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log, high_watermark = hosted.replica.log, hosted.replica.high_watermark
    if part.timestamp in (_LATEST, _EARLIEST):
        if by_replica and zk.is_controlled:
            high_watermark = log.end_offset
        offset = high_watermark if part.timestamp == _LATEST else log.start_offset
        return ListedOffset(part.topic, part.partition, ErrorCode.NONE, -1, offset)
    if part.timestamp < 0:
        return ListedOffset(part.topic, part.partition, ErrorCode.UNSUPPORTED_VERSION)
    found = log.offset_for_timestamp(part.timestamp, high_watermark)
    return ListedOffset(part.topic, part.partition, ErrorCode.NONE, *(found or ()))
