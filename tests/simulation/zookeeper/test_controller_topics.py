"""The design with a controller: topics are extended and deleted, and when a deletion waits."""

from __future__ import annotations

import pytest

from broker.core.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    MetadataRequest,
    MetadataResponse,
    NewPartitions,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.leadership import StopReplicaRequest, StopReplicaResponse
from broker.zookeeper import paths
from broker.zookeeper.choices import C3, CONTROLLED
from broker.zookeeper.designs.controller import deletion, znodes
from simulation.zookeeper.evidence import DELETED_LATE
from simulation.zookeeper.views import hosted_by, leader_of
from tests.support.zookeeper_stage import KEY, TOPIC, Stage


def staged(brokers: int = 3, assigned: tuple[int, ...] = ()) -> Stage:
    """A cluster whose controller is broker 1."""
    return Stage(brokers, generation=C3, assigned=assigned)


def known(stage: Stage, broker: int, topic: str) -> ErrorCode:
    """What a broker says of a topic in its metadata."""
    response = stage.ask(broker, MetadataRequest(((topic, ""),)))
    assert isinstance(response, MetadataResponse)
    return ErrorCode(response.topics[0].error_code)


def test_partitions_are_added_to_a_topic() -> None:
    stage = staged(2)
    wanted = (NewPartitions(TOPIC, 3), NewPartitions(TOPIC, 2), NewPartitions("none", 2))
    response = stage.ask(1, CreatePartitionsRequest(wanted, 5_000))
    assert isinstance(response, CreatePartitionsResponse)
    assert [one.error_code for one in response.results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    stage.until(lambda: leader_of(stage.ensemble.tree, (TOPIC, 1)) == 2)
    stage.until(lambda: hosted_by(stage.cluster, 1, (TOPIC, 2)) is not None)


def test_a_topic_is_deleted_everywhere_and_its_name_can_be_used_again() -> None:
    stage = staged()
    stage.produce(1, 0)
    stage.run(1_000)
    assert stage.delete(TOPIC) == ErrorCode.NONE
    assert stage.data(paths.topic(TOPIC)) is None
    assert stage.data(znodes.deletion(TOPIC)) is None
    assert not any(stage.has_log(broker) for broker in (1, 2, 3))
    stage.until(lambda: known(stage, 2, TOPIC) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert stage.delete(TOPIC) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert stage.create(TOPIC, (2, 1, 3)) == ErrorCode.NONE
    stage.until(lambda: stage.leader == 2)
    assert stage.produce(2, 1) == 0
    assert stage.watch.violation is None, "what the deleted topic had is not missed"


def test_a_deletion_waits_for_a_broker_that_is_down_and_nobody_is_elected_meanwhile() -> None:
    stage = staged(assigned=(2, 3))
    stage.produce(2, 0)
    stage.cluster.kill(3)
    stage.until(lambda: stage.data(paths.broker(3)) is None)
    assert stage.delete(TOPIC, 1_000) == ErrorCode.REQUEST_TIMED_OUT
    assert not stage.has_log(2)
    assert stage.has_log(3)
    assert stage.cluster.marks[deletion.REPLICA_AWAY.name] > 0
    assert stage.create(TOPIC, (1, 2)) == ErrorCode.TOPIC_ALREADY_EXISTS, "it is being deleted"
    stage.cluster.start(3)
    stage.until(lambda: stage.data(paths.topic(TOPIC)) is None)
    assert not stage.has_log(3)
    assert stage.data(znodes.deletion(TOPIC)) is None


def test_the_next_controller_goes_on_with_a_deletion() -> None:
    stage = staged(assigned=(2, 3))
    stage.cluster.kill(3)
    stage.until(lambda: stage.data(paths.broker(3)) is None)
    number = stage.send(2, stage.deletion(TOPIC, 15_000))
    stage.until(lambda: not stage.has_log(2))
    stage.cluster.kill(1)
    stage.until(lambda: stage.data(znodes.CONTROLLER) == b"2")
    stage.cluster.start(3)
    assert stage.deleted(number) == ErrorCode.NONE
    assert stage.data(paths.topic(TOPIC)) is None
    assert not stage.has_log(3)


def test_a_controller_that_resigns_gives_its_deletions_up() -> None:
    stage = staged(assigned=(2, 3))
    stage.cluster.kill(3)
    stage.until(lambda: stage.data(paths.broker(3)) is None)
    assert stage.delete(TOPIC, 1_000) == ErrorCode.REQUEST_TIMED_OUT
    node = stage.cluster.machines[1].node
    assert node is not None
    procedures = node.state.procedures  # type: ignore[attr-defined]
    assert procedures.runs((deletion.DELETION, TOPIC))
    stage.cut_from_ensemble(1)
    stage.until(lambda: stage.data(znodes.CONTROLLER) == b"2")
    stage.mend_to_ensemble(1)
    stage.until(lambda: stage.lines("resigns as controller 1") == 1)
    assert not procedures.runs((deletion.DELETION, TOPIC))


@pytest.mark.parametrize("generation", CONTROLLED)
def test_a_late_request_deletes_the_replica_of_the_next_topic_of_the_name(generation: str) -> None:
    """No request says which topic of the name it is about, nor in which leader epoch: that came with KIP-570."""
    stage = Stage(2, generation=generation)
    assert stage.delete(TOPIC) == ErrorCode.NONE
    assert stage.create(TOPIC, (1, 2)) == ErrorCode.NONE
    stage.until(lambda: stage.leader == 1)
    stage.produce(1, 5)
    assert stage.ask(2, StopReplicaRequest(1, 1, (KEY,), delete_partitions=True)) == StopReplicaResponse(0)
    assert not stage.has_log(2)
    stage.cluster.kill(1)
    stage.until(lambda: leader_of(stage.ensemble.tree, KEY) == 2)
    stage.until(lambda: stage.watch.violation is not None)
    assert stage.violation.property_id == "P-1"
    assert DELETED_LATE in str(stage.violation)
