"""Replication, elections and recovery of a small cluster, event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.broker_node import isr_changes
from broker.core.messages import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    ConfigOperation,
    ConfigResource,
    FetchRequest,
    FetchResponse,
    IncrementalAlterConfigsRequest,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import SetTimer, TimerFired
from broker.core.replica.state import PendingIsr
from tests.support.cluster import CONTROLLER, TOPIC, Cluster


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic()
    return cluster


def test_an_acknowledged_record_is_on_every_in_sync_replica(cluster: Cluster) -> None:
    assert cluster.produce(cluster.leader(), 7, 8) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    assert [cluster.replica(number)["log_end"] for number in (1, 2, 3)] == [2, 2, 2]
    assert cluster.read(cluster.leader()) == [7, 8]


def test_a_follower_refuses_to_be_written_to(cluster: Cluster) -> None:
    follower = next(number for number in (1, 2, 3) if number != cluster.leader())
    assert cluster.produce(follower, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_killed_leader_is_replaced_and_nothing_is_lost(cluster: Cluster) -> None:
    first = cluster.leader()
    assert cluster.produce(first, 1, 2, 3) == ErrorCode.NONE
    cluster.kill(first, lose_page_cache=True)
    cluster.run_until(lambda: cluster.leader() not in (first, -1))
    cluster.run_until(lambda: cluster.produce(cluster.leader(), 4) == ErrorCode.NONE)
    cluster.start(first)
    cluster.run_until(cluster.is_whole)
    assert cluster.read(cluster.leader()) == [1, 2, 3, 4]
    assert cluster.replica(first)["log_end"] == 4


def test_a_lagging_follower_leaves_the_isr_and_comes_back(cluster: Cluster) -> None:
    leader = cluster.leader()
    lagging = next(number for number in (1, 2, 3) if number != leader)
    cluster.held = lambda source, _, message: (
        source == lagging
        and isinstance(message, FetchRequest)
        and all(part.topic == "log" for part in message.partitions)
    )
    cluster.send(leader, 1)
    cluster.run_until(lambda: lagging not in cluster.view()["isr"])
    assert cluster.produce(leader, 2) == ErrorCode.NONE
    cluster.held = None
    cluster.run_until(cluster.is_whole)
    assert cluster.read(leader) == [1, 2]


def test_below_min_isr_nothing_is_acknowledged_and_the_high_watermark_stays(cluster: Cluster) -> None:
    leader = cluster.leader()
    for number in (1, 2, 3):
        if number != leader:
            cluster.kill(number)
    cluster.run_until(lambda: cluster.view()["isr"] == [leader])
    assert cluster.view()["elr"]
    cluster.run(500)
    assert cluster.produce(leader, 1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert cluster.produce(leader, 2, acks=1) == ErrorCode.NONE
    assert cluster.replica(leader)["high_watermark"] == 0


def test_the_last_replica_standing_loses_its_disk_and_nothing_acknowledged_is_lost(cluster: Cluster) -> None:
    leader = cluster.leader()
    others = [number for number in (1, 2, 3) if number != leader]
    assert cluster.produce(leader, 1, 2) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    for number in others:
        cluster.kill(number)
        cluster.run_until(lambda number=number: number not in cluster.view()["isr"])
    cluster.kill(leader, lose_page_cache=True)
    cluster.run_until(lambda: cluster.leader() == -1)
    for number in (leader, *others):
        cluster.start(number)
    cluster.run_until(cluster.is_whole)
    assert cluster.read(cluster.leader()) == [1, 2]


def test_a_deposed_leader_answers_its_waiting_producers_with_an_error(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.isolate(leader)
    waiting = cluster.send(leader, 9, timeout_ms=60_000)
    cluster.run_until(lambda: cluster.leader() not in (leader, -1))
    new_leader = cluster.leader()
    cluster.run_until(lambda: cluster.produce(new_leader, 10) == ErrorCode.NONE)
    cluster.heal()
    cluster.run_until(cluster.is_whole)
    assert cluster.error_of(waiting) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.read(cluster.leader()) == [10]


def test_pr_6_a_produce_that_is_not_replicated_in_time_is_answered_with_that(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.isolate(leader)
    waiting = cluster.send(leader, 9, timeout_ms=300)
    cluster.run(299)
    assert waiting not in cluster.answers
    cluster.run(1)
    assert cluster.error_of(waiting) == ErrorCode.REQUEST_TIMED_OUT
    assert cluster.produce(leader, 10, acks=1) == ErrorCode.NONE
    assert cluster.replica(leader)["role"] == "leader"


def test_a_controlled_stop_moves_leadership_away_and_keeps_the_epoch_clean(cluster: Cluster) -> None:
    leader = cluster.leader()
    assert cluster.produce(leader, 1) == ErrorCode.NONE
    cluster.stop(leader)
    cluster.run_until(lambda: cluster.machines[leader].node is None)
    assert "exit 0" in cluster.machines[leader].notes[-1]
    assert cluster.leader() not in (leader, -1)
    cluster.start(leader)
    cluster.run_until(cluster.is_whole)
    registrations = [note for note in cluster.machines[CONTROLLER].notes if f"broker {leader} registered" in note]
    assert "after a clean stop" in registrations[-1]


def test_a_lost_answer_to_an_isr_change_does_not_shrink_the_maximal_isr() -> None:
    """KAFKA-13916 and ISR-4: the change was applied, its response lost; the retry gets an error."""
    cluster = Cluster()
    cluster.create_topic()
    leader = cluster.leader()
    behind = next(number for number in (1, 2, 3) if number != leader)
    cluster.isolate(behind)
    cluster.run_until(lambda: behind not in cluster.view()["isr"])
    cluster.heal()
    lost: list[object] = []

    def lose_first_answer(source: int, to: int, message: object) -> bool:
        if isinstance(message, AlterPartitionResponse) and to == leader and not lost:
            lost.append(message)
            return True
        return False

    cluster.held = lose_first_answer
    cluster.run_until(lambda: bool(lost))
    assert behind in cluster.replica(leader)["maximal_isr"]
    cluster.run_until(cluster.is_whole)


def test_the_latest_offset_waits_for_the_high_watermark_after_an_election(cluster: Cluster) -> None:
    leader = cluster.leader()
    assert cluster.produce(leader, 1, 2, 3) == ErrorCode.NONE
    assert cluster.latest(leader) == (ErrorCode.NONE, 3)
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() not in (leader, -1))
    new_leader = cluster.leader()
    cluster.run_until(lambda: cluster.replica(new_leader)["role"] == "leader")
    error, offset = cluster.latest(new_leader)
    assert (error, offset) == (ErrorCode.NONE, 3) or error == ErrorCode.OFFSET_NOT_AVAILABLE
    cluster.run_until(lambda: cluster.latest(new_leader) == (ErrorCode.NONE, 3))


def test_all_replicas_lossy_recover_the_best_log_and_go_on(cluster: Cluster) -> None:
    """UR-4, Balanced: no replica is eligible; once all last known ones are back the longest log leads."""
    assert cluster.produce(cluster.leader(), 1, 2) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    for number in (1, 2, 3):
        cluster.kill(number, lose_page_cache=True)
    cluster.run_until(lambda: cluster.leader() == -1)
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run_until(cluster.is_whole)
    assert cluster.read(cluster.leader()) == []
    assert cluster.produce(cluster.leader(), 5) == ErrorCode.NONE


def test_fsync_on_every_write_survives_the_loss_of_all_page_caches() -> None:
    cluster = Cluster(log_flush_interval_messages=1)
    cluster.create_topic()
    assert cluster.produce(cluster.leader(), 1, 2) == ErrorCode.NONE
    for number in (1, 2, 3):
        cluster.kill(number, lose_page_cache=True)
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run_until(cluster.is_whole)
    assert cluster.read(cluster.leader()) == [1, 2]


def test_what_is_written_is_synced_once_the_flush_interval_has_passed_each_time_again() -> None:
    cluster = Cluster(log_flush_interval_ms=1_000)
    cluster.create_topic()
    for value in range(3):
        assert cluster.produce(cluster.leader(), value) == ErrorCode.NONE
        assert cluster.replica(cluster.leader())["flushed"] == value
        cluster.run(1_500)
        assert {cluster.replica(number)["flushed"] for number in (1, 2, 3)} == {value + 1}


def test_a_replica_that_waits_for_its_fsync_is_not_left_out_of_a_long_fetch() -> None:
    cluster = Cluster(log_flush_interval_messages=1, replica_fetch_wait_max_ms=30_000, request_timeout_ms=60_000)
    cluster.create_topic(partitions=6)
    leader = cluster.leader(0)
    assert any(cluster.leader(other) == leader for other in range(1, 6)), "a fetch for p0 alone is never held"
    for value in range(3):
        assert cluster.produce(leader, value) == ErrorCode.NONE


def test_acknowledging_before_replication_loses_the_record() -> None:
    cluster = Cluster(flaws=("ack-before-replication",))
    cluster.create_topic()
    leader = cluster.leader()
    cluster.isolate(leader)
    assert cluster.produce(leader, 1) == ErrorCode.NONE
    cluster.run_until(lambda: cluster.leader() not in (leader, -1))
    cluster.heal()
    cluster.run_until(cluster.is_whole)
    assert cluster.read(cluster.leader()) == []


def test_an_unclean_election_loses_the_record() -> None:
    cluster = Cluster(flaws=("unclean-election",))
    cluster.create_topic()
    leader = cluster.leader()
    out = next(number for number in (1, 2, 3) if number != leader)
    other = next(number for number in (1, 2, 3) if number not in (leader, out))
    cluster.isolate(out)
    cluster.run_until(lambda: out not in cluster.view()["isr"])
    assert cluster.produce(leader, 1) == ErrorCode.NONE
    cluster.kill(other)
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() == -1)
    cluster.heal()
    cluster.run_until(lambda: cluster.leader() == out)
    cluster.start(leader)
    cluster.start(other)
    cluster.run_until(cluster.is_whole)
    assert cluster.read(cluster.leader()) == []


def test_a_leader_that_has_not_heard_of_a_higher_min_isr_does_not_commit_past_the_elr() -> None:
    cluster = Cluster(replica_lag_time_max_ms=300)
    cluster.create_topic()
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    leader = cluster.leader()
    lagging, other = (number for number in (1, 2, 3) if number != leader)
    operation = ConfigOperation("min.insync.replicas", 0, "3")
    raised = IncrementalAlterConfigsRequest((ConfigResource(2, TOPIC, (operation,)),))
    cluster.held = lambda source, target, message: (
        (source, target) == (CONTROLLER, leader) and isinstance(message, FetchResponse)
    )
    cluster.isolate(lagging)
    cluster.call(other, raised)
    cluster.send(leader, 2, acks=1)
    cluster.run_until(lambda: lagging not in cluster.replica(leader)["isr"])  # type: ignore[operator]
    assert cluster.view()["elr"] == [lagging]
    cluster.run(100)
    assert cluster.replica(leader)["high_watermark"] == 1
    cluster.held = None
    cluster.heal()
    cluster.run_until(cluster.is_whole)
    assert cluster.replica(leader)["high_watermark"] == 2


def left_alone(cluster: Cluster) -> int:
    """Kill the followers; the leader, which is then the ISR, and has a record that only it acknowledged."""
    leader = cluster.leader()
    for number in (1, 2, 3):
        if number != leader:
            cluster.kill(number)
    cluster.run_until(lambda: cluster.replica(leader)["isr"] == [leader])
    cluster.send(leader, 1, acks=1)
    return leader


def test_a_lower_min_isr_lets_the_high_watermark_of_a_leader_that_is_alone_move() -> None:
    cluster = Cluster()
    cluster.create_topic()
    leader = left_alone(cluster)
    cluster.run(200)
    assert cluster.replica(leader)["high_watermark"] == 0
    operation = ConfigOperation("min.insync.replicas", 0, "1")
    cluster.call(leader, IncrementalAlterConfigsRequest((ConfigResource(2, TOPIC, (operation,)),)))
    cluster.run_until(lambda: cluster.replica(leader)["high_watermark"] == 1, 500)


def test_an_answer_to_a_change_of_the_isr_that_is_not_pending_changes_nothing(cluster: Cluster) -> None:
    """ISR-4: the answer may be that of a request which was given up; the ISR is what the metadata says."""
    cluster.run_until(cluster.is_whole)
    number = cluster.leader()
    state = cluster.machines[number].node.state  # type: ignore[union-attr]
    replica = state.replicas[TOPIC, 0]
    late = AlterPartitionPartition(TOPIC, 0, replica.leader_epoch, replica.partition_epoch, ((number, 1),))
    asked = AlterPartitionRequest(number, state.broker_epoch, (late,))
    answer = AlteredPartition(TOPIC, 0, 0, number, replica.leader_epoch, (number,), partition_epoch=99)
    for pending in (None, PendingIsr((number, 2), late._replace(partition_epoch=50))):
        replica.pending_isr = pending
        isr_changes.answered(state, replica.key, asked, AlterPartitionResponse(ErrorCode.NONE, (answer,)))
        assert (len(replica.isr), replica.pending_isr) == (3, pending)


def test_hw_4_a_replica_that_may_not_join_holds_the_high_watermark_back_no_more(cluster: Cluster) -> None:
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    number = cluster.leader()
    state = cluster.machines[number].node.state  # type: ignore[union-attr]
    replica = state.replicas[TOPIC, 0]
    member, joining = (one for one in (1, 2, 3) if one != number)
    replica.isr, replica.high_watermark, replica.remotes[joining].log_end = (number, member), 0, 0
    request = AlterPartitionPartition(TOPIC, 0, replica.leader_epoch, replica.partition_epoch, ((joining, 1),))
    replica.pending_isr = PendingIsr((1, 2, 3), request)
    asked = AlterPartitionRequest(number, state.broker_epoch, (request,))
    refused = AlteredPartition(TOPIC, 0, ErrorCode.INELIGIBLE_REPLICA)
    isr_changes.answered(state, replica.key, asked, AlterPartitionResponse(ErrorCode.NONE, (refused,)))
    assert (replica.pending_isr, replica.high_watermark) == (None, 1)


def test_hw_4_a_replica_that_does_not_lead_moves_no_high_watermark_of_its_own() -> None:
    """Only the last leader is left, and fenced: a lower min ISR makes its records committed once it leads again."""
    cluster = Cluster(generation="K3")
    cluster.create_topic()
    leader = left_alone(cluster)
    cluster.run(10)
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() == -1)
    cluster.held = lambda *passing: isinstance(passing[2], BrokerHeartbeatRequest)
    cluster.start(leader)
    replica = cluster.machines[leader].node.state.replicas[TOPIC, 0]  # type: ignore[union-attr]
    cluster.run_until(lambda: (replica.isr, replica.min_insync_replicas) == ((leader,), 2))
    operation = ConfigOperation("min.insync.replicas", 0, "1")
    cluster.call(CONTROLLER, IncrementalAlterConfigsRequest((ConfigResource(2, TOPIC, (operation,)),)))
    cluster.run_until(lambda: replica.min_insync_replicas == 1)
    seen = cluster.replica(leader)
    assert (seen["role"], seen["isr"], seen["log_end"], seen["high_watermark"]) == ("none", [leader], 1, 0)
    cluster.held = None
    cluster.run_until(lambda: cluster.replica(leader)["high_watermark"] == 1)
    assert cluster.replica(leader)["role"] == "leader"


def test_hw_4_a_min_isr_learnt_with_the_end_of_the_leadership_moves_no_high_watermark() -> None:
    """Settings and roles of one image count together, with settings of the log among them, too."""
    cluster = Cluster()
    cluster.create_topic(**{"min.insync.replicas": "3"})
    leader = cluster.leader()
    other, third = (number for number in cluster.view()["replicas"] if number != leader)  # type: ignore[attr-defined]
    cluster.kill(third)
    cluster.run_until(lambda: third not in cluster.replica(leader)["isr"])  # type: ignore[operator]
    cluster.send(leader, 1, acks=1)
    cluster.run_until(lambda: cluster.replica(other)["log_end"] == 1)
    cluster.held = lambda source, to, _: source == leader and to == CONTROLLER
    cluster.run_until(lambda: cluster.leader() == other)
    altered = {"min.insync.replicas": "2", "segment.bytes": "1048576"}
    operations = tuple(ConfigOperation(key, 0, value) for key, value in altered.items())
    cluster.call(other, IncrementalAlterConfigsRequest((ConfigResource(2, TOPIC, operations),)))
    cluster.held = None
    cluster.run_until(lambda: cluster.replica(leader)["role"] == "follower")
    deposed = f"log-0: follows {other} in epoch 1, log end 1, high watermark 0"
    assert any(deposed in note for note in cluster.machines[leader].notes)


@pytest.mark.parametrize(("lag_ms", "after_ms"), [(1_500, 750), (1, 1)])
def test_isr_s_followers_are_looked_at_twice_in_the_time_that_they_may_lag(
    cluster: Cluster, lag_ms: int, after_ms: int
) -> None:
    """But not twice in the same millisecond."""
    node = cluster.machines[1].node
    assert node is not None
    state = node.state  # type: ignore[attr-defined]
    state.settings = replace(state.settings, replica_lag_time_max_ms=lag_ms)
    effects = node.handle(cluster.now_ms, TimerFired((isr_changes.SHRINK,)))
    assert SetTimer((isr_changes.SHRINK,), cluster.now_ms + after_ms) in effects


def test_the_flaw_that_builds_a_request_late_sends_it_all_the_same() -> None:
    cluster = Cluster(flaws=("check-then-build",))
    cluster.create_topic()
    behind = next(number for number in (1, 2, 3) if number != cluster.leader())
    cluster.isolate(behind)
    cluster.run_until(lambda: behind not in cluster.view()["isr"])
    cluster.heal()
    cluster.run_until(cluster.is_whole)


def test_each_broker_says_in_a_line_whether_it_leads_or_follows(cluster: Cluster) -> None:
    leader = cluster.leader()
    for number in (1, 2, 3):
        role = "leads" if number == leader else f"follows {leader}"
        line = f"{TOPIC}-0: {role} in epoch 0, log end 0, high watermark 0, ISR {cluster.view()['isr']}"
        assert [note for note in cluster.machines[number].notes if note.endswith(line)]
