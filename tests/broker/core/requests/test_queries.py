"""What brokers answer to queries about offsets, epochs and logs, according to who leads and who asks (LO, OE, UR)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.core.messages import (
    EpochEndPartition,
    GetReplicaLogInfoRequest,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProducePartition,
    ProduceRequest,
    ReplicaLogInfo,
    ReplicaLogInfoPartition,
)
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch
from tests.support.cluster import TOPIC, Cluster

LATEST, MAX_TIMESTAMP = -1, -3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Four records, of which the followers lack the last: two batches of 5 s and 7 s, then 6 s, then 9 s."""
    cluster = Cluster(brokers=4)
    cluster.create_topic()
    leader = cluster.leader()
    for time_ms in (5_000, 7_000, 6_000):
        assert _write(cluster, time_ms, -1) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    cluster.held = lambda source, target, message: source == leader and target < 5
    assert _write(cluster, 9_000, 1) == ErrorCode.NONE
    return cluster


def _write(cluster: Cluster, time_ms: int, acks: int) -> int:
    batch = encode_batch([(None, b"value")], 0, 0, time_ms)
    request = ProduceRequest(acks, 2_000, (ProducePartition(TOPIC, 0, batch),))
    return cluster.call(cluster.leader(), request).partitions[0].error_code


def _follower(cluster: Cluster) -> int:
    return next(broker for broker in cluster.view()["replicas"] if broker != cluster.leader())


def _without_replica(cluster: Cluster) -> int:
    return next(broker for broker in (1, 2, 3, 4) if broker not in cluster.view()["replicas"])


def _listed(cluster: Cluster, broker: int, timestamp: int, **fields: int) -> ListedOffset:
    request = ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, timestamp),), **fields)
    asked = cluster.ask(broker, request, 11)
    return cluster.answers[asked].partitions[0]


def test_lo_2_consumers_learn_the_high_watermark_and_followers_the_end_of_the_log(cluster: Cluster) -> None:
    assert _listed(cluster, cluster.leader(), LATEST).offset == 3
    assert _listed(cluster, cluster.leader(), LATEST, replica_id=_follower(cluster)).offset == 4


def test_the_record_with_the_largest_time_is_sought_among_those_that_are_committed(cluster: Cluster) -> None:
    of_consumer = _listed(cluster, cluster.leader(), MAX_TIMESTAMP)
    assert (of_consumer.error_code, of_consumer.timestamp, of_consumer.offset) == (ErrorCode.NONE, 7_000, 1)
    of_follower = _listed(cluster, cluster.leader(), MAX_TIMESTAMP, replica_id=_follower(cluster))
    assert (of_follower.error_code, of_follower.timestamp, of_follower.offset) == (ErrorCode.NONE, 9_000, 3)


def test_only_the_leader_answers_for_offsets_and_epochs(cluster: Cluster) -> None:
    epochs = OffsetForLeaderEpochRequest((EpochEndPartition(TOPIC, 0, -1, 0),))
    for broker in (_follower(cluster), _without_replica(cluster)):
        assert _listed(cluster, broker, LATEST).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert cluster.call(broker, epochs).partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.call(cluster.leader(), epochs).partitions[0].error_code == ErrorCode.NONE


def test_ur_12_replicas_tell_of_their_logs_whoever_leads_and_others_know_of_none(cluster: Cluster) -> None:
    request = GetReplicaLogInfoRequest((ReplicaLogInfoPartition(TOPIC, 0),))
    for broker, end in ((cluster.leader(), 4), (_follower(cluster), 3)):
        (info,) = cluster.call(broker, request).partitions
        assert (info.error_code, info.log_end_offset) == (ErrorCode.NONE, end)
    assert cluster.call(_without_replica(cluster), request).partitions == (
        ReplicaLogInfo(TOPIC, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    )


def test_ur_12_no_replica_tells_of_the_log_of_an_earlier_topic_of_that_name(cluster: Cluster) -> None:
    later = "the id of a later topic"
    request = GetReplicaLogInfoRequest((ReplicaLogInfoPartition(TOPIC, 0, later),))
    assert cluster.call(_follower(cluster), request).partitions == (
        ReplicaLogInfo(TOPIC, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic_id=later),
    )
