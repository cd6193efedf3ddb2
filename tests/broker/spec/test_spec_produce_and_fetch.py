"""The error tables of §6 (produce) and §7 (fetch, in the order of its checks)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.core.messages import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch, iterate_headers
from broker.core.rules.flaws import rules_for
from tests.support.cluster import TOPIC, Cluster

BATCH = encode_batch([(None, b"value")], 0, 0, 0)
TORN = BATCH[:-1] + bytes([BATCH[-1] ^ 1])
RULES = rules_for("K5", ())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three replicas of one partition with three records of the second leader epoch; and a broker without one."""
    cluster = Cluster(brokers=4)
    cluster.create_topic()
    cluster.produce(cluster.leader(), 1, 2)
    cluster.run_until(cluster.is_whole)
    first = cluster.leader()
    cluster.kill(first)
    cluster.run_until(lambda: cluster.leader() not in (first, -1))
    cluster.run_until(lambda: cluster.produce(cluster.leader(), 3) == ErrorCode.NONE)
    cluster.start(first)
    cluster.run_until(cluster.is_whole)
    return cluster


def follower(cluster: Cluster) -> int:
    return next(broker for broker in cluster.view()["replicas"] if broker != cluster.leader())


def without_replica(cluster: Cluster) -> int:
    return next(broker for broker in (1, 2, 3, 4) if broker not in cluster.view()["replicas"])


# --- PR -----------------------------------------------------------------------------------------------------


def produced(cluster: Cluster, at: int, records: bytes = BATCH, topic: str = TOPIC, acks: int = -1) -> int:
    response = cluster.call(at, ProduceRequest(acks, 1_000, (ProducePartition(topic, 0, records),)))
    assert isinstance(response, ProduceResponse)
    return response.partitions[0].error_code


def test_pr_1_produce_is_refused_before_anything_is_appended(cluster: Cluster) -> None:
    leader = cluster.leader()
    end = cluster.replica(leader)["log_end"]
    assert produced(cluster, leader, topic="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produced(cluster, follower(cluster)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produced(cluster, leader, acks=7) == ErrorCode.INVALID_REQUIRED_ACKS
    assert produced(cluster, leader, TORN) == ErrorCode.CORRUPT_MESSAGE
    assert cluster.replica(leader)["log_end"] == end


@pytest.mark.parametrize(
    ("acks", "isr", "error"),
    [
        (-1, (1, 2), ErrorCode.NONE),
        (-1, (1,), ErrorCode.NOT_ENOUGH_REPLICAS),
        (1, (1,), ErrorCode.NONE),
        (0, (1,), ErrorCode.NONE),
        (2, (1, 2), ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
def test_pr_2_acks_all_needs_min_isr(acks: int, isr: tuple[int, ...], error: ErrorCode) -> None:
    assert RULES.produce.refuse(acks, isr, 2) == error


@pytest.mark.parametrize(
    ("high_watermark", "maximal_isr", "outcome"),
    [
        (9, 3, None),
        (10, 2, ErrorCode.NONE),
        (11, 3, ErrorCode.NONE),
        (10, 1, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        (9, 1, None),
    ],
)
def test_pr_6_a_waiting_produce_ends(high_watermark: int, maximal_isr: int, outcome: ErrorCode | None) -> None:
    assert RULES.produce.outcome(10, high_watermark, maximal_isr, 2) == outcome


# --- FE -----------------------------------------------------------------------------------------------------


def fetched(cluster: Cluster, at: int, replica: int = -1, replica_epoch: int = -1, **part: object) -> FetchedPartition:
    wanted = {"topic": TOPIC, "partition": 0, "fetch_offset": 3, "max_bytes": 1 << 20, **part}
    request = FetchRequest((FetchPartition(**wanted),), replica_id=replica, replica_epoch=replica_epoch, max_wait_ms=1)
    response = cluster.call(at, request)
    assert isinstance(response, FetchResponse)
    return response.partitions[0]


def test_fe_1_to_fe_5_the_first_check_that_fails_is_the_answer(cluster: Cluster) -> None:
    leader, other, outsider = cluster.leader(), follower(cluster), without_replica(cluster)
    epoch = cluster.view()["leader_epoch"]

    def error(at: int, **asked: object) -> int:
        return fetched(cluster, at, **asked).error_code

    assert error(leader, topic="nowhere", current_leader_epoch=epoch - 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(leader, topic="", topic_id="unheard-of") == ErrorCode.UNKNOWN_TOPIC_ID
    # FE-2 comes before FE-3: an old epoch is fenced even at a follower.
    assert error(other, current_leader_epoch=epoch - 1) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(leader, current_leader_epoch=epoch + 1, fetch_offset=99) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert error(other, current_leader_epoch=epoch) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    # FE-4: a broker that is no replica.
    assert error(leader, replica=outsider, current_leader_epoch=epoch) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert error(leader, replica=outsider) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    # FE-5 comes before FE-7: a fetch of an earlier incarnation of the follower.
    old_life = {"replica": other, "replica_epoch": cluster.broker_epoch(other) - 1, "current_leader_epoch": epoch}
    assert error(leader, **old_life, fetch_offset=99) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fe_6_and_fe_7_where_the_logs_part(cluster: Cluster) -> None:
    leader = cluster.leader()
    epochs = cluster.replica(leader)["epochs"]
    (first, _), (last, starts) = epochs[0], epochs[-1]
    assert starts == 2
    diverging = fetched(cluster, leader, fetch_offset=3, last_fetched_epoch=first)
    assert (diverging.error_code, diverging.diverging_epoch, diverging.records) == (ErrorCode.NONE, (first, 2), b"")
    unknown = fetched(cluster, leader, fetch_offset=3, last_fetched_epoch=last + 1)
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched(cluster, leader, fetch_offset=4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    agreed = fetched(cluster, leader, fetch_offset=2, last_fetched_epoch=first)
    assert agreed.error_code == ErrorCode.NONE
    assert agreed.diverging_epoch is None
    assert agreed.records


def test_fe_8_a_partition_brings_no_more_than_it_may_but_the_first_one_a_whole_batch(cluster: Cluster) -> None:
    leader = cluster.leader()
    everything = fetched(cluster, leader, fetch_offset=0).records
    (_, first), (_, second) = iterate_headers(everything)
    assert len(everything) == first.size + second.size
    for max_bytes, size in ((len(everything), len(everything)), (len(everything) - 1, first.size), (1, first.size)):
        assert len(fetched(cluster, leader, fetch_offset=0, max_bytes=max_bytes).records) == size
    for bound in (0, -1, -(1 << 31)):
        part = FetchPartition(TOPIC, 0, 0, 1 << 20)
        response = cluster.call(leader, FetchRequest((part,), max_wait_ms=1, max_bytes=bound))
        assert isinstance(response, FetchResponse)
        assert len(response.partitions[0].records) == first.size
