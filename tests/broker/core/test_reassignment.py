"""Moving replicas, changing min ISR, adding partitions, deleting records (§15, §16)."""

from __future__ import annotations

import pytest

from broker.core.controller.placement import place, spread
from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ConfigOperation,
    ConfigResource,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    NewPartitions,
    NewTopic,
    Reassignment,
)
from broker.core.messages.errors import ErrorCode
from tests.support.cluster import TOPIC, Cluster


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=4)
    cluster.create_topic()
    return cluster


def _reassign(cluster: Cluster, replicas: tuple[int, ...] | None) -> int:
    request = AlterPartitionReassignmentsRequest((Reassignment(TOPIC, 0, replicas),))
    response = cluster.call(1, request)
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    return response.results[0].error_code


def test_a_reassignment_moves_the_data_and_raises_the_leader_epoch(cluster: Cluster) -> None:
    assert cluster.produce(cluster.leader(), 1, 2, 3) == ErrorCode.NONE
    epoch = cluster.view()["leader_epoch"]
    target = (2, 3, 4)
    assert _reassign(cluster, target) == ErrorCode.NONE
    cluster.run_until(lambda: cluster.view()["replicas"] == [2, 3, 4])
    cluster.run_until(cluster.is_whole)
    assert cluster.view()["leader_epoch"] > epoch  # type: ignore[operator]
    assert cluster.read(cluster.leader()) == [1, 2, 3]
    assert cluster.replica(1) == {}


def test_a_client_may_forbid_a_change_of_the_replication_factor(cluster: Cluster) -> None:
    def ask(replicas: tuple[int, ...] | None) -> int:
        request = AlterPartitionReassignmentsRequest(
            (Reassignment(TOPIC, 0, replicas),), allow_replication_factor_change=False
        )
        return cluster.call(1, request).results[0].error_code  # type: ignore[union-attr, return-value]

    before = cluster.view()["replicas"]
    assert ask((1, 2)) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert ask((1, 2, 3, 4)) == ErrorCode.INVALID_REPLICATION_FACTOR
    cluster.run(1000)
    assert cluster.view()["replicas"] == before
    cluster.kill(4)
    assert ask((1, 2, 4)) == ErrorCode.NONE
    cluster.run(1000)
    assert ask((2, 3, 4)) == ErrorCode.NONE  # the factor counts without those that are being removed
    assert ask(None) == ErrorCode.NONE


def test_a_reassignment_to_a_dead_broker_waits_and_can_be_cancelled(cluster: Cluster) -> None:
    before = cluster.view()["replicas"]
    cluster.kill(4)
    assert _reassign(cluster, (1, 2, 4)) == ErrorCode.NONE
    cluster.run(2000)
    assert cluster.view()["replicas"] == [1, 2, 4, 3]
    assert _reassign(cluster, None) == ErrorCode.NONE
    assert sorted(cluster.view()["replicas"]) == sorted(before)  # type: ignore[call-overload]
    assert _reassign(cluster, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_the_leader_epoch_rises_when_a_replica_that_was_to_be_added_is_given_up(cluster: Cluster) -> None:
    cluster.kill(4)
    assert _reassign(cluster, (1, 2, 4)) == ErrorCode.NONE
    epoch = cluster.view()["leader_epoch"]
    assert _reassign(cluster, (2, 1, 4)) == ErrorCode.NONE
    assert cluster.view()["leader_epoch"] == epoch, "no replica has left"
    assert _reassign(cluster, None) == ErrorCode.NONE
    assert cluster.view()["leader_epoch"] == epoch + 1  # type: ignore[operator]


def test_a_replica_that_hears_late_of_having_been_given_up_does_not_join_the_isr_and_delete_its_log() -> None:
    cluster = Cluster(brokers=4, metadata_fetch_max_bytes=1)  # it receives one change at a time
    cluster.create_topic()
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE
    cluster.isolate(4)
    for target in ((1, 2, 3, 4), None, (1, 2, 3, 4)):
        assert _reassign(cluster, target) == ErrorCode.NONE
    cluster.heal()
    joined = 0
    for _ in range(2_000):
        cluster.run(1)
        member = 4 in cluster.view()["isr"]  # type: ignore[operator]
        joined += member
        assert not member or cluster.replica(4).get("log_end") == 1
    assert joined


def test_a_reassignment_to_no_broker_or_to_unknown_brokers_is_refused(cluster: Cluster) -> None:
    for target in ((), (1, 1), (1, 9)):
        assert _reassign(cluster, target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def _set_min_isr(cluster: Cluster, kind: int, name: str, min_isr: int) -> None:
    operation = ConfigOperation("min.insync.replicas", 0, str(min_isr))
    alive = next(number for number in (1, 2, 3, 4) if cluster.machines[number].node is not None)
    response = cluster.call(alive, IncrementalAlterConfigsRequest((ConfigResource(kind, name, (operation,)),)))
    assert isinstance(response, IncrementalAlterConfigsResponse)
    assert response.results[0].error_code == ErrorCode.NONE


def _alone_in_the_isr(cluster: Cluster) -> int:
    """The leader; another replica is eligible."""
    leader = cluster.leader()
    for number in cluster.view()["replicas"]:  # type: ignore[attr-defined]
        if number != leader:
            cluster.kill(number)
    cluster.run_until(lambda: cluster.view()["isr"] == [leader] and bool(cluster.view()["elr"]))
    return leader


def test_a_min_isr_that_stays_the_same_for_a_topic_leaves_its_elr_alone(cluster: Cluster) -> None:
    _alone_in_the_isr(cluster)
    before = cluster.view()
    _set_min_isr(cluster, 2, TOPIC, 2)  # as it was
    _set_min_isr(cluster, 4, "", 1)  # for topics without one of their own
    assert cluster.view() == before


def test_changing_min_isr_empties_the_elr(cluster: Cluster) -> None:
    leader = _alone_in_the_isr(cluster)
    _set_min_isr(cluster, 2, TOPIC, 1)
    assert cluster.view()["elr"] == []
    assert cluster.produce(leader, 1) == ErrorCode.NONE


def test_partitions_can_be_added_and_written_to(cluster: Cluster) -> None:
    response = cluster.call(1, CreatePartitionsRequest((NewPartitions(TOPIC, 3),)))
    assert isinstance(response, CreatePartitionsResponse)
    assert response.results[0].error_code == ErrorCode.NONE
    cluster.run_until(lambda: bool(cluster.replica(cluster.leader(2), 2)))
    assert cluster.produce(cluster.leader(2), 5, partition=2) == ErrorCode.NONE


def test_deleted_records_are_gone_on_every_replica(cluster: Cluster) -> None:
    leader = cluster.leader()
    for value in range(5):
        assert cluster.produce(leader, value) == ErrorCode.NONE
    response = cluster.call(leader, DeleteRecordsRequest((DeleteRecordsPartition(TOPIC, 0, 3),)))
    assert isinstance(response, DeleteRecordsResponse)
    assert response.partitions[0].low_watermark == 3
    cluster.run_until(lambda: all(cluster.replica(n)["log_start"] == 3 for n in cluster.view()["replicas"]))  # type: ignore[attr-defined]
    beyond = cluster.call(leader, DeleteRecordsRequest((DeleteRecordsPartition(TOPIC, 0, 6),)))
    assert isinstance(beyond, DeleteRecordsResponse)
    assert beyond.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_elr_can_be_described_page_by_page(cluster: Cluster) -> None:
    first = cluster.call(1, DescribeTopicPartitionsRequest((), partition_limit=1))
    assert isinstance(first, DescribeTopicPartitionsResponse)
    assert [topic.name for topic in first.topics] == [TOPIC]
    assert first.topics[0].partitions[0].elr == ()


def test_a_page_has_no_more_partitions_than_were_asked_for_of_all_topics_together(cluster: Cluster) -> None:
    cluster.call(1, CreateTopicsRequest((NewTopic("many", 3, 3), NewTopic("more", 2, 3))))
    cluster.run(500)
    pages: list[list[tuple[str, int]]] = []
    cursor: tuple[str, int] | None = ("", 0)
    while cursor is not None:
        page = cluster.call(1, DescribeTopicPartitionsRequest((), 2, cursor))
        assert isinstance(page, DescribeTopicPartitionsResponse)
        pages.append([(topic.name, partition.partition) for topic in page.topics for partition in topic.partitions])
        cursor = page.next_cursor
    assert pages == [[(TOPIC, 0), ("many", 0)], [("many", 1), ("many", 2)], [("more", 0), ("more", 1)]]


def test_replicas_of_a_failed_leader_s_partitions_are_spread_over_all_others() -> None:
    placed = place([(number, None) for number in range(5)], 40, 2)
    second = [replicas[1] for _, replicas in placed if replicas[0] == 0]
    assert {second.count(number) for number in (1, 2, 3, 4)} == {2}


def test_replicas_lie_in_different_racks_where_there_are_enough() -> None:
    brokers = [(number, f"rack{number % 3}") for number in range(7)]
    for _, replicas in place(brokers, 30, 3):
        assert len({number % 3 for number in replicas}) == 3


def test_adding_a_broker_moves_no_more_replicas_than_its_share() -> None:
    before = {("t", number): replicas for number, replicas in place([(n, None) for n in (1, 2, 3)], 12, 2)}
    moves = spread(before, (1, 2, 3, 4))
    changed = sum(len(set(before[key]) - set(replicas)) for key, replicas in moves.items())
    after = {**before, **moves}
    load = [sum(number in replicas for replicas in after.values()) for number in (1, 2, 3, 4)]
    assert load == [6, 6, 6, 6]
    assert changed == 6


# --- balanced leaders ------------------------------------------------------------------------------------------------


def _led_by_another(**settings: object) -> Cluster:
    """The preferred replica has crashed and is back in sync; another leads."""
    cluster = Cluster(brokers=3, **settings)  # type: ignore[arg-type]
    cluster.create_topic()
    preferred = cluster.leader()
    cluster.kill(preferred)
    cluster.run_until(lambda: cluster.leader() not in (preferred, -1))
    cluster.start(preferred)
    cluster.run_until(cluster.is_whole)
    assert cluster.leader() != preferred
    return cluster


def test_the_preferred_replica_leads_again_after_a_while() -> None:
    cluster = _led_by_another(leader_imbalance_check_interval_ms=30_000)
    cluster.run_until(lambda: cluster.leader() == cluster.view()["replicas"][0], 31_000)  # type: ignore[index]
    cluster.run_until(lambda: cluster.replica(cluster.leader())["role"] == "leader")
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE


def test_no_leader_moves_where_balancing_is_switched_off() -> None:
    cluster = _led_by_another(leader_imbalance_check_interval_ms=5_000, auto_leader_rebalance_enable=False)
    leader = cluster.leader()
    cluster.run(20_000)
    assert cluster.leader() == leader


@pytest.mark.parametrize("follower", [-1, 4], ids=["consumer", "follower"])
def test_a_fetch_that_waits_is_answered_when_the_replica_is_removed(cluster: Cluster, follower: int) -> None:
    """RT-8: not at its deadline, when another replica of that name may be there."""
    assert cluster.leader() == 1
    part = FetchPartition(TOPIC, 0, 0, 1 << 20)
    if follower >= 0:
        assert _reassign(cluster, (1, 2, 3, 4)) == ErrorCode.NONE
        cluster.run_until(lambda: cluster.view()["isr"] == [1, 2, 3, 4])
    fetch = cluster.ask(1, FetchRequest((part,), replica_id=follower, max_wait_ms=15_000))
    assert _reassign(cluster, (2, 3, 4)) == ErrorCode.NONE
    cluster.run_until(lambda: cluster.replica(1) == {})
    cluster.run(10)
    answer = cluster.answers[fetch]
    assert isinstance(answer, FetchResponse)
    assert answer.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_that_waits_is_answered_when_the_topic_is_deleted(cluster: Cluster) -> None:
    fetch = cluster.ask(1, FetchRequest((FetchPartition(TOPIC, 0, 0, 1 << 20),), max_wait_ms=15_000))
    cluster.call(1, DeleteTopicsRequest(((TOPIC, ""),)))
    cluster.run_until(lambda: cluster.replica(1) == {})
    cluster.run(10)
    answer = cluster.answers[fetch]
    assert isinstance(answer, FetchResponse)
    assert answer.partitions[0].error_code in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
