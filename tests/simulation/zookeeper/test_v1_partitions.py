"""The first design's partitions: topics are extended and deleted, and what a broker that is away does not hear of."""

from __future__ import annotations

import pytest

from broker.core.messages import CreatePartitionsRequest, CreatePartitionsResponse, NewPartitions
from broker.core.messages.errors import ErrorCode
from broker.zookeeper import paths
from broker.zookeeper.choices import DELETION_NEEDS_LEADER
from broker.zookeeper.requests.deletion import CLOSED_BY_ADMINISTRATOR, CLOSED_BY_LEADER
from simulation.zookeeper.views import hosted_by, leader_of
from tests.support.zookeeper_stage import KEY, TOPIC, Stage


def test_partitions_are_added_to_a_topic() -> None:
    stage = Stage(2)
    response = stage.ask(1, CreatePartitionsRequest((NewPartitions(TOPIC, 3), NewPartitions("none", 2)), 5_000))
    assert isinstance(response, CreatePartitionsResponse)
    assert [one.error_code for one in response.results] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    stage.until(lambda: leader_of(stage.ensemble.tree, (TOPIC, 1)) == 2)
    stage.until(lambda: leader_of(stage.ensemble.tree, (TOPIC, 2)) == 1)


def test_a_partition_is_deleted_by_its_leader_and_its_name_can_be_used_again() -> None:
    stage = Stage(2)
    stage.produce(1, 0)
    stage.run(1_000)
    assert stage.delete(TOPIC) == ErrorCode.NONE
    assert stage.cluster.marks[CLOSED_BY_LEADER.name] == 1
    assert CLOSED_BY_ADMINISTRATOR.name not in stage.cluster.marks
    assert stage.data(paths.topic(TOPIC)) is None
    assert not any(stage.has_log(broker) for broker in (1, 2))
    assert stage.create(TOPIC, (2, 1)) == ErrorCode.NONE
    stage.until(lambda: stage.leader == 2)
    assert stage.produce(2, 1) == 0
    assert stage.watch.violation is None, "what the deleted topic had is not missed"


def test_replicas_that_a_reassignment_has_added_are_deleted_with_the_partition() -> None:
    stage = Stage(3, assigned=(1, 2))
    stage.produce(1, 0)
    stage.reassign(1, 3)
    stage.until(lambda: stage.log(3) == [0])
    assert stage.delete(TOPIC) == ErrorCode.NONE
    assert stage.cluster.marks[CLOSED_BY_LEADER.name] == 1
    assert stage.data(paths.reassigned(KEY)) is None
    assert not any(stage.has_log(broker) for broker in (1, 2, 3))


@pytest.mark.parametrize(
    ("switches", "error"), [((), ErrorCode.NONE), ((DELETION_NEEDS_LEADER,), ErrorCode.REQUEST_TIMED_OUT)]
)
def test_a_partition_that_nobody_leads_is_closed_by_the_administrator(
    switches: tuple[str, ...], error: ErrorCode
) -> None:
    """Q19: its leader is gone, and the other replica is not in sync."""
    stage = Stage(3, switches, assigned=(2, 3))
    stage.cluster.kill(3)
    stage.until(lambda: stage.data(paths.broker(3)) is None)
    stage.produce(2, 0)
    assert stage.data(paths.insync(KEY)) == b"2"
    stage.cluster.start(3)
    stage.until(lambda: stage.follows(3) == 2)
    stage.cluster.kill(2)
    stage.until(lambda: stage.data(paths.leader(KEY)) is None)
    assert stage.delete(TOPIC) == error
    assert stage.has_log(3) == (error != ErrorCode.NONE)
    assert (stage.data(paths.partition(KEY)) is None) == (error == ErrorCode.NONE)


def test_a_deletion_that_was_late_can_be_asked_for_again() -> None:
    stage = Stage(2)
    stage.cluster.pause(2)
    assert stage.delete(TOPIC, 1_000) == ErrorCode.REQUEST_TIMED_OUT
    assert stage.data(paths.replicas(KEY)) is None
    assert stage.create(TOPIC, (1, 2)) == ErrorCode.TOPIC_ALREADY_EXISTS
    stage.cluster.resume(2)
    assert stage.delete(TOPIC) == ErrorCode.NONE
    assert stage.delete(TOPIC) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_that_was_away_brings_the_records_of_a_deleted_topic_back() -> None:
    """Requests to a broker without a session are lost, which the second design's queues cured."""
    stage = Stage(2)
    stage.produce(1, 0, 1, 2)
    stage.run(2_000)
    stage.cluster.kill(2)
    stage.until(lambda: stage.data(paths.broker(2)) is None)
    assert stage.delete(TOPIC) == ErrorCode.NONE
    assert not stage.has_log(1)
    assert stage.has_log(2)
    assert stage.create(TOPIC, (1, 2)) == ErrorCode.NONE
    stage.until(lambda: stage.leader == 1)
    stage.produce(1, 7)
    stage.cluster.start(2)
    stage.until(lambda: hosted_by(stage.cluster, 2, KEY) is not None)
    stage.run(5_000)
    assert stage.log(1) == [7]
    assert stage.log(2) == [0, 1, 2]
