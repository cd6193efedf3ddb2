"""Describes the cluster, log directories, and partitions with their ELR."""

from __future__ import annotations

from broker.core.broker_node import directories
from broker.core.broker_node.requests.queries import offline_replicas, reachable_brokers
from broker.core.broker_node.state import BrokerState
from broker.core.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedLog,
    DescribedLogDirectory,
    DescribedPartition,
    DescribedTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    operations,
)
from broker.core.messages.errors import ErrorCode
from broker.core.replica.state import Replica

_BROKERS = 1
_PARTITIONS_MAX = 2_000
"""Of one page of DescribeTopicPartitions, however many are asked for; Kafka's `max.request.partition.size.limit`."""


def cluster(broker: BrokerState, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """DescribeCluster (60). A broker describes brokers only (KIP-919)."""
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(ErrorCode.MISMATCHED_ENDPOINT_TYPE, broker.settings.cluster_id, -1, ())
    brokers, controller = reachable_brokers(broker)
    of_cluster = operations.OF_CLUSTER if request.include_cluster_authorized_operations else operations.NOT_ASKED
    return DescribeClusterResponse(ErrorCode.NONE, broker.settings.cluster_id, controller, brokers, of_cluster)


def log_directories(broker: BrokerState, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """DescribeLogDirs (35): the asked partitions in each directory; for a failed directory, the error."""
    asked = None if request.partitions is None else set(request.partitions)
    replicas = [replica for replica in broker.replicas.values() if asked is None or replica.key in asked]
    return DescribeLogDirsResponse(
        tuple(
            DescribedLogDirectory(
                ErrorCode.KAFKA_STORAGE_ERROR if index in broker.failed_directories else ErrorCode.NONE,
                path,
                tuple(_log(replica) for replica in replicas if directories.of(replica) == index),
            )
            for index, path in enumerate(broker.settings.log_dirs)
        )
    )


def _log(replica: Replica) -> DescribedLog:
    lag = max(0, replica.high_watermark - replica.log.end_offset)
    return DescribedLog(replica.topic, replica.partition, replica.log.size_bytes, lag)


def topic_partitions(broker: BrokerState, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """DescribeTopicPartitions (75): Metadata's content with ELR and LastKnownELR, paged in order of names."""
    names = sorted(request.topics or broker.image.topics)
    first_topic, first_partition = request.cursor or ("", 0)
    room = min(max(1, request.partition_limit), _PARTITIONS_MAX)
    topics: list[DescribedTopic] = []
    for name in names:
        if name < first_topic:
            continue
        topic = broker.image.topics.get(name)
        if topic is None:
            topics.append(DescribedTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, "", False, ()))
            continue
        start = first_partition if name == first_topic else 0
        numbers = [number for number in sorted(topic.partitions) if number >= start]
        partitions = tuple(_partition(broker, name, number) for number in numbers[:room])
        internal = name.startswith("__")
        topics.append(DescribedTopic(ErrorCode.NONE, name, topic.topic_id, internal, partitions, operations.OF_TOPIC))
        if len(numbers) > room:
            return DescribeTopicPartitionsResponse(tuple(topics), (name, numbers[room]))
        room -= len(partitions)
        if room <= 0:
            following = [other for other in names if other > name]
            return DescribeTopicPartitionsResponse(tuple(topics), (following[0], 0) if following else None)
    return DescribeTopicPartitionsResponse(tuple(topics))


def _partition(broker: BrokerState, topic: str, number: int) -> DescribedPartition:
    state = broker.image.topics[topic].partitions[number]
    return DescribedPartition(
        ErrorCode.NONE if state.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        number,
        state.leader,
        state.leader_epoch,
        state.replicas,
        state.isr,
        state.elr,
        state.last_known_elr,
        offline_replicas(broker, state),
    )
