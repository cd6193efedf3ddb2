"""The second design's queues of state changes: what is in them, who carries it out, what becomes of a full one."""

from __future__ import annotations

import pytest

from broker.core.ports.coordination import Create
from broker.zookeeper import paths
from broker.zookeeper.choices import (
    EPOCH_WITH_LEADER,
    LEADER_STARTS_NOBODY,
    LOSER_FOLLOWS_NOBODY,
    REMOVES_REQUEST_FIRST,
    V2,
)
from broker.zookeeper.designs.v2 import queues, state_changes
from broker.zookeeper.designs.v2.queues import QUEUE_LENGTH_MAX, RequestKind, StateChange
from broker.zookeeper.paths import BadZnode
from simulation.zookeeper.views import hosted_by, leader_of
from tests.support.zookeeper_stage import KEY, Stage


def put(stage: Stage, to: int, *changes: StateChange) -> None:
    """Add requests to a queue, as if a leader had."""
    for change in changes:
        call = Create(paths.request_prefix(to), queues.encoded(change), sequential=True)
        assert stage.ensemble.administer(call).error is None


def queued(stage: Stage, broker: int) -> list[StateChange]:
    """What is in a broker's queue."""
    parent = paths.queue(broker)
    found = ((name, stage.data(f"{parent}/{name}")) for name in stage.children(parent))
    return [queues.decoded(data or b"", name) for name, data in found]


def start(epoch: int, number: int = 0) -> StateChange:
    return StateChange(RequestKind.START, ("log", number), epoch, 1)


def close(epoch: int, number: int = 0) -> StateChange:
    return StateChange(RequestKind.CLOSE, ("log", number), epoch, 1)


def test_the_whole_life_of_a_request_is_in_the_log() -> None:
    stage = Stage(2, generation=V2)
    for line in (
        "administrator, broker id 1, requested start-replica for topic log partition 0, to broker id 2, at epoch -1",
        "follower, broker id 2, received start-replica for topic log partition 0, from administrator 1, at epoch -1",
        "follower, broker id 2, completed start-replica for topic log partition 0, request from administrator 1",
        "leader, broker id 1, requested start-replica for topic log partition 0, to broker id 2, at epoch 1",
    ):
        assert stage.lines(line) == 1
    stage.until(lambda: stage.lines("completed start-replica for topic log partition 0, request from leader 1") == 1)
    stage.run(100)
    assert stage.children(paths.queue(1)) == stage.children(paths.queue(2)) == ()
    assert stage.cluster.machines[2].node.describe()["queued_requests"] == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("change", [start(3), close(-1, 12)])
def test_a_request_is_read_as_it_was_written(change: StateChange) -> None:
    assert queues.decoded(queues.encoded(change), "/q") == change


@pytest.mark.parametrize("data", [b"", b"stop-replica log 0 1 1", b"start-replica log x 1 1", b"start-replica log 0"])
def test_a_request_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(BadZnode, match="start-replica or close-replica with topic, partition, epoch and broker id"):
        queues.decoded(data, "/q")


@pytest.mark.parametrize(("epoch", "ignored"), [(1, 1), (2, 0)])
def test_a_start_of_an_earlier_leader_is_ignored(epoch: int, ignored: int) -> None:
    stage = Stage(2, generation=V2)
    stage.ensemble.expire(1)
    stage.until(lambda: stage.leader == 2 and stage.follows(1) == 2)
    assert stage.data(paths.insync(KEY)) == b"2;2"
    put(stage, 1, start(epoch))
    stage.until(lambda: not stage.children(paths.queue(1)))
    assert stage.lines("is ignored: it is 2") == stage.cluster.marks.get(state_changes.STALE.name, 0) == ignored


def test_a_close_of_an_earlier_leader_is_obeyed() -> None:
    """Z-08: so that deletion reaches a broker that was dead meanwhile."""
    stage = Stage(2, generation=V2)
    stage.ensemble.expire(1)
    stage.until(lambda: stage.leader == 2 and stage.follows(1) == 2)
    put(stage, 1, close(1))
    stage.until(lambda: hosted_by(stage.cluster, 1, KEY) is None)
    assert stage.cluster.marks[state_changes.CLOSED_STALE.name] == 1


def test_a_close_of_a_replica_that_is_not_there_does_nothing() -> None:
    stage = Stage(2, generation=V2)
    put(stage, 2, close(1, 7))
    stage.until(lambda: not stage.children(paths.queue(2)))
    assert stage.cluster.marks[state_changes.NOTHING_TO_CLOSE.name] == 1
    assert stage.follows(2) == 1


def test_a_start_of_a_replica_that_is_not_assigned_is_refused() -> None:
    stage = Stage(3, generation=V2, assigned=(1, 2))
    put(stage, 3, start(1))
    stage.until(lambda: not stage.children(paths.queue(3)))
    assert stage.lines("NotReplicaForPartition: topic log partition 0") == 1
    assert hosted_by(stage.cluster, 3, KEY) is None


@pytest.mark.parametrize(("switches", "closes_again"), [((), True), ((REMOVES_REQUEST_FIRST,), False)])
def test_a_request_is_removed_once_it_was_carried_out(switches: tuple[str, ...], closes_again: bool) -> None:
    """Q13: broker 2 dies between receiving and carrying out."""
    stage = Stage(2, switches, generation=V2)
    stage.run(1_000)
    put(stage, 2, close(1))
    stage.until(lambda: stage.lines("broker id 2, received close-replica") == 1, every_us=0)
    if switches:
        stage.until(lambda: not stage.children(paths.queue(2)), every_us=0)
    stage.cluster.kill(2)
    assert stage.lines("broker id 2, completed close-replica") == 0
    stage.cluster.start(2)
    stage.until(lambda: stage.follows(2) == 1)
    assert (stage.lines("broker id 2, completed close-replica") == 1) == closes_again


def test_a_broker_that_starts_drains_its_queue_first_and_is_announced_last() -> None:
    stage = Stage(2, generation=V2)
    stage.produce(1, 0)
    stage.cluster.kill(2)
    stage.until(lambda: stage.data(paths.broker(2)) is None)
    put(stage, 2, close(1))
    stage.cluster.start(2)
    stage.until(lambda: hosted_by(stage.cluster, 2, KEY) is not None, every_us=0)
    assert stage.lines("broker id 2, completed close-replica") == 1
    assert stage.log(2) == [], "what it had is deleted, and it starts again, because it is assigned"
    assert stage.data(paths.broker(2)) is None
    stage.until(lambda: stage.follows(2) == 1, every_us=0)
    assert stage.data(paths.broker(2)) is None
    stage.until(lambda: stage.data(paths.broker(2)) is not None)


def test_a_full_queue_keeps_the_last_close_of_each_partition_and_no_start() -> None:
    stage = Stage(3, generation=V2, assigned=(1, 2))
    stage.produce(1, 0)
    stage.cluster.kill(3)
    put(stage, 3, close(4, 1), close(2, 1), close(3, 2), *(start(1, number) for number in range(3, QUEUE_LENGTH_MAX)))
    assert len(queued(stage, 3)) == QUEUE_LENGTH_MAX
    stage.reassign(1, 2, 3)
    stage.until(lambda: queued(stage, 3)[-1] == start(1))
    assert queued(stage, 3) == [close(4, 1), close(3, 2), start(1)]
    assert stage.cluster.marks[queues.SHRUNK.name] == 1


def test_a_queue_that_stays_full_takes_no_request() -> None:
    stage = Stage(3, generation=V2, assigned=(1, 2))
    stage.cluster.kill(3)
    closes = [close(1, number) for number in range(1, QUEUE_LENGTH_MAX + 1)]
    put(stage, 3, *closes)
    stage.reassign(1, 2, 3)
    stage.until(lambda: stage.lines("FollowerStateChangeQueueFull: broker id 3") == 1)
    assert queued(stage, 3) == closes


def test_a_request_to_a_broker_without_a_queue_is_lost_with_one_line() -> None:
    stage = Stage(2, generation=V2)
    stage.produce(1, 0)
    stage.reassign(1, 2, 9)
    stage.until(lambda: stage.lines("no queue for broker id 9: start-replica for topic log partition 0 is lost") == 1)


def test_a_queue_with_garbage_ends_the_broker_with_the_status_of_wrong_input() -> None:
    stage = Stage(2, generation=V2)
    stage.ensemble.administer(Create(paths.request_prefix(2), b"garbage", sequential=True))
    stage.until(lambda: stage.cluster.machines[2].exit_status == 2)


@pytest.mark.parametrize(("switches", "requests"), [((), 2), ((LEADER_STARTS_NOBODY,), 0)])
def test_a_new_leader_tells_the_live_replicas_to_start(switches: tuple[str, ...], requests: int) -> None:
    """Q17."""
    stage = Stage(3, switches, generation=V2)
    stage.run(1_000)
    assert stage.lines("leader, broker id 1, requested start-replica") == requests


@pytest.mark.parametrize(("switches", "before"), [((), True), ((LOSER_FOLLOWS_NOBODY,), False)])
def test_who_loses_an_election_follows_the_winner(switches: tuple[str, ...], before: bool) -> None:
    """Q16: without that it waits for the request of a leader that waits for its followers, for `KeepInSyncTime`."""
    stage = Stage(3, switches, generation=V2, lag_ms=2_000)
    stage.run(3_000)
    stage.cluster.kill(1)
    stage.until(lambda: leader_of(stage.ensemble.tree, KEY) in (2, 3))
    leader = leader_of(stage.ensemble.tree, KEY) or 0
    other = 5 - leader
    stage.run(1_000)
    assert (stage.follows(other) == leader) == before
    stage.until(lambda: stage.follows(other) == leader)
    stage.run(2_000)
    received = f"broker id {other}, received start-replica for topic log partition 0, from leader {leader}"
    assert stage.lines(received) == 1


@pytest.mark.parametrize(("switches", "leader", "counter"), [((), b"2", None), ((EPOCH_WITH_LEADER,), b"2,2", b"2")])
def test_epochs_grow_with_every_leader(switches: tuple[str, ...], leader: bytes, counter: bytes | None) -> None:
    """Q20: where they are kept."""
    stage = Stage(2, switches, generation=V2)
    stage.ensemble.expire(1)
    stage.until(lambda: stage.leader == 2)
    assert stage.replica(2).epoch == 2
    assert stage.data(paths.insync(KEY)) == b"2;2"
    assert stage.data(paths.leader(KEY)) == leader
    assert stage.data(paths.EPOCH) == counter
