"""KIP-966 and KIP-101 by example, divergence after hard failures, and what a controller makes of answers (§14.2)."""

from __future__ import annotations

import pytest

from broker.core.controller import recovery
from broker.core.controller.state import ControllerState
from broker.core.messages import FetchRequest, GetReplicaLogInfoRequest, GetReplicaLogInfoResponse, ReplicaLogInfo
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage, TopicImage
from broker.core.metadata.records import PartitionState
from broker.core.ports.events import CancelTimer, LogEntry, Send
from tests.support.cluster import CONTROLLER, TOPIC, Cluster


def sets_of(cluster: Cluster) -> tuple[object, ...]:
    view = cluster.view()
    return view["leader"], view["isr"], view["elr"], view["last_known_elr"]


def test_balanced_recovery_5_3_3() -> None:
    cluster = Cluster()
    cluster.create_topic()
    first = cluster.leader()
    second, third = (broker for broker in cluster.view()["replicas"] if broker != first)
    assert cluster.produce(first, *range(10)) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)

    # The power goes: 1 and 3 lose what they had, 2 does not. The controller fences one after the other.
    cluster.kill(first, lose_page_cache=True)
    cluster.run_until(lambda: sets_of(cluster) == (second, [second, third], [], []))
    cluster.kill(second)
    cluster.run_until(lambda: sets_of(cluster) == (third, [third], [second], []))
    cluster.kill(third, lose_page_cache=True)
    cluster.run_until(lambda: sets_of(cluster) == (-1, [], sorted([second, third]), []))

    cluster.start(first)
    cluster.run(1_000)
    assert sets_of(cluster) == (-1, [], sorted([second, third]), []), "it was no member of the ELR"
    cluster.start(second)
    cluster.run_until(lambda: sets_of(cluster) == (-1, [], [third], [second]))
    cluster.run(1_000)
    assert cluster.leader() == -1, "a member of the ELR may still come back with everything"
    cluster.start(third)
    cluster.run_until(lambda: cluster.leader() == second)
    cluster.run_until(cluster.is_whole)
    assert cluster.read(second) == list(range(10))


def test_ur_4_in_k4_the_last_leader_waits_as_long_as_another_is_eligible() -> None:
    cluster = Cluster(generation="K4")
    cluster.create_topic()
    first = cluster.leader()
    second, third = (broker for broker in cluster.view()["replicas"] if broker != first)
    cluster.kill(third)
    cluster.run_until(lambda: sets_of(cluster) == (first, sorted([first, second]), [], []))
    cluster.stop(second)
    cluster.run_until(lambda: sets_of(cluster) == (first, [first], [second], []))
    cluster.kill(first)
    cluster.run_until(lambda: sets_of(cluster) == (-1, [], sorted([first, second]), [first]))
    cluster.start(first)
    cluster.run_until(lambda: sets_of(cluster) == (-1, [], [second], [first]))
    cluster.run(1_000)
    assert cluster.leader() == -1, "its stop was not clean, and the second has everything"
    cluster.start(second)
    cluster.run_until(lambda: cluster.leader() == second)


def test_logs_do_not_diverge_after_several_hard_failures() -> None:
    """KIP-101, second scenario: A holds m2 alone; after a power outage B leads, and takes m3 at the same offset."""
    cluster = Cluster(brokers=2, min_insync_replicas=1)
    cluster.create_topic(factor=2)
    a = cluster.leader()
    b = 3 - a
    assert cluster.produce(a, 1) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    cluster.held = lambda source, _, message: source == b and isinstance(message, FetchRequest) and of_topic(message)
    assert cluster.produce(a, 2, acks=1) == ErrorCode.NONE
    cluster.kill(a)
    cluster.held = None
    cluster.run_until(lambda: cluster.leader() == b)
    cluster.kill(b)
    cluster.run_until(lambda: cluster.leader() == -1)
    cluster.start(b)
    cluster.run_until(lambda: cluster.leader() == b)
    cluster.run_until(lambda: cluster.produce(b, 3) == ErrorCode.NONE)
    assert [record for record in cluster.read(b) if record != 3] == [1]
    cluster.start(a)
    cluster.run_until(cluster.is_whole)
    ends = {cluster.replica(broker)["log_end"] for broker in (a, b)}
    assert ends == {len(cluster.read(b))}
    assert cluster.replica(a)["epochs"] == cluster.replica(b)["epochs"], "m2 was cut, its epoch with it"


def of_topic(request: FetchRequest) -> bool:
    return any(part.topic == TOPIC for part in request.partitions)


# --- Decisions of the controller --------------------------------------------------------------------------------------

KEY = ("id", 0)
LOST = PartitionState((1, 2, 3), (), -1, 5, 7, last_known_elr=(2, 3))
"""No replica is known to be complete: 2 and 3 have to answer, 1 may."""


def leaderless(state: PartitionState = LOST, **settings: object) -> ControllerState:
    """The active controller of a partition; brokers 1 to 3, whose epochs are 11 to 13, are active."""
    cluster = Cluster(brokers=0, **settings)  # type: ignore[arg-type]
    cluster.run_until(lambda: bool(cluster.active_controllers()))
    controller: ControllerState = cluster.machines[CONTROLLER].node.state
    for number in (1, 2, 3):
        controller.image.brokers[number] = BrokerImage(
            number, 10 + number, "one", (), None, fenced=False, in_controlled_shutdown=False
        )
    controller.image.topics["t"] = TopicImage("t", "id", {0: state})
    controller.image.topic_names["id"] = "t"
    return controller


def leader(controller: ControllerState) -> int:
    return controller.image.topics["t"].partitions[0].leader


def asked(controller: ControllerState) -> dict[int, tuple[GetReplicaLogInfoRequest, tuple[int, ...]]]:
    """What each replica is asked, from the last call on: the request, and the partition epochs noted with it."""
    opened = controller.runtime.open_requests
    return {
        effect.to: (effect.request, opened[effect.request_id].context)
        for effect in controller.runtime.take_effects()
        if isinstance(effect, Send) and isinstance(effect.request, GetReplicaLogInfoRequest)
    }


def answer(
    controller: ControllerState, member: int, sent: tuple[GetReplicaLogInfoRequest, tuple[int, ...]], log_end: int = 0
) -> None:
    info = ReplicaLogInfo("t", 0, ErrorCode.NONE, 4, 5, log_end, "id")
    recovery.answered(controller, sent[0], member, sent[1], GetReplicaLogInfoResponse(10 + member, (info,)))


def test_ur_6_the_last_answer_decides_at_once() -> None:
    controller = leaderless()
    recovery.consider_all(controller)
    requests = asked(controller)
    for member, log_end in ((3, 9), (2, 8)):
        answer(controller, member, requests[member], log_end)
        assert leader(controller) == -1
    answer(controller, 1, requests[1], 7)
    assert leader(controller) == 3


def test_ur_6_after_the_short_wait_the_last_answer_that_is_needed_decides() -> None:
    controller = leaderless()
    recovery.consider_all(controller)
    requests = asked(controller)
    answer(controller, 3, requests[3], 9)
    recovery.waited(controller, KEY)
    assert leader(controller) == -1
    answer(controller, 2, requests[2], 8)
    assert leader(controller) == 3


@pytest.mark.parametrize(("strategy", "elected"), [("balanced", 3), ("proactive", 1)])
def test_ur_8_a_longer_log_of_who_is_not_known_to_be_complete_wins_where_losses_are_accepted(
    strategy: str, elected: int
) -> None:
    """Replica 1 may have led an epoch in which it committed nothing, and lack what later leaders committed."""
    controller = leaderless(unclean_recovery_strategy=strategy)
    recovery.consider_all(controller)
    requests = asked(controller)
    for member, log_end in ((1, 30), (2, 8), (3, 9)):
        answer(controller, member, requests[member], log_end)
    assert leader(controller) == elected


@pytest.mark.parametrize("min_isr", [2, 3, 4])
def test_ur_6_where_there_are_fewer_replicas_than_min_isr_all_of_them_are_enough(min_isr: int) -> None:
    controller = leaderless(min_insync_replicas=min_isr)
    recovery.consider_all(controller)
    assert asked(controller).keys() == {1, 2, 3}


def test_ur_9_a_recovery_begins_again_at_once_when_the_partition_has_changed() -> None:
    controller = leaderless()
    recovery.consider_all(controller)
    before = asked(controller)
    controller.image.topics["t"].partitions[0] = LOST._replace(last_known_elr=(1, 2, 3), partition_epoch=8)
    recovery.consider_all(controller)
    assert CancelTimer((recovery.DECIDE, *KEY)) in controller.runtime.effects
    after = asked(controller)
    assert after.keys() == {1, 2, 3}
    for member in (1, 2, 3):
        answer(controller, member, before[member])
    assert leader(controller) == -1
    for member in (1, 2, 3):
        answer(controller, member, after[member])
    assert leader(controller) == 1


def test_ur_11_a_recovery_that_takes_long_is_reported_between_two_attempts_too() -> None:
    controller = leaderless()
    recovery.consider_all(controller)
    requests = asked(controller)
    recovery.answered(controller, requests[2][0], 2, requests[2][1], None)
    controller.runtime.take_effects()
    recovery.overdue(controller, KEY)
    (entry,) = controller.runtime.take_effects()
    assert isinstance(entry, LogEntry)
    assert entry.text == "t-0: unclean recovery is about to begin again, after more than 300000 ms"
