"""Unclean recovery and what leads to it: strategies, needed replicas, settings at run time (§14, §15)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AnyResponse,
    BrokerHeartbeatRequest,
    ConfigOperation,
    ConfigResource,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    FetchRequest,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    NewTopic,
    Reassignment,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Reply, RequestFailed, ResponseReceived
from tests.support.cluster import CONTROLLER, TOPIC, Cluster


def _reassign(cluster: Cluster, replicas: tuple[int, ...] | None) -> int:
    request = AlterPartitionReassignmentsRequest((Reassignment(TOPIC, 0, replicas),))
    response = cluster.call(next(n for n in (1, 2, 3, 6) if cluster.machines[n].node), request)
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    return response.results[0].error_code


def _alter(cluster: Cluster, kind: int, name: str, key: str, value: str | None, operation: int = 0) -> int:
    resource = ConfigResource(kind, name, (ConfigOperation(key, operation, value),))
    at = next(number for number, machine in cluster.machines.items() if number < CONTROLLER and machine.node)
    response = cluster.call(at, IncrementalAlterConfigsRequest((resource,)))
    assert isinstance(response, IncrementalAlterConfigsResponse)
    return response.results[0].error_code


def _all_committed(cluster: Cluster) -> list[int]:
    """What the leader has, once as many replicas as min ISR have it."""
    leader = cluster.leader()
    cluster.run_until(lambda: cluster.replica(leader)["high_watermark"] == cluster.replica(leader)["log_end"])
    return cluster.read(leader)


def _stop(cluster: Cluster, number: int) -> None:
    cluster.stop(number)
    cluster.run_until(lambda: cluster.machines[number].node is None)


def _moved(**settings: object) -> Cluster:
    """Records that only brokers 4 and 5 have, which are being added, and lead; 1, 2 and 3, and 6, are down."""
    cluster = Cluster(brokers=6, **settings)  # type: ignore[arg-type]
    cluster.run_until(lambda: all(m.node is not None and m.node.is_ready() for m in cluster.machines.values()))
    cluster.call(1, CreateTopicsRequest((NewTopic(TOPIC, assignments=((0, (1, 2, 3)),)),)))
    cluster.run_until(lambda: bool(cluster.view()) and cluster.is_whole())
    _stop(cluster, 6)
    assert _reassign(cluster, (4, 5, 6)) == ErrorCode.NONE
    cluster.run_until(lambda: {4, 5} <= set(cluster.view()["isr"]))  # type: ignore[call-overload]
    for number in (1, 2, 3):
        _stop(cluster, number)
    for value in (1, 2, 3):
        assert cluster.produce(cluster.leader(), value) == ErrorCode.NONE
    return cluster


def _moved_to_brokers_that_are_down(generation: str) -> Cluster:
    """Records that only brokers 4 and 5 have, which are being added, and are down after a clean stop."""
    cluster = _moved(generation=generation)
    for number in (4, 5):
        _stop(cluster, number)
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run(3000)
    return cluster


@pytest.mark.parametrize("generation", ["K4", "K5"])
@pytest.mark.parametrize("target", [None, (1, 2, 3)], ids=["cancelled", "replaced"])
def test_no_reassignment_gives_up_the_only_complete_replicas(generation: str, target: tuple[int, ...] | None) -> None:
    cluster = _moved_to_brokers_that_are_down(generation)
    assert _reassign(cluster, target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cluster.run(3000)
    assert cluster.leader() == -1
    for number in (4, 5):
        cluster.start(number)
    cluster.run_until(lambda: cluster.leader() >= 0)
    assert cluster.leader() in cluster.view()["replicas"]  # type: ignore[operator]
    assert _all_committed(cluster) == [1, 2, 3]


@pytest.mark.parametrize("target", [None, (1, 2, 3)], ids=["cancelled", "replaced"])
def test_no_reassignment_leaves_fewer_complete_replicas_than_min_isr(target: tuple[int, ...] | None) -> None:
    """Else the loss of the one that is left, which min ISR permits, would cost what was acknowledged."""
    cluster = Cluster(brokers=5)
    cluster.run_until(lambda: all(m.node is not None and m.node.is_ready() for m in cluster.machines.values()))
    cluster.call(1, CreateTopicsRequest((NewTopic(TOPIC, assignments=((0, (1, 2, 3)),)),)))
    cluster.run_until(lambda: bool(cluster.view()) and cluster.is_whole())
    for number in (2, 3, 5):
        _stop(cluster, number)
    assert _reassign(cluster, (2, 4, 5)) == ErrorCode.NONE
    cluster.run_until(lambda: set(cluster.view()["isr"]) == {1, 4})  # type: ignore[call-overload]
    assert _reassign(cluster, target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE
    cluster.start(2)
    cluster.run_until(lambda: {1, 2} <= set(cluster.view()["isr"]))  # type: ignore[call-overload]
    assert _reassign(cluster, target) == ErrorCode.NONE


def test_a_reassignment_of_a_single_replica_can_be_cancelled() -> None:
    """Its min ISR is one again, however many were in sync meanwhile."""
    cluster = Cluster(brokers=3)
    cluster.run_until(lambda: all(m.node is not None and m.node.is_ready() for m in cluster.machines.values()))
    cluster.call(1, CreateTopicsRequest((NewTopic(TOPIC, assignments=((0, (1,)),)),)))
    cluster.run_until(lambda: bool(cluster.view()) and cluster.is_whole())
    _stop(cluster, 3)
    assert _reassign(cluster, (1, 2, 3)) == ErrorCode.NONE
    cluster.run_until(lambda: set(cluster.view()["isr"]) == {1, 2})  # type: ignore[call-overload]
    assert _reassign(cluster, None) == ErrorCode.NONE
    assert cluster.view()["replicas"] == [1]


@pytest.mark.parametrize(("min_isr", "kept"), [("1", 0), ("2", 1)])
def test_after_a_recovery_others_are_remembered_only_where_more_are_needed_to_commit(min_isr: str, kept: int) -> None:
    cluster = Cluster()
    cluster.create_topic()
    cluster.run_until(cluster.is_whole)
    for number in (3, 1, 2):
        cluster.kill(number, lose_page_cache=True)
        cluster.run_until(lambda number=number: cluster.leader() != number)  # type: ignore[misc]
    cluster.held = lambda _, __, message: isinstance(message, GetReplicaLogInfoRequest)
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run(2_000)
    assert _alter(cluster, 2, TOPIC, "min.insync.replicas", min_isr) == ErrorCode.NONE
    assert cluster.view()["last_known_elr"] == [1, 2]
    cluster.held = lambda source, _, message: isinstance(message, FetchRequest) and source in (1, 2, 3)
    cluster.run_until(lambda: cluster.leader() >= 0)
    assert len(cluster.view()["last_known_elr"]) == kept  # type: ignore[arg-type]


def test_who_puts_availability_first_gets_a_leader_all_the_same() -> None:
    cluster = _moved_to_brokers_that_are_down("K5")
    assert _alter(cluster, 2, TOPIC, "unclean.recovery.strategy", "proactive") == ErrorCode.NONE
    cluster.run_until(lambda: cluster.leader() in (1, 2, 3))


@pytest.mark.parametrize(
    ("settings", "may"),
    [
        ({"unclean_recovery_strategy": "proactive"}, True),
        ({"unclean_recovery_strategy": "proactive", "unclean_recovery_manager_enabled": False}, False),
        ({"unclean_leader_election_enable": True, "unclean_recovery_manager_enabled": False}, True),
    ],
)
def test_who_puts_availability_first_may_give_up_the_only_complete_replicas(
    settings: dict[str, object], may: bool
) -> None:
    cluster = _moved(**settings)
    cluster.held = lambda source, _, message: (
        source in (1, 2, 3) and isinstance(message, FetchRequest) and message.partitions[0].topic == TOPIC
    )
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run(1000)
    assert sorted(cluster.view()["isr"]) == [4, 5]  # type: ignore[call-overload]
    assert _reassign(cluster, None) == (ErrorCode.NONE if may else ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    cluster.run_until(lambda: cluster.leader() in ((1, 2, 3) if may else (4, 5)))


def _without_eligible_replicas(**settings: object) -> Cluster:
    """The last known ELR is {2, 3}; broker 1, with less in its log, is up; 2 and 3 are down."""
    cluster = Cluster(brokers=3, **settings)  # type: ignore[arg-type]
    cluster.create_topic()
    first = cluster.leader()
    assert cluster.produce(first, *range(10)) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    second, third = (number for number in cluster.view()["replicas"] if number != first)  # type: ignore[attr-defined]
    cluster.kill(first, lose_page_cache=True)
    cluster.run_until(lambda: cluster.leader() == second)
    cluster.kill(second)
    cluster.run_until(lambda: cluster.leader() == third)
    cluster.kill(third, lose_page_cache=True)
    cluster.run_until(lambda: cluster.leader() == -1)
    return cluster


@pytest.mark.parametrize("strategy", ["balanced", "proactive"])
def test_a_replica_that_need_not_answer_does_not_hold_up_a_recovery(strategy: str) -> None:
    cluster = _without_eligible_replicas(unclean_recovery_strategy=strategy)
    cluster.held = lambda _, to, message: to == 1 and isinstance(message, GetReplicaLogInfoRequest)
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run_until(lambda: cluster.leader() >= 0)
    if strategy == "balanced":
        assert _all_committed(cluster) == list(range(10))


def test_a_replica_that_need_not_answer_is_waited_for_only_a_little_while() -> None:
    cluster = _without_eligible_replicas(request_timeout_ms=60_000)
    cluster.held = lambda _, to, message: to == 1 and isinstance(message, GetReplicaLogInfoRequest)
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run_until(lambda: cluster.leader() in (2, 3), limit_ms=10_000)
    assert _all_committed(cluster) == list(range(10))


@pytest.mark.parametrize("request_timeout_ms", [300, 60_000], ids=["begun again and again", "at the first try"])
def test_a_needed_replica_that_does_not_answer_is_reported_in_the_end(request_timeout_ms: int) -> None:
    cluster = _without_eligible_replicas(unclean_recovery_timeout_ms=5000, request_timeout_ms=request_timeout_ms)
    cluster.held = lambda _, to, message: to == 2 and isinstance(message, GetReplicaLogInfoRequest)
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run(10_000)
    assert cluster.leader() == -1
    if request_timeout_ms > 5000:
        assert any("waits for the log of [2]" in note for note in cluster.machines[CONTROLLER].notes)
    assert any("after more than 5000 ms" in note for note in cluster.machines[CONTROLLER].notes)


def test_ur_3_a_recovery_begins_when_the_last_candidate_registers_after_a_crash() -> None:
    """The others are active and were not in sync; the one that was registers before it has been fenced."""
    cluster = Cluster(min_insync_replicas=1, unclean_recovery_strategy="proactive")
    cluster.create_topic()
    last = cluster.leader()
    cluster.held = lambda source, to, message: to == last and isinstance(message, FetchRequest)
    cluster.send(last, 1, acks=1)
    cluster.run_until(lambda: cluster.view()["isr"] == [last])
    cluster.kill(last)
    cluster.machines[CONTROLLER].node.state.last_contact_ms.pop(last)  # type: ignore[union-attr]
    cluster.held = lambda source, to, message: source == last and isinstance(message, BrokerHeartbeatRequest)
    cluster.start(last)
    cluster.run_until(lambda: cluster.leader() not in (last, -1), 3_000)


_Late = list[tuple[int, int, int, AnyResponse]]


def _holding_up_the_first_answer(cluster: Cluster, sender: int) -> _Late:
    """The first answer of a broker to GetReplicaLogInfo goes into this list, instead of to the controller."""
    late: _Late = []
    carry_out = cluster._carry_out

    def carry(number: int, machine: object, effect: object) -> None:
        answer = effect.response if isinstance(effect, Reply) else None
        if number == sender and isinstance(answer, GetReplicaLogInfoResponse) and not late:
            assert isinstance(effect, Reply)
            late.append((*cluster._origin.pop((number, effect.request_id)), answer))
            return
        carry_out(number, machine, effect)  # type: ignore[arg-type]

    cluster._carry_out = carry  # type: ignore[method-assign,assignment]
    return late


@pytest.mark.parametrize("strategy", ["balanced", "manual"])
def test_a_recovery_does_not_go_on_with_a_strategy_that_was_replaced(strategy: str) -> None:
    """Broker 1 has less than what was acknowledged, and is the only one to answer."""
    cluster = _without_eligible_replicas(unclean_recovery_strategy="proactive", request_timeout_ms=60_000)
    late = _holding_up_the_first_answer(cluster, 1)
    cluster.start(1)
    cluster.run_until(lambda: bool(late))
    assert _alter(cluster, 2, TOPIC, "unclean.recovery.strategy", strategy) == ErrorCode.NONE
    cluster._deliver(*late[0][:2], ResponseReceived(*late[0][2:]))
    cluster.run(5_000)
    assert cluster.leader() == -1


def test_a_recovery_waits_for_all_that_a_raised_min_isr_needs() -> None:
    """The last known ELR sufficed before; three are needed now, and broker 1 does not answer."""
    cluster = _without_eligible_replicas(request_timeout_ms=60_000)
    cluster.held = lambda _, to, message: to == 1 and isinstance(message, GetReplicaLogInfoRequest)
    late = _holding_up_the_first_answer(cluster, 2)
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run_until(lambda: bool(late))
    assert _alter(cluster, 2, TOPIC, "min.insync.replicas", "3") == ErrorCode.NONE
    cluster._deliver(*late[0][:2], ResponseReceived(*late[0][2:]))
    cluster.run(5_000)
    assert cluster.leader() == -1


def test_a_failure_of_an_earlier_query_does_not_take_back_an_answer() -> None:
    cluster = _without_eligible_replicas(request_timeout_ms=60_000)
    held: list[tuple[int, int, int, AnyResponse]] = []
    carry_out = cluster._carry_out

    def carry(number: int, machine: object, effect: object) -> None:
        answer = effect.response if isinstance(effect, Reply) else None
        if isinstance(answer, GetReplicaLogInfoResponse) and number in (1, 2) and len(held) < 2:
            assert isinstance(effect, Reply)
            held.append((*cluster._origin.pop((number, effect.request_id)), answer))  # of the first round
            return
        carry_out(number, machine, effect)  # type: ignore[arg-type]

    cluster._carry_out = carry  # type: ignore[method-assign,assignment]
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run_until(lambda: len(held) == 2)
    first, second = (next(one for one in held if one[3].broker_epoch == cluster.broker_epoch(n)) for n in (1, 2))  # type: ignore[union-attr]
    cluster._deliver(*second[:2], RequestFailed(second[2], "gone"))
    cluster.held = lambda _, to, message: to == 3 and isinstance(message, GetReplicaLogInfoRequest)
    asked = len([note for note in cluster.machines[CONTROLLER].notes if "asking" in note])
    cluster.run_until(lambda: len([n for n in cluster.machines[CONTROLLER].notes if "asking" in n]) > asked)
    job = next(iter(cluster.machines[CONTROLLER].node.state.recoveries.values()))  # type: ignore[union-attr]
    cluster.run_until(lambda: {1, 2} <= set(job.infos))
    cluster._deliver(*first[:2], RequestFailed(first[2], "timeout"))
    assert {1, 2} <= set(job.asked)


def test_a_late_answer_of_a_replica_that_is_not_asked_any_more_changes_nothing() -> None:
    cluster = _without_eligible_replicas(request_timeout_ms=2000)
    slow: list[tuple[int, int, int, AnyResponse]] = []
    reset: list[int] = []
    carry_out = cluster._carry_out

    def carry(number: int, machine: object, effect: object) -> None:
        if isinstance(effect, Reply) and isinstance(effect.response, GetReplicaLogInfoResponse):
            if number == 1 and not slow:
                slow.append((*cluster._origin.pop((number, effect.request_id)), effect.response))
                return
            if number == 2 and not reset:
                origin, life, own = cluster._origin.pop((number, effect.request_id))
                reset.append(own)
                cluster._later(1, lambda: cluster._deliver(origin, life, RequestFailed(own, "connection reset")))
                return
            cluster._later(300, lambda: carry_out(number, machine, effect))  # type: ignore[arg-type]
            return
        carry_out(number, machine, effect)  # type: ignore[arg-type]

    cluster._carry_out = carry  # type: ignore[method-assign,assignment]
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run_until(lambda: bool(slow) and bool(reset))
    asked = len([note for note in cluster.machines[CONTROLLER].notes if "asking" in note])
    cluster.stop(1)
    cluster.run_until(lambda: len([n for n in cluster.machines[CONTROLLER].notes if "asking" in n]) > asked)
    origin, life, own, response = slow[0]
    cluster._deliver(origin, life, ResponseReceived(own, response))
    cluster.run_until(lambda: cluster.leader() >= 0)
    assert _all_committed(cluster) == list(range(10))


def _led_by_the_only_complete_replica(**settings: object) -> tuple[Cluster, int, list[int]]:
    """min ISR 1: the leader alone has the last record, and the others do not fetch."""
    cluster = Cluster(brokers=3, min_insync_replicas=1, **settings)  # type: ignore[arg-type]
    cluster.create_topic()
    leader = cluster.leader()
    others = [number for number in cluster.view()["replicas"] if number != leader]  # type: ignore[attr-defined]
    assert cluster.produce(leader, 1, 2) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)

    def from_others(source: int, _: int, message: object) -> bool:
        return (
            source in others
            and isinstance(message, FetchRequest)
            and any(part.topic == TOPIC for part in message.partitions)
        )

    cluster.held = from_others
    cluster.send(leader, 3, acks=1)
    cluster.run_until(lambda: cluster.view()["isr"] == [leader])
    return cluster, leader, others


def test_a_proactive_recovery_begins_when_the_last_candidate_is_fenced() -> None:
    cluster, leader, others = _led_by_the_only_complete_replica(unclean_recovery_strategy="proactive")
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() in others, 5000)
    assert any("records may be lost" in note for note in cluster.machines[CONTROLLER].notes)


def test_ur_15_a_replica_that_has_not_heard_of_the_leader_epoch_is_asked_again() -> None:
    """Until it has heard that there is no leader, it may fetch from the deposed one, or be about to delete its log."""
    cluster, leader, others = _led_by_the_only_complete_replica(unclean_recovery_strategy="proactive")
    answered: dict[int, list[int]] = {number: [] for number in others}
    carry_out = cluster._carry_out

    def carry(number: int, machine: object, effect: object) -> None:
        if isinstance(effect, Reply) and isinstance(effect.response, GetReplicaLogInfoResponse):
            answered[number].append(effect.response.partitions[0].current_leader_epoch)
        carry_out(number, machine, effect)  # type: ignore[arg-type]

    cluster._carry_out = carry  # type: ignore[method-assign,assignment]
    led = cluster.replica(leader)["leader_epoch"]
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() in others, 5000)
    for number in others:
        assert answered[number][0] == led
        assert answered[number][-1] == led + 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (2, TOPIC, "unclean.leader.election.enable", "true"),
        (2, TOPIC, "unclean.recovery.strategy", "proactive"),
        (4, "", "unclean.leader.election.enable", "true"),
        (4, "", "unclean.recovery.strategy", "Aggressive"),
    ],
)
@pytest.mark.parametrize("generation", ["K3", "K4", "K5"])
def test_an_unclean_election_that_is_allowed_later_is_held_at_once(
    generation: str, kind: int, name: str, key: str, value: str
) -> None:
    if generation != "K5" and "strategy" in key:
        pytest.skip("there is no strategy before K5")
    cluster, leader, others = _led_by_the_only_complete_replica(generation=generation)
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() != leader)
    cluster.held = None
    cluster.run(2000)
    assert cluster.leader() == -1
    assert _alter(cluster, kind, name, key, value) == ErrorCode.NONE
    cluster.run_until(lambda: cluster.leader() in others, 3000)


@pytest.mark.parametrize("generation", ["K3", "K4", "K5"])
def test_an_unclean_election_that_only_a_removed_setting_forbade_is_held_at_once(generation: str) -> None:
    cluster, leader, others = _led_by_the_only_complete_replica(
        generation=generation, unclean_leader_election_enable=True
    )
    assert _alter(cluster, 4, "", "unclean.leader.election.enable", "false") == ErrorCode.NONE
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() != leader)
    cluster.held = None
    cluster.run(2000)
    assert cluster.leader() == -1
    assert _alter(cluster, 4, "", "unclean.leader.election.enable", None, operation=1) == ErrorCode.NONE
    cluster.run_until(lambda: cluster.leader() in others, 3000)


def test_the_longest_log_is_elected_where_unclean_elections_are_enabled() -> None:
    cluster = Cluster(brokers=3, min_insync_replicas=1, unclean_leader_election_enable=True)
    cluster.create_topic()
    leader = cluster.leader()
    short, long = (number for number in cluster.view()["replicas"] if number != leader)  # type: ignore[attr-defined]
    assert cluster.produce(leader, 1, 2) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    silent = {short}
    cluster.held = lambda source, _, message: (
        source in silent and isinstance(message, FetchRequest) and message.partitions[0].topic == TOPIC
    )
    cluster.send(leader, 3, acks=1)
    cluster.run_until(lambda: cluster.replica(long)["log_end"] == 3 and short not in cluster.view()["isr"])  # type: ignore[operator]
    silent.add(long)
    cluster.send(leader, 4, acks=1)
    cluster.run_until(lambda: cluster.view()["isr"] == [leader])
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() in (short, long))
    assert cluster.leader() == long
    assert any("records may be lost" in note for note in cluster.machines[CONTROLLER].notes)


def test_without_the_manager_the_first_active_replica_is_elected() -> None:
    cluster, leader, others = _led_by_the_only_complete_replica(
        unclean_leader_election_enable=True, unclean_recovery_manager_enabled=False
    )
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() == others[0])
    assert not any("asking" in note for note in cluster.machines[CONTROLLER].notes)


# --- one min ISR for all nodes ---------------------------------------------------------------------------------------


def test_all_nodes_use_the_min_isr_of_the_metadata_not_of_their_files() -> None:
    cluster = Cluster(brokers=3, min_insync_replicas=1)
    for number in (1, 2, 3):
        cluster.machines[number].settings = replace(cluster.machines[number].settings, min_insync_replicas=3)
        cluster.kill(number)
        cluster.start(number)
    cluster.create_topic()
    leader = cluster.leader()
    for number in (1, 2, 3):
        if number != leader:
            cluster.kill(number)
    cluster.run_until(lambda: cluster.view()["isr"] == [leader])
    assert cluster.produce(leader, 1) == ErrorCode.NONE
    assert _alter(cluster, 4, "", "min.insync.replicas", "2") == ErrorCode.NONE
    cluster.run(500)
    described = cluster.call(leader, DescribeConfigsRequest(((2, TOPIC, ("min.insync.replicas",)), (4, "", None))))
    assert isinstance(described, DescribeConfigsResponse)
    assert [next(one.value for one in result.configs if "min" in one.name) for result in described.results] == [
        "2",
        "2",
    ]
    assert cluster.produce(leader, 2) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert _alter(cluster, 2, TOPIC, "min.insync.replicas", "1") == ErrorCode.NONE
    cluster.run(500)
    assert cluster.produce(leader, 3) == ErrorCode.NONE


def test_min_isr_of_the_cluster_outlives_a_snapshot_and_its_removal_restores_the_controllers() -> None:
    cluster = Cluster(brokers=3, min_insync_replicas=2, metadata_snapshot_records=5)
    cluster.create_topic()
    assert _alter(cluster, 4, "", "min.insync.replicas", "3") == ErrorCode.NONE
    for number in range(10):
        assert _alter(cluster, 2, TOPIC, "retention.ms", str(1000 + number)) == ErrorCode.NONE
    cluster.kill(CONTROLLER)
    cluster.start(CONTROLLER)
    cluster.run_until(lambda: cluster.active_controllers() == [CONTROLLER])
    image = cluster.machines[CONTROLLER].node.state.image  # type: ignore[union-attr]
    assert image.configs == {"min.insync.replicas": "3"}
    assert _alter(cluster, 4, "", "min.insync.replicas", None, operation=1) == ErrorCode.NONE
    assert image.configs == {"min.insync.replicas": "2"}


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "error"),
    [
        (4, "", "retention.ms", "5", ErrorCode.INVALID_REQUEST),
        (4, "", "min.insync.replicas", "0", ErrorCode.INVALID_REQUEST),
        (4, "", "unclean.recovery.strategy", "brave", ErrorCode.INVALID_REQUEST),
        (4, "1", "min.insync.replicas", "2", ErrorCode.INVALID_REQUEST),
        (8, "", "min.insync.replicas", "2", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_no_setting_of_the_cluster_is_refused(
    kind: int, name: str, key: str, value: str, error: ErrorCode
) -> None:
    cluster = Cluster()
    cluster.create_topic()
    assert _alter(cluster, kind, name, key, value) == error
