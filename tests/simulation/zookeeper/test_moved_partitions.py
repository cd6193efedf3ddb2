"""An administrator has partitions moved to other replicas, in the two designs without a controller."""

from __future__ import annotations

import pytest

from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
    Reassignment,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import Create, Delete
from broker.zookeeper import paths
from broker.zookeeper.choices import C3, LEADER_RACES, V1, V2
from simulation.zookeeper.views import hosted_by, isr_of, leader_of
from tests.support.zookeeper_stage import KEY, TOPIC, Stage

both = pytest.mark.parametrize("generation", LEADER_RACES)


def move(
    stage: Stage, *replicas: int, topic: str = TOPIC, may_resize: bool = True, to: int = 1
) -> tuple[int, str | None]:
    """Ask a broker for other replicas; the error of that, and what is said of it."""
    wanted = Reassignment(topic, 0, replicas)
    response = stage.ask(to, AlterPartitionReassignmentsRequest((wanted,), allow_replication_factor_change=may_resize))
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    assert response.error_code == ErrorCode.NONE
    return response.results[0].error_code, response.results[0].error_message


def under_way(stage: Stage, *partitions: tuple[str, int]) -> tuple[OngoingReassignment, ...]:
    """What is being moved, of these partitions or of all."""
    response = stage.ask(2, ListPartitionReassignmentsRequest(partitions or None))
    assert isinstance(response, ListPartitionReassignmentsResponse)
    assert response.error_code == ErrorCode.NONE
    return response.reassignments


@both
@pytest.mark.parametrize("replicas", [(1, 3), (2, 3), (3, 1), (3,), (1, 2, 3)])
def test_a_partition_moves_though_nobody_writes_to_it(generation: str, replicas: tuple[int, ...]) -> None:
    stage = Stage(3, generation=generation, assigned=(1, 2), lag_ms=1_000)
    stage.produce(1, 0, 1)
    assert move(stage, *replicas, to=2) == (ErrorCode.NONE, None)
    stage.until(lambda: stage.leader == replicas[0] and stage.data(paths.replicas(KEY)) == paths.encoded(replicas))
    stage.until(lambda: not under_way(stage))
    assert stage.produce(replicas[0], 2) == 2
    stage.until(lambda: set(isr_of(stage.ensemble.tree, KEY)) == set(replicas))
    stage.until(lambda: {one for one in (1, 2, 3) if hosted_by(stage.cluster, one, KEY)} == set(replicas))
    assert {one: stage.log(one) for one in replicas} == {one: [0, 1, 2] for one in replicas}
    assert stage.watch.violation is None


@both
def test_a_request_is_there_until_the_partition_has_moved(generation: str) -> None:
    stage = Stage(4, generation=generation, assigned=(1, 2))
    stage.cluster.pause(3)
    assert move(stage, 3, 1) == (ErrorCode.NONE, None)
    ongoing = (OngoingReassignment(TOPIC, 0, (3, 1, 2), (3,), (2,)),)
    assert under_way(stage) == under_way(stage, KEY) == ongoing
    assert under_way(stage, (TOPIC, 1), ("none", 0)) == ()
    error, message = move(stage, 1, 4)
    assert error == ErrorCode.REASSIGNMENT_IN_PROGRESS
    assert message == "the partition is being moved, created or deleted"
    assert stage.data(paths.reassigned(KEY)) == b"3,1"


@both
def test_what_cannot_be_moved_is_refused(generation: str) -> None:
    stage = Stage(3, generation=generation, assigned=(1, 2))
    stage.cluster.kill(3)
    stage.until(lambda: stage.data(paths.broker(3)) is None)
    for replicas in ((), (1, 1), (1, 3), (1, 9)):
        message = f"expected distinct live brokers, found {list(replicas)}"
        assert move(stage, *replicas) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    message = "expected 2 replicas, since the factor may not change, found 1"
    assert move(stage, 1, may_resize=False) == (ErrorCode.INVALID_REPLICATION_FACTOR, message)
    for topic in ("none", "no/name", ""):
        assert move(stage, 1, 2, topic=topic) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert move(stage, 1, 2) == (ErrorCode.NONE, None), "that is where it is"
    assert stage.data(paths.reassigned(KEY)) is None


@both
def test_a_move_is_not_cancelled(generation: str) -> None:
    stage = Stage(3, generation=generation, assigned=(1, 2))
    cancel = AlterPartitionReassignmentsRequest((Reassignment(TOPIC, 0, None),))

    def cancelled() -> int:
        response = stage.ask(1, cancel)
        assert isinstance(response, AlterPartitionReassignmentsResponse)
        return response.results[0].error_code

    assert cancelled() == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    stage.cluster.pause(3)
    assert move(stage, 1, 3) == (ErrorCode.NONE, None)
    assert cancelled() == ErrorCode.INVALID_REQUEST
    assert stage.data(paths.reassigned(KEY)) == b"1,3"


def test_a_partition_that_is_being_created_or_deleted_is_not_listed_as_moving() -> None:
    stage = Stage(2, generation=V2)
    stage.cluster.pause(2)
    late = stage.send(1, stage.creation("late", (1, 2), 4_000))
    gone = stage.send(1, stage.deletion(TOPIC, 4_000))
    stage.until(
        lambda: stage.data(paths.reassigned(("late", 0))) == b"1,2" and stage.data(paths.reassigned(KEY)) == b""
    )
    listed = stage.ask(1, ListPartitionReassignmentsRequest())
    assert listed == ListPartitionReassignmentsResponse(ErrorCode.NONE)
    stage.cluster.resume(2)
    assert stage.created(late) == stage.deleted(gone) == ErrorCode.NONE


def test_a_topic_that_is_deleted_meanwhile_leaves_no_request() -> None:
    stage = Stage(3, generation=V1, assigned=(1, 2))
    wanted = AlterPartitionReassignmentsRequest((Reassignment(TOPIC, 0, (1, 3)),))
    number = stage.send(2, wanted)
    stage.until(lambda: stage.data(paths.reassigned_topic(TOPIC)) is not None, every_us=0)
    stage.ensemble.administer(Delete(paths.replicas(KEY)))
    response = stage.answer(number)
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    assert response.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert stage.data(paths.reassigned(KEY)) is None


def test_a_design_with_a_controller_moves_nothing() -> None:
    stage = Stage(2, generation=C3)
    refused = stage.ask(1, AlterPartitionReassignmentsRequest((Reassignment(TOPIC, 0, (2, 1)),)))
    assert refused == AlterPartitionReassignmentsResponse(ErrorCode.UNSUPPORTED_VERSION)
    assert stage.ask(1, ListPartitionReassignmentsRequest()) == ListPartitionReassignmentsResponse(
        ErrorCode.UNSUPPORTED_VERSION
    )


# --- what happens meanwhile ------------------------------------------------------------------------------------------


def moved(stage: Stage, *replicas: int) -> bool:
    """Whether the partition has these replicas, and nothing is requested any more."""
    return (
        stage.data(paths.reassigned(KEY)) is None
        and stage.data(paths.replicas(KEY)) == paths.encoded(replicas)
        and stage.leader == replicas[0]
        and set(isr_of(stage.ensemble.tree, KEY)) == set(replicas)
    )


def request(stage: Stage, key: tuple[str, int], *replicas: int) -> None:
    """Have the administrator's request in the tree at once."""
    stage.ensemble.administer(Create(paths.reassigned_topic(key[0])))
    stage.ensemble.administer(Create(paths.reassigned(key), paths.encoded(replicas)))


@both
def test_requests_in_quick_succession_are_all_carried_out(generation: str) -> None:
    """The second change ends what the leader has begun to do about the first."""
    other = ("other", 0)
    for gap_ms in range(0, 60, 2):
        stage = Stage(3, generation=generation, assigned=(1, 2), lag_ms=1_000)
        assert stage.create("other", (1, 2)) == ErrorCode.NONE
        stage.until(lambda: leader_of(stage.ensemble.tree, other) == 1)  # noqa: B023 (it is called at once)
        stage.run(2_000)
        request(stage, KEY, 1, 3)
        stage.run(gap_ms)
        request(stage, other, 1, 3)
        stage.until(lambda: moved(stage, 1, 3))  # noqa: B023
        stage.until(lambda: stage.data(paths.replicas(other)) == b"1,3")  # noqa: B023


@both
def test_a_request_to_move_what_is_about_to_open_is_carried_out(generation: str) -> None:
    for after_ms in range(0, 60, 2):
        stage = Stage(3, generation=generation, assigned=(1, 2), lag_ms=1_000)
        stage.cluster.kill(1)
        stage.until(lambda: leader_of(stage.ensemble.tree, KEY) == 2)  # noqa: B023 (it is called at once)
        stage.run(after_ms)
        request(stage, KEY, 2, 3)
        stage.until(lambda: moved(stage, 2, 3))  # noqa: B023


@pytest.mark.parametrize(("generation", "leader_dies"), [(V1, True), (V2, False)])
def test_a_new_replica_whose_session_ends_goes_on(generation: str, leader_dies: bool) -> None:
    """In its next session; it is not in the list of replicas yet."""
    stage = Stage(3, generation=generation, assigned=(1, 2), lag_ms=6_000)
    stage.produce(1, *range(5))
    request(stage, KEY, 1, 3)
    stage.until(lambda: stage.follows(3) == 1)
    stage.run(100)
    stage.ensemble.expire(3)
    stage.until(lambda: stage.lines("is expired") == 1)
    if leader_dies:
        stage.cluster.kill(1)
        stage.until(lambda: stage.leader == 2)
        stage.cluster.start(1)
    assert stage.leader is not None
    stage.begin(stage.leader, 5)
    stage.until(lambda: moved(stage, 1, 3))
    stage.until(lambda: stage.log(3) == list(range(6)))


def test_a_replica_that_comes_back_while_it_is_closed_is_asked_again() -> None:
    """A broker that starts opens what the tree assigns to it, which is the old list still."""
    stage = Stage(3, generation=V2, assigned=(1, 2), lag_ms=1_000)
    stage.produce(1, 0)
    request(stage, KEY, 1, 3)
    stage.until(lambda: hosted_by(stage.cluster, 2, KEY) is None)
    stage.cluster.kill(2)
    stage.cluster.start(2)
    stage.until(lambda: stage.follows(2) == 1)
    stage.until(lambda: moved(stage, 1, 3))
    assert stage.lines("leader, broker id 1, requested close-replica") == 2
    stage.until(lambda: hosted_by(stage.cluster, 2, KEY) is None)


def test_leadership_does_not_go_to_the_preferred_replica_that_is_being_closed() -> None:
    stage = Stage(3, generation=V2, assigned=(1, 2), lag_ms=1_000)
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader == 2)
    request(stage, KEY, 2, 3)
    stage.cluster.start(1)
    stage.until(lambda: stage.follows(1) == 2)
    stage.until(lambda: moved(stage, 2, 3))
    assert stage.lines("hands over to 1") == 0


def test_a_replica_that_returns_does_not_obey_what_was_asked_of_its_last_one() -> None:
    stage = Stage(3, generation=V1, assigned=(1, 2), lag_ms=1_000)
    for replicas in ((1, 3), (1, 2)):
        request(stage, KEY, *replicas)
        stage.until(lambda wanted=replicas: moved(stage, *wanted))  # type: ignore[misc]
    stage.cut_from_ensemble(1)
    request(stage, KEY, 1, 3)
    stage.run(200)
    stage.mend_to_ensemble(1)
    stage.until(lambda: moved(stage, 1, 3))
    stage.produce(1, 7)
    stage.until(lambda: stage.log(3) == [7])
    stage.until(lambda: hosted_by(stage.cluster, 2, KEY) is None)


def test_a_leader_that_is_not_a_replica_any_more_hears_in_its_next_session_that_another_leads() -> None:
    stage = Stage(3, generation=V1, assigned=(1, 2), lag_ms=1_000)
    stage.produce(1, 0)
    stage.cluster.pause(1)
    stage.until(lambda: stage.leader == 2)
    request(stage, KEY, 2, 3)
    stage.until(lambda: moved(stage, 2, 3))
    stage.cluster.resume(1)
    stage.until(lambda: not stage.replica(1).is_open)
    assert stage.produce(2, 1) == 1
