"""How a registration ends: by UnregisterBroker, or with a broker that cannot register in time."""

from __future__ import annotations

import pytest

from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionResponse,
    Reassignment,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from broker.core.messages.errors import ErrorCode
from tests.support.cluster import CONTROLLER, TOPIC, Cluster

REGISTRATION_MS = 3_000


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(initial_broker_registration_timeout_ms=REGISTRATION_MS)
    cluster.create_topic()
    return cluster


def unregister(cluster: Cluster, broker: int) -> UnregisterBrokerResponse:
    response = cluster.call(next(one for one in (1, 2, 3) if one != broker), UnregisterBrokerRequest(broker))
    assert isinstance(response, UnregisterBrokerResponse)
    return response


def registered(cluster: Cluster) -> set[int]:
    state = cluster.machines[CONTROLLER].node.state
    return set(state.image.brokers)


def test_a_dead_broker_is_unregistered_and_leaves_its_leaderships_isrs_and_elrs(cluster):
    cluster.produce(cluster.leader(), 1)
    gone = cluster.leader()
    cluster.kill(gone)
    assert unregister(cluster, gone).error_code == ErrorCode.NONE
    assert registered(cluster) == {1, 2, 3} - {gone}
    view = cluster.view()
    assert view["leader"] not in (gone, -1)
    assert gone not in [*view["isr"], *view["elr"]]
    assert gone in view["replicas"]
    living = cluster.machines[view["leader"]].node.state
    cluster.run_until(lambda: gone not in living.image.brokers)


def test_an_eligible_broker_that_is_unregistered_is_eligible_no_more(cluster):
    """Nobody will know of its next registration whether it follows a clean stop."""
    first, second = (one for one in (1, 2, 3) if one != cluster.leader())
    for one in (first, second):
        cluster.stop(one)
        cluster.run_until(lambda one=one: cluster.machines[one].node is None)
    assert second in cluster.view()["elr"]
    assert cluster.call(cluster.leader(), UnregisterBrokerRequest(second)).error_code == ErrorCode.NONE
    assert second not in cluster.view()["elr"]
    cluster.start(second)
    cluster.run_until(lambda: second in cluster.view()["isr"])


def test_an_unregistered_id_registers_again_and_comes_back_into_the_isr(cluster):
    gone = next(one for one in (1, 2, 3) if one != cluster.leader())
    cluster.kill(gone)
    assert unregister(cluster, gone).error_code == ErrorCode.NONE
    cluster.produce(cluster.leader(), 1, 2)
    cluster.start(gone)
    cluster.run_until(cluster.is_whole)
    assert gone in registered(cluster)


def test_a_living_broker_that_is_unregistered_registers_again(cluster):
    before = cluster.broker_epoch(2)
    cluster.produce(cluster.leader(), 1)
    assert unregister(cluster, 2).error_code == ErrorCode.NONE
    cluster.run_until(lambda: 2 in registered(cluster) and cluster.is_whole())
    assert cluster.broker_epoch(2) > before
    assert cluster.produce(cluster.leader(), 2) == ErrorCode.NONE
    assert cluster.read(cluster.leader()) == [1, 2]


def test_the_controllers_agree_on_who_is_unregistered_after_a_snapshot():
    cluster = Cluster(controllers=3, metadata_snapshot_records=20)
    cluster.create_topic(partitions=8)
    gone = next(one for one in (1, 2, 3) if one != cluster.leader())
    cluster.kill(gone)
    assert unregister(cluster, gone).error_code == ErrorCode.NONE
    (active,) = cluster.active_controllers()
    cluster.kill(active)
    cluster.run_until(lambda: bool(cluster.active_controllers()))
    (following,) = cluster.active_controllers()
    assert gone not in cluster.machines[following].node.state.image.brokers


def test_an_unknown_id_is_refused_with_a_text(cluster):
    response = unregister(cluster, 77)
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert response.error_message == "broker 77 is not registered"


# --- initial.broker.registration.timeout.ms ------------------------------------------------------------------


def test_a_broker_without_a_controller_ends_after_the_timeout(cluster):
    cluster.kill(2)
    cluster.kill(CONTROLLER)
    began_ms = cluster.now_ms
    cluster.start(2)
    cluster.run_until(lambda: cluster.machines[2].node is None)
    assert REGISTRATION_MS <= cluster.now_ms - began_ms < 2 * REGISTRATION_MS
    assert "exit 4: could not register in 3 s: no active controller answered" in cluster.machines[2].notes[-1]


def test_a_second_broker_with_the_id_of_a_living_one_ends_after_the_timeout(cluster):
    cluster.kill(2)
    cluster.machines[CONTROLLER].node.state.last_contact_ms[2] = 1 << 40  # as if heartbeats came all the time
    cluster.start(2)
    cluster.run_until(lambda: cluster.machines[2].node is None)
    assert "exit 4: could not register in 3 s: another broker with node.id=2 lives" in cluster.machines[2].notes[-1]


def test_a_registered_broker_outlives_a_longer_absence_of_the_controller(cluster):
    cluster.kill(CONTROLLER)
    cluster.run(3 * REGISTRATION_MS)
    assert all(cluster.machines[one].node is not None for one in (1, 2, 3))


# --- AP-10 ---------------------------------------------------------------------------------------------------


def test_the_sender_of_the_change_that_takes_its_leadership_learns_of_it_at_once():
    cluster = Cluster(brokers=4)
    cluster.create_topic()
    old = cluster.leader()
    target = tuple(one for one in (1, 2, 3, 4) if one != old)
    answers = []

    def listens(source, receiver, message):
        if isinstance(message, AlterPartitionResponse):
            answers.append((receiver, message.partitions[0].error_code))
        return False

    cluster.held = listens
    cluster.call(1, AlterPartitionReassignmentsRequest((Reassignment(TOPIC, 0, target),)))
    cluster.run_until(lambda: tuple(cluster.view()["replicas"]) == target)
    cluster.run_until(lambda: (old, ErrorCode.NEW_LEADER_ELECTED) in answers)
    cluster.run_until(lambda: cluster.replica(cluster.leader()).get("role") == "leader" and cluster.is_whole())
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE
