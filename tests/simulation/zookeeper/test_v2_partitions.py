"""The second design's partitions: how they are created, moved, deleted, and given up when a session ends."""

from __future__ import annotations

import pytest

from broker.core.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    NewPartitions,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import Create
from broker.zookeeper import paths
from broker.zookeeper.choices import (
    C3,
    DELETION_NEEDS_LEADER,
    KEEPS_REASSIGNMENT,
    LEADS_ON_AFTER_EXPIRY,
    REFUSES_UNPUBLISHED,
    V1,
    V2,
)
from broker.zookeeper.requests.deletion import CLOSED_BY_LEADER
from simulation.zookeeper.ensemble import ENSEMBLE
from simulation.zookeeper.views import hosted_by, isr_of, leader_of
from tests.support.zookeeper_stage import KEY, TOPIC, Stage

LATE = ("late", 0)


# --- create ----------------------------------------------------------------------------------------------------------


def test_a_partition_is_published_once_its_replicas_have_started() -> None:
    stage = Stage(3, generation=V2)
    stage.cluster.pause(3)
    number = stage.send(1, stage.creation("late", (1, 3), 8_000))
    stage.run(1_500)
    assert stage.data(paths.replicas(LATE)) is None
    assert stage.data(paths.reassigned(LATE)) == b"1,3"
    stage.cluster.resume(3)
    assert stage.created(number) == ErrorCode.NONE
    assert stage.data(paths.replicas(LATE)) == b"1,3"
    assert stage.data(paths.reassigned(LATE)) is None
    stage.until(lambda: leader_of(stage.ensemble.tree, LATE) == 1)


def test_what_a_failed_creation_leaves_is_cleaned_up_by_the_next() -> None:
    stage = Stage(3, generation=V2)
    stage.cluster.pause(3)
    assert stage.create("late", (3, 2), 1_000) == ErrorCode.REQUEST_TIMED_OUT
    assert stage.data(paths.reassigned(LATE)) == b"3,2"
    assert stage.data(paths.replicas(LATE)) is None
    assert hosted_by(stage.cluster, 2, LATE) is not None
    stage.cluster.resume(3)
    stage.run(1_000)
    assert stage.create("late", (1, 3)) == ErrorCode.NONE
    assert stage.data(paths.replicas(LATE)) == b"1,3"
    stage.until(lambda: hosted_by(stage.cluster, 2, LATE) is None and not stage.has_log(2, "late"))
    stage.until(lambda: hosted_by(stage.cluster, 3, LATE) is not None)


def test_a_topic_with_a_live_partition_is_not_cleaned_up() -> None:
    stage = Stage(3, generation=V2, assigned=(1, 2))
    stage.reassign(1, 3)
    assert stage.create(TOPIC, (2, 3)) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert stage.data(paths.replicas(KEY)) == b"1,2"
    assert stage.data(paths.reassigned(KEY)) == b"1,3"


def test_a_replica_that_starts_only_once_it_is_published_never_does() -> None:
    """Q15, Z-17: the text creates the list of replicas after all of them have started."""
    stage = Stage(2, generation=V2)
    for machine in stage.cluster.machines.values():
        machine.node.state.choices = frozenset({REFUSES_UNPUBLISHED})  # type: ignore[union-attr]
    assert stage.create("late", (1, 2)) == ErrorCode.NONE
    stage.run(20_000)
    assert leader_of(stage.ensemble.tree, LATE) is None
    assert stage.lines("NotReplicaForPartition: topic late partition 0") == 2


def test_partitions_are_added_to_a_topic() -> None:
    stage = Stage(2, generation=V2)
    response = stage.ask(1, CreatePartitionsRequest((NewPartitions(TOPIC, 3), NewPartitions("none", 2)), 5_000))
    assert isinstance(response, CreatePartitionsResponse)
    assert [one.error_code for one in response.results] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert sorted(stage.children(paths.topic(TOPIC))) == ["0", "1", "2"]
    stage.until(lambda: leader_of(stage.ensemble.tree, (TOPIC, 1)) == 2)


# --- delete ----------------------------------------------------------------------------------------------------------


def test_a_partition_is_deleted_by_its_leader_and_its_name_can_be_used_again() -> None:
    stage = Stage(2, generation=V2)
    stage.produce(1, 0)
    stage.run(1_000)
    assert stage.delete(TOPIC) == ErrorCode.NONE
    assert stage.lines("leader, broker id 1, requested close-replica") == 2
    assert stage.cluster.marks[CLOSED_BY_LEADER.name] == 1
    assert stage.data(paths.topic(TOPIC)) is None
    assert stage.data(paths.reassigned(KEY)) is None
    assert not any(stage.has_log(broker) for broker in (1, 2))
    assert stage.create(TOPIC, (2, 1)) == ErrorCode.NONE
    stage.until(lambda: stage.leader == 2)
    assert stage.data(paths.insync(KEY)) == b"2,1;1"
    assert stage.produce(2, 1) == 0
    assert stage.watch.violation is None, "what the deleted topic had is not missed"


@pytest.mark.parametrize(
    ("switches", "error"), [((), ErrorCode.NONE), ((DELETION_NEEDS_LEADER,), ErrorCode.REQUEST_TIMED_OUT)]
)
def test_a_partition_whose_replicas_are_down_is_deleted_and_they_hear_of_it_later(
    switches: tuple[str, ...], error: ErrorCode
) -> None:
    """Q19: nobody leads it."""
    stage = Stage(3, switches, generation=V2, assigned=(2, 3))
    stage.produce(2, 0)
    for broker in (2, 3):
        stage.cluster.kill(broker)
    stage.until(lambda: not stage.data(paths.broker(2)) and not stage.data(paths.broker(3)))
    assert stage.delete(TOPIC) == error
    assert (stage.data(paths.partition(KEY)) is None) == (error == ErrorCode.NONE)
    if not switches:
        assert stage.has_log(2)
        stage.cluster.start(2)
        stage.until(lambda: stage.data(paths.broker(2)) is not None)
        assert not stage.has_log(2)


def test_a_topic_that_is_not_there_is_not_deleted() -> None:
    assert Stage(2, generation=V2).delete("none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- move ------------------------------------------------------------------------------------------------------------


def moved(switches: tuple[str, ...], first: int) -> Stage:
    """A partition that moves from brokers 1 and 2 to these and 3: closed replicas first, with the second write."""
    stage = Stage(3, switches, generation=V2, assigned=(1, 2), lag_ms=2_000)
    stage.produce(1, 0)
    stage.reassign(first, 3)
    stage.until(lambda: stage.log(3) == [0])
    stage.produce(1, 1)
    assert stage.data(paths.replicas(KEY)) == b"1,2", "the first write after all have caught up has the others closed"
    assert stage.lines("leader, broker id 1, requested close-replica") == 1
    stage.until(lambda: hosted_by(stage.cluster, 3 - first, KEY) is None or first == 2)
    stage.run(1_000)
    return stage


@pytest.mark.parametrize(("switches", "left"), [((), None), ((KEEPS_REASSIGNMENT,), b"1,3")])
def test_a_leader_that_stays_moves_its_partition_in_two_steps(switches: tuple[str, ...], left: bytes | None) -> None:
    """Q18: whether the request is deleted although leadership does not end."""
    stage = moved(switches, 1)
    assert isr_of(stage.ensemble.tree, KEY) == (1, 2, 3), "the closed replica is in the ISR still"
    assert stage.produce(1, 2) == 2
    assert stage.data(paths.replicas(KEY)) == b"1,3"
    assert set(isr_of(stage.ensemble.tree, KEY)) == {1, 3}
    assert stage.data(paths.reassigned(KEY)) == left
    assert stage.leader == 1
    assert stage.log(3) == [0, 1, 2]


def test_a_leader_that_goes_closes_itself_and_lets_the_new_replicas_elect() -> None:
    stage = Stage(3, generation=V2, assigned=(1, 2), lag_ms=2_000)
    stage.produce(1, 0)
    stage.reassign(2, 3)
    stage.until(lambda: stage.log(3) == [0])
    stage.produce(1, 1)
    number = stage.begin(1, 2)
    stage.until(lambda: stage.leader == 2)
    assert stage.produced(number).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved before it answers (Z-15)"
    stage.until(lambda: hosted_by(stage.cluster, 1, KEY) is None)
    assert stage.data(paths.replicas(KEY)) == b"2,3"
    assert stage.log(2) == [0, 1, 2]
    stage.until(lambda: stage.follows(3) == 2)
    assert stage.produce(2, 3) == 3


# --- the end of a session --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("switches", "leads_on"), [((), False), ((LEADS_ON_AFTER_EXPIRY,), True)])
def test_a_broker_whose_session_has_expired_leads_nothing(switches: tuple[str, ...], leads_on: bool) -> None:
    """Q14: at once, and not only when it reads that another leads."""
    stage = Stage(2, switches, generation=V2)
    stage.run(1_000)
    stage.ensemble.expire(1)
    stage.until(lambda: stage.lines("is expired") == 1, every_us=0)
    assert stage.replica(1).is_open == leads_on
    stage.until(lambda: stage.leader == 2)
    stage.until(lambda: stage.follows(1) == 2)


def test_a_connection_that_is_back_in_time_finds_out_what_it_has_missed() -> None:
    """The loss of the connection takes all watches; broker 2 hears by the queue and the znode what has changed."""
    stage = Stage(3, generation=V2)
    stage.run(1_000)
    stage.cut_from_ensemble(3)
    stage.until(lambda: stage.lines("is suspended") == 1)
    stage.cluster.pause(1)
    stage.ensemble.expire(1)
    stage.until(lambda: leader_of(stage.ensemble.tree, KEY) == 2)
    assert stage.follows(3) == 1
    stage.mend(3, ENSEMBLE)
    stage.until(lambda: stage.follows(3) == 2)
    assert stage.lines("is restored") == 1


# --- remove a broker -------------------------------------------------------------------------------------------------


def removed(stage: Stage, broker: int) -> UnregisterBrokerResponse:
    """Remove a broker for good, by broker 1."""
    response = stage.ask(1, UnregisterBrokerRequest(broker))
    assert isinstance(response, UnregisterBrokerResponse)
    return response


def test_a_broker_is_removed_with_its_queue_once_it_is_down_and_has_no_replicas() -> None:
    stage = Stage(4, generation=V2, assigned=(1, 2))
    stage.reassign(1, 3)
    assert removed(stage, 9) == (ErrorCode.BROKER_ID_NOT_REGISTERED, "there is no broker 9")
    assert removed(stage, 4) == (ErrorCode.INVALID_REQUEST, "broker 4 is live: stop it first")
    for broker in (2, 3, 4):
        stage.cluster.kill(broker)
    stage.until(lambda: not any(stage.data(paths.broker(broker)) for broker in (2, 3, 4)))
    for broker in (2, 3):  # one has a replica, the other is to have one
        refused = removed(stage, broker)
        assert refused == (ErrorCode.INVALID_REQUEST, f"broker {broker} has replicas of {TOPIC}: move them first")
    stage.ensemble.administer(Create(paths.request_prefix(4), b"close-replica gone 0 3 1", sequential=True))
    assert removed(stage, 4) == (ErrorCode.NONE, None)
    assert stage.data(paths.queue(4)) is None
    assert stage.data(paths.queue(3)) is not None


@pytest.mark.parametrize("generation", [V1, C3])
def test_other_designs_have_nothing_of_a_broker_to_remove(generation: str) -> None:
    expected = (ErrorCode.UNSUPPORTED_VERSION, f"brokers of {generation} are registered as long as they live")
    assert removed(Stage(1, generation=generation), 1) == expected


def test_a_removed_broker_that_comes_again_has_a_queue_again() -> None:
    stage = Stage(3, generation=V2, assigned=(1, 2))
    stage.cluster.kill(3)
    stage.until(lambda: not stage.data(paths.broker(3)))
    assert removed(stage, 3).error_code == ErrorCode.NONE
    stage.cluster.start(3)
    stage.until(lambda: stage.data(paths.broker(3)) is not None)
    assert stage.data(paths.queue(3)) is not None
