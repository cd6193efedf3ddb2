"""RA-8: the two worked examples of a reassignment, and what begins, ends and refuses one (§15)."""

from __future__ import annotations

import pytest

from broker.core.configuration.settings import Settings
from broker.core.controller import changes
from broker.core.controller.node import ControllerNode
from broker.core.controller.partition_changes import elections_for_leaderless, without_broker
from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreateTopicsRequest,
    FetchRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    NewTopic,
    Reassignment,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage, TopicImage
from broker.core.metadata.records import PartitionState
from broker.core.ports.marks import Mark
from tests.support.cluster import TOPIC, Cluster
from tests.support.memory_files import MemoryFiles


def placed(brokers: int, replicas: tuple[int, ...]) -> Cluster:
    cluster = Cluster(brokers=brokers)
    cluster.run_until(lambda: all(machine.node.is_ready() for machine in cluster.machines.values()))
    cluster.call(1, CreateTopicsRequest((NewTopic(TOPIC, assignments=((0, replicas),)),)))
    cluster.run_until(cluster.is_whole)
    return cluster


def without(cluster: Cluster, *brokers: int) -> None:
    for broker in brokers:
        cluster.kill(broker)
        cluster.run_until(lambda gone=broker: gone not in cluster.view()["isr"])


def reassign(cluster: Cluster, at: int, *target: int) -> None:
    response = cluster.call(at, AlterPartitionReassignmentsRequest((Reassignment(TOPIC, 0, target),)))
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    assert response.results[0].error_code == ErrorCode.NONE


def test_ra_8_i_one_replica_is_replaced() -> None:
    cluster = placed(4, (1, 2, 3))
    without(cluster, 3)
    epoch = cluster.view()["leader_epoch"]
    cluster.held = lambda source, _, message: source == 4 and isinstance(message, FetchRequest)
    reassign(cluster, 1, 1, 2, 4)
    assert cluster.view()["replicas"] == [1, 2, 4, 3]
    assert cluster.view()["isr"] == [1, 2]
    assert cluster.view()["leader_epoch"] == epoch
    cluster.held = None
    cluster.run_until(lambda: cluster.view()["replicas"] == [1, 2, 4])
    assert sorted(cluster.view()["isr"]) == [1, 2, 4]
    assert cluster.view()["leader_epoch"] == epoch + 1


def test_ra_8_ii_five_replicas_become_three() -> None:
    cluster = placed(5, (1, 2, 3, 4, 5))
    without(cluster, 1, 2, 3)
    reassign(cluster, 4, 1, 2, 3)
    assert cluster.view()["replicas"] == [1, 2, 3, 4, 5], "no target replica is in sync"
    for broker in (1, 2):
        cluster.start(broker)
        cluster.run_until(lambda back=broker: back in cluster.view()["isr"])
        assert cluster.view()["replicas"] == [1, 2, 3, 4, 5], "not all of the target are in sync (KAFKA-15665)"
    cluster.start(3)
    cluster.run_until(lambda: cluster.view()["replicas"] == [1, 2, 3])
    assert sorted(cluster.view()["isr"]) == [1, 2, 3]
    assert cluster.leader() in (1, 2, 3)


def test_ra_3_a_replica_that_stays_out_of_sync_holds_nothing_up_that_becomes_no_smaller() -> None:
    cluster = placed(4, (1, 2, 3))
    without(cluster, 2)
    reassign(cluster, 1, 2, 3, 4)
    cluster.run_until(lambda: cluster.view()["replicas"] == [2, 3, 4])
    assert sorted(cluster.view()["isr"]) == [3, 4]


def test_ra_3_min_isr_of_the_target_remain_in_sync() -> None:
    cluster = placed(4, (1, 2, 3))
    without(cluster, 2, 3)
    reassign(cluster, 1, 2, 3, 4)
    cluster.run_until(lambda: 4 in cluster.view()["isr"])
    cluster.run(5_000)
    assert cluster.view()["replicas"] == [2, 3, 4, 1], "min ISR is 2, and 4 alone would be left"
    cluster.start(3)
    cluster.run_until(lambda: cluster.view()["replicas"] == [2, 3, 4])
    assert sorted(cluster.view()["isr"]) == [3, 4]


def test_ra_3_a_smaller_target_is_awaited_whole() -> None:
    cluster = placed(4, (1, 2, 3, 4))
    without(cluster, 2)
    reassign(cluster, 1, 1, 2, 3)
    cluster.run(5_000)
    assert cluster.view()["replicas"] == [1, 2, 3, 4]
    cluster.start(2)
    cluster.run_until(lambda: cluster.view()["replicas"] == [1, 2, 3])


def answered(cluster: Cluster, target: tuple[int, ...] | None, at: int = 1) -> int:
    response = cluster.call(at, AlterPartitionReassignmentsRequest((Reassignment(TOPIC, 0, target),)))
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    return response.results[0].error_code


def lists(cluster: Cluster) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    response = cluster.call(1, ListPartitionReassignmentsRequest(None))
    assert isinstance(response, ListPartitionReassignmentsResponse)
    return [(one.replicas, one.adding, one.removing) for one in response.reassignments]


def test_ra_1_ra_2_a_second_target_is_merged_with_the_first() -> None:
    cluster = placed(5, (1, 2, 3))
    assert lists(cluster) == []
    cluster.held = lambda source, _, message: source in (4, 5) and isinstance(message, FetchRequest)
    assert answered(cluster, (1, 2, 4)) == ErrorCode.NONE
    assert lists(cluster) == [((1, 2, 4, 3), (4,), (3,))]
    assert answered(cluster, (5, 2, 3)) == ErrorCode.NONE
    assert lists(cluster) == [((5, 2, 3, 1), (5,), (1,))]
    assert answered(cluster, None) == ErrorCode.NONE
    assert lists(cluster) == []
    assert sorted(cluster.view()["replicas"]) == [1, 2, 3]


def test_ra_5_a_target_that_is_in_sync_already_is_reached_at_once() -> None:
    cluster = placed(4, (1, 2, 3))
    before = cluster.view()
    assert answered(cluster, (2, 3)) == ErrorCode.NONE
    assert lists(cluster) == []
    after = cluster.view()
    assert (after["replicas"], sorted(after["isr"])) == ([2, 3], [2, 3])
    assert after["leader"] in (2, 3)
    assert after["leader_epoch"] == before["leader_epoch"] + 1
    assert after["partition_epoch"] == before["partition_epoch"] + 1


def test_ra_6_ra_9_what_is_refused_changes_nothing() -> None:
    cluster = placed(4, (1, 2, 3))
    before = cluster.view()
    assert answered(cluster, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    for target in ((), (1, 1, 2), (1, 2, 77)):
        assert answered(cluster, target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert answered(cluster, (1, 2, 3)) == ErrorCode.NONE
    assert cluster.view() == before


def test_ra_6_a_target_without_a_member_of_the_isr_may_be_begun_and_cancelled() -> None:
    cluster = placed(5, (1, 2))
    cluster.held = lambda source, _, message: source in (4, 5) and isinstance(message, FetchRequest)
    assert answered(cluster, (4, 5)) == ErrorCode.NONE
    assert lists(cluster) == [((4, 5, 1, 2), (4, 5), (1, 2))]
    epoch = cluster.view()["leader_epoch"]
    assert answered(cluster, None) == ErrorCode.NONE
    assert cluster.view()["replicas"] == [1, 2]
    assert cluster.view()["leader_epoch"] == epoch + 1, "EL-0: replicas that were to be added are given up"


def test_ra_6_the_only_replica_in_sync_is_not_given_up() -> None:
    cluster = placed(4, (1, 2, 3))
    without(cluster, 2, 3)
    reassign(cluster, 1, 2, 3, 4)
    cluster.run_until(lambda: 4 in cluster.view()["isr"])
    without(cluster, 1)
    before = cluster.view()
    assert before["isr"] == [4]
    assert answered(cluster, None, at=4) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert answered(cluster, (1, 2, 3), at=4) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.view() == before
    assert answered(cluster, (1, 2, 4), at=4) == ErrorCode.NONE
    assert cluster.view()["replicas"] == [1, 2, 4, 3]


def test_ra_3_who_comes_or_goes_elsewhere_does_not_end_a_reassignment() -> None:
    """EL-1, EL-6: min ISR was lowered since the last change of the ISR, so the next one ends it, and nothing else."""
    settings = Settings(node_id=100, roles=("controller",), voters={100: ("c", 1)}, listeners=(), log_dirs=("/",))
    controller = ControllerNode(settings, MemoryFiles(), "c").state
    for number in (1, 4, 5):
        controller.image.brokers[number] = BrokerImage(
            number, 10 + number, "one", (), None, fenced=False, in_controlled_shutdown=False
        )
    moving = PartitionState((2, 3, 4, 1), (1, 4), 1, 5, 7, adding=(4,), removing=(1,))
    controller.image.topics["t"] = TopicImage("t", "id", {0: moving})
    assert elections_for_leaderless(controller, arrived=5) == []
    assert without_broker(controller, 5) == []
    assert without_broker(controller, 5, unclean=True, registers=True) == []
    (left,) = without_broker(controller, 1)
    assert left.state.replicas == (2, 3, 4)


SETTLED = PartitionState((1, 2, 3), (1, 2, 3), 1, 5, 7)
MOVING = SETTLED._replace(replicas=(1, 2, 4, 3), adding=(4,), removing=(3,))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(SETTLED, MOVING, [changes.REASSIGNMENT_STARTED], id="starts"),
        pytest.param(
            MOVING,
            MOVING._replace(replicas=(1, 2, 5, 3), adding=(5,)),
            [changes.REASSIGNMENT_REPLACED],
            id="takes another target",
        ),
        pytest.param(
            SETTLED,
            SETTLED._replace(replicas=(1, 2), isr=(1, 2)),
            [changes.REASSIGNMENT_AT_ONCE],
            id="is complete at once",
        ),
        pytest.param(
            MOVING._replace(isr=(1, 2, 3, 4)),
            SETTLED._replace(replicas=(1, 2, 4), isr=(1, 2, 4)),
            [changes.REASSIGNMENT_COMPLETED],
            id="ends",
        ),
        pytest.param(MOVING, SETTLED, [changes.REASSIGNMENT_CANCELLED], id="is cancelled"),
        pytest.param(MOVING, MOVING._replace(isr=(1, 2, 3, 4)), [], id="goes on"),
    ],
)
def test_ra_1_ra_6_what_a_change_does_to_a_reassignment_is_marked_as_that_and_nothing_else(
    old: PartitionState, new: PartitionState, expected: list[Mark]
) -> None:
    assert [mark for mark in changes.marks_of(old, new) if mark.name.startswith("reassignment: ")] == expected
