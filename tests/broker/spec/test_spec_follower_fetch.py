"""FE-13 and FE-14: consumers that name a rack read from a follower in it, and never above its high watermark."""

from __future__ import annotations

import random

import pytest

from broker.core.messages import (
    NO_PREFERRED_REPLICA,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DescribeClusterRequest,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
)
from broker.core.messages.errors import ErrorCode
from broker.core.records import decode_records, iterate_headers
from broker.core.rules.requests import FetchRules
from tests.support.cluster import TOPIC, Cluster

RACKS = {1: "a", 2: "b", 3: "c"}


def racked(selector: str = "rack-aware", **settings: object) -> Cluster:
    cluster = Cluster(racks=RACKS, replica_selector=selector, **settings)
    cluster.create_topic()
    assert cluster.produce(cluster.leader(), 1, 2, 3) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    return cluster


@pytest.fixture
def cluster() -> Cluster:
    return racked()


def followers(cluster: Cluster) -> tuple[int, int]:
    first, second = (one for one in (1, 2, 3) if one != cluster.leader())
    return first, second


def ask(cluster: Cluster, broker: int, rack: str, offset: int = 0, *, epoch: int = -1, wait_ms: int = 200) -> int:
    part = FetchPartition(TOPIC, 0, offset, 1 << 20, current_leader_epoch=epoch)
    return cluster.ask(broker, FetchRequest((part,), max_wait_ms=wait_ms, rack_id=rack), 11)


def answered(cluster: Cluster, asked: int) -> FetchedPartition:
    cluster.run_until(lambda: asked in cluster.answers)
    answer = cluster.answers[asked]
    assert isinstance(answer, FetchResponse)
    return answer.partitions[0]


def fetch(cluster: Cluster, broker: int, rack: str, offset: int = 0, **options: int) -> FetchedPartition:
    return answered(cluster, ask(cluster, broker, rack, offset, **options))


def values(part: FetchedPartition) -> list[int]:
    return [
        int.from_bytes(record.value or b"", "big")
        for position, _ in iterate_headers(part.records)
        for record in decode_records(part.records, position)
    ]


# --- the leader ------------------------------------------------------------------------------------------------------


def test_the_leader_sends_a_consumer_to_the_follower_in_its_rack_at_once_and_without_records(cluster):
    for follower in followers(cluster):
        asked = ask(cluster, cluster.leader(), RACKS[follower], wait_ms=5_000)
        assert asked in cluster.answers
        part = answered(cluster, asked)
        assert (part.error_code, part.preferred_read_replica, part.records) == (ErrorCode.NONE, follower, b"")


def test_a_consumer_at_the_end_of_the_log_is_sent_there_too(cluster):
    (follower, _) = followers(cluster)
    assert fetch(cluster, cluster.leader(), RACKS[follower], 3).preferred_read_replica == follower


def test_the_leader_serves_consumers_without_a_rack_of_its_own_and_of_one_without_brokers(cluster):
    leader = cluster.leader()
    for rack in ("", RACKS[leader], "elsewhere"):
        part = fetch(cluster, leader, rack)
        assert (part.preferred_read_replica, values(part)) == (NO_PREFERRED_REPLICA, [1, 2, 3])


def test_the_leader_serves_everybody_with_the_default_selector():
    cluster = racked("leader")
    part = fetch(cluster, cluster.leader(), RACKS[followers(cluster)[0]])
    assert (part.preferred_read_replica, values(part)) == (NO_PREFERRED_REPLICA, [1, 2, 3])


def test_nobody_is_sent_to_a_dead_follower(cluster):
    (follower, _) = followers(cluster)
    cluster.kill(follower)
    cluster.run_until(lambda: follower not in cluster.replica(cluster.leader())["isr"])
    part = fetch(cluster, cluster.leader(), RACKS[follower])
    assert (part.preferred_read_replica, values(part)) == (NO_PREFERRED_REPLICA, [1, 2, 3])


def test_nobody_is_sent_to_a_follower_that_lives_and_is_out_of_sync(cluster):
    (follower, _) = followers(cluster)
    leader = cluster.leader()
    cluster.held = lambda source, target, message: (source, target) == (leader, follower)
    cluster.produce(leader, 4)
    cluster.run_until(lambda: follower not in cluster.replica(leader)["isr"])
    assert cluster.machines[leader].node.state.image.is_active(follower)
    assert fetch(cluster, leader, RACKS[follower]).preferred_read_replica == NO_PREFERRED_REPLICA


def test_nobody_is_sent_to_a_follower_that_may_lack_the_offset(cluster):
    (follower, _) = followers(cluster)
    leader = cluster.leader()
    cluster.held = lambda source, target, message: (source, target) == (leader, follower)
    cluster.send(leader, 4, 5)
    cluster.run(20)
    assert follower in cluster.replica(leader)["isr"]
    assert fetch(cluster, leader, RACKS[follower], 3).preferred_read_replica == follower
    assert fetch(cluster, leader, RACKS[follower], 4).preferred_read_replica == NO_PREFERRED_REPLICA


def test_a_session_learns_of_its_replica_once_there_is_one(cluster):
    (follower, _) = followers(cluster)
    leader = cluster.leader()
    cluster.kill(follower)
    cluster.run_until(lambda: follower not in cluster.replica(leader)["isr"])
    part = FetchPartition(TOPIC, 0, 3, 1 << 20)
    opening = FetchRequest((part,), max_wait_ms=1, session_epoch=0, rack_id=RACKS[follower])
    first = cluster.call(leader, opening)
    cluster.start(follower)
    cluster.run_until(lambda: follower in cluster.replica(leader)["isr"])
    following = FetchRequest((), max_wait_ms=1, session_id=first.session_id, session_epoch=1, rack_id=RACKS[follower])
    (told,) = cluster.call(leader, following).partitions
    assert told.preferred_read_replica == follower


# --- the follower ----------------------------------------------------------------------------------------------------


def test_a_follower_serves_consumers_that_name_a_rack_whatever_its_own_selector():
    cluster = racked("leader")
    for follower in followers(cluster):
        part = fetch(cluster, follower, RACKS[follower])
        assert (part.error_code, part.high_watermark, values(part)) == (ErrorCode.NONE, 3, [1, 2, 3])
        assert part.preferred_read_replica == NO_PREFERRED_REPLICA


def test_a_follower_refuses_consumers_without_a_rack(cluster):
    part = fetch(cluster, followers(cluster)[0], "")
    assert (part.error_code, part.current_leader[0]) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, cluster.leader())


def test_a_follower_refuses_other_followers_whatever_they_name(cluster):
    first, second = followers(cluster)
    part = FetchPartition(TOPIC, 0, 0, 1 << 20, current_leader_epoch=cluster.view()["leader_epoch"])
    answer = cluster.call(first, FetchRequest((part,), replica_id=second, max_wait_ms=1, rack_id="b"))
    assert answer.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_fences_consumers_by_the_leader_epoch(cluster):
    (follower, _) = followers(cluster)
    epoch = cluster.replica(follower)["leader_epoch"]
    assert fetch(cluster, follower, "b", epoch=epoch).error_code == ErrorCode.NONE
    assert fetch(cluster, follower, "b", epoch=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    cluster.kill(cluster.leader())
    cluster.run_until(lambda: cluster.replica(follower)["leader_epoch"] > epoch)
    assert fetch(cluster, follower, "b", epoch=epoch).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_follower_shows_nothing_above_its_high_watermark(cluster):
    """The other follower is in sync and lags: what this one has already is not committed."""
    ahead, behind = followers(cluster)
    leader = cluster.leader()
    cluster.held = lambda source, target, message: (source, target) == (leader, behind)
    cluster.send(leader, 4)
    cluster.run_until(lambda: cluster.replica(ahead)["log_end"] == 4, 1_000)
    part = fetch(cluster, ahead, RACKS[ahead])
    assert (part.high_watermark, values(part)) == (3, [1, 2, 3])
    part = fetch(cluster, ahead, RACKS[ahead], 3)
    assert (part.error_code, part.high_watermark, values(part)) == (ErrorCode.NONE, 3, [])


def test_a_consumer_that_is_ahead_of_a_follower_waits_and_is_answered_when_the_records_come(cluster):
    (follower, _) = followers(cluster)
    asked = ask(cluster, follower, RACKS[follower], 4, wait_ms=5_000)
    cluster.run(100)
    assert asked not in cluster.answers
    began_ms = cluster.now_ms
    assert cluster.produce(cluster.leader(), 4, 5) == ErrorCode.NONE
    part = answered(cluster, asked)
    assert (part.error_code, values(part)[-1]) == (ErrorCode.NONE, 5)
    assert cluster.now_ms - began_ms < 500


def test_a_consumer_that_stays_ahead_of_a_follower_is_told_that_the_offset_is_not_available_yet(cluster):
    (follower, _) = followers(cluster)
    assert fetch(cluster, follower, RACKS[follower], 4).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert fetch(cluster, follower, RACKS[follower], 3).error_code == ErrorCode.NONE
    assert fetch(cluster, cluster.leader(), "", 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_offset_below_a_followers_log_is_out_of_range(cluster):
    leader = cluster.leader()
    cluster.call(leader, DeleteRecordsRequest((DeleteRecordsPartition(TOPIC, 0, 2),)))
    (follower, _) = followers(cluster)
    cluster.run_until(lambda: cluster.replica(follower)["log_start"] == 2)
    assert fetch(cluster, follower, RACKS[follower], 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values(fetch(cluster, follower, RACKS[follower], 2))[-1:] == [3]


def test_a_waiting_consumer_is_told_at_once_when_the_leader_changes(cluster):
    (follower, _) = followers(cluster)
    epoch = cluster.replica(follower)["leader_epoch"]
    asked = ask(cluster, follower, RACKS[follower], 3, epoch=epoch, wait_ms=30_000)
    cluster.kill(cluster.leader())
    assert answered(cluster, asked).error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("seed", range(6))
def test_what_followers_show_stays_in_the_log_through_elections(seed):
    """Every record that a consumer in a rack ever sees, through kills, is read from the leader at last."""
    draw = random.Random(seed)
    cluster = racked(seed=seed)
    seen: dict[int, int] = {}
    number = 10
    for _ in range(25):
        living = [one for one in (1, 2, 3) if cluster.machines[one].node is not None]
        leader = cluster.leader()
        if leader in living:
            number += 1
            cluster.send(leader, number)
        cluster.run(draw.randint(1, 60))
        reader = draw.choice(living)
        asked = ask(cluster, reader, "b", draw.randint(0, 3), wait_ms=10)
        cluster.run(15)
        if cluster.machines[reader].node is not None and asked in cluster.answers:
            (part,) = cluster.answers[asked].partitions
            for position, _header in iterate_headers(part.records):
                for record in decode_records(part.records, position):
                    value = int.from_bytes(record.value or b"", "big")
                    assert seen.setdefault(record.offset, value) == value
        if len(living) == 3 and draw.random() < 0.3:
            cluster.kill(draw.choice(living))
        for one in (1, 2, 3):
            if cluster.machines[one].node is None and draw.random() < 0.4:
                cluster.start(one)
    for one in (1, 2, 3):
        if cluster.machines[one].node is None:
            cluster.start(one)
    cluster.run_until(cluster.is_whole)
    final = dict(enumerate(cluster.read(cluster.leader())))
    assert seen
    assert {offset: final.get(offset) for offset in seen} == seen


# --- racks in answers ------------------------------------------------------------------------------------------------


def test_racks_are_told_to_clients(cluster):
    metadata = cluster.call(1, MetadataRequest(((TOPIC, ""),)))
    described = cluster.call(1, DescribeClusterRequest())
    assert {one.node_id: one.rack for one in metadata.brokers} == RACKS
    assert {one.node_id: one.rack for one in described.brokers} == RACKS


def test_a_replica_that_neither_leads_nor_follows_serves_nobody() -> None:
    rules = FetchRules()
    assert not rules.serves(by_follower=False, leads=False, follows=False, rack="a")
    assert rules.serves(by_follower=False, leads=False, follows=True, rack="a")
