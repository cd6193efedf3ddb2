"""Unclean elections: on an operator's request (UR-14), and how each is reported (UR-10)."""

from __future__ import annotations

import pytest

from broker.core.controller.partition_changes import changed
from broker.core.controller.requests import leader_elections
from broker.core.messages import (
    AlterPartitionRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    FetchRequest,
    GetReplicaLogInfoRequest,
    NewTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import RECOVERED, RECOVERING, PartitionState
from broker.core.ports.events import TimerFired
from broker.core.rules.flaws import rules_for
from tests.support.cluster import CONTROLLER, TOPIC, Cluster

UNCLEAN = 1
FIRST, SHORT, LONG, OTHER = 1, 2, 3, 4
"""The leader, two replicas that have fallen behind, and a broker without a replica."""


def _without_leader(*, stops: bool = False, **settings: object) -> Cluster:
    """min ISR 1: broker 1 has most records and is down, broker 2 has fewer than broker 3."""
    cluster = Cluster(brokers=4, **{"min_insync_replicas": 1, **settings})  # type: ignore[arg-type]
    cluster.run_until(lambda: all(m.node is not None and m.node.is_ready() for m in cluster.machines.values()))
    cluster.call(OTHER, CreateTopicsRequest((NewTopic(TOPIC, assignments=((0, (FIRST, SHORT, LONG)),)),)))
    cluster.run_until(lambda: bool(cluster.replica(FIRST)) and cluster.is_whole())
    assert cluster.produce(FIRST, 1, 2) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    silent = {SHORT}
    cluster.held = lambda source, _, message: (
        source in silent and isinstance(message, FetchRequest) and message.partitions[0].topic == TOPIC
    )
    cluster.send(FIRST, 3, acks=1)
    cluster.run_until(lambda: cluster.replica(LONG)["log_end"] == 3 and SHORT not in cluster.view()["isr"])  # type: ignore[operator]
    silent.add(LONG)
    cluster.send(FIRST, 4, acks=1)
    cluster.send(FIRST, 5, acks=1)
    cluster.run_until(lambda: cluster.view()["isr"] == [FIRST])
    if stops:
        cluster.stop(FIRST)
    else:
        cluster.kill(FIRST)
    cluster.run_until(lambda: cluster.leader() != FIRST)
    cluster.held = None
    return cluster


def _elect(cluster: Cluster, timeout_ms: int = 10_000, at: int = CONTROLLER) -> ErrorCode:
    response = cluster.call(at, ElectLeadersRequest(UNCLEAN, ((TOPIC, 0),), timeout_ms))
    return _code(response)


def _code(response: object) -> ErrorCode:
    assert isinstance(response, ElectLeadersResponse)
    (answer,) = response.partitions
    return ErrorCode(answer.error_code)


def _losses(cluster: Cluster) -> list[dict[str, object]]:
    return cluster.machines[CONTROLLER].node.describe()["potential_losses"]  # type: ignore[union-attr,return-value]


def _no_answers(cluster: Cluster) -> None:
    """No broker gets the question for its log."""
    cluster.held = lambda *passing: isinstance(passing[2], GetReplicaLogInfoRequest)


# --- on request ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["balanced", "manual"])
@pytest.mark.parametrize("at", [CONTROLLER, OTHER], ids=["asked directly", "forwarded by a broker"])
def test_an_operator_gets_the_longest_log(strategy: str, at: int) -> None:
    cluster = _without_leader(unclean_recovery_strategy=strategy, request_timeout_ms=5_000)
    cluster.run(3_000)
    assert cluster.leader() == -1
    assert _elect(cluster, at=at) == ErrorCode.NONE
    assert cluster.leader() == LONG


def test_a_recovery_that_waits_for_others_goes_on_without_them() -> None:
    cluster = _without_leader(request_timeout_ms=60_000)
    cluster.held = lambda _, to, message: to == FIRST and isinstance(message, GetReplicaLogInfoRequest)
    cluster.machines[FIRST].files = cluster.machines[
        FIRST
    ].files.crash()  # so that it is only known to have been eligible
    cluster.start(FIRST)
    cluster.run_until(lambda: cluster.view()["last_known_elr"] == [FIRST])
    cluster.run(3_000)
    assert cluster.leader() == -1
    assert _elect(cluster) == ErrorCode.NONE
    assert cluster.leader() == LONG


def test_an_eligible_replica_that_comes_back_meanwhile_leads_and_nothing_is_lost() -> None:
    cluster = _without_leader(stops=True)
    _no_answers(cluster)
    own_id = cluster.ask(CONTROLLER, ElectLeadersRequest(UNCLEAN, ((TOPIC, 0),), 10_000))
    cluster.run(500)
    assert own_id not in cluster.answers
    cluster.start(FIRST)
    cluster.run_until(lambda: own_id in cluster.answers)
    assert _code(cluster.answers[own_id]) == ErrorCode.NONE
    assert cluster.leader() == FIRST
    assert _losses(cluster) == []


@pytest.mark.parametrize("silent", [{SHORT, LONG}, {LONG}], ids=["no replica answers", "one has answered"])
def test_an_operator_whose_time_is_up_gets_no_unclean_election_later(silent: set[int]) -> None:
    cluster = _without_leader(request_timeout_ms=60_000)
    cluster.held = lambda _, to, message: to in silent and isinstance(message, GetReplicaLogInfoRequest)
    asked_ms = cluster.now_ms
    assert _elect(cluster, timeout_ms=700) == ErrorCode.REQUEST_TIMED_OUT
    assert 700 <= cluster.now_ms - asked_ms < 800
    cluster.held = None
    cluster.run(5_000)
    assert cluster.leader() == -1


def test_a_deadline_that_was_due_already_when_the_answer_went_out_changes_nothing() -> None:
    cluster = _without_leader()
    machine = cluster.machines[CONTROLLER]
    own_id = cluster.ask(CONTROLLER, ElectLeadersRequest(UNCLEAN, ((TOPIC, 0),), 10_000))
    (deadline,) = (key for key in machine.timers if isinstance(key, tuple) and key[0] == leader_elections.DEADLINE)
    cluster.run_until(lambda: own_id in cluster.answers)
    assert machine.node is not None
    assert deadline not in machine.timers
    assert machine.node.handle(cluster.now_ms, TimerFired(deadline)) == []


def test_an_operator_learns_that_the_partition_was_deleted_meanwhile() -> None:
    """And the controller makes nothing of what it hears of its logs, and does not report its recovery as overdue."""
    cluster = _without_leader(request_timeout_ms=60_000, unclean_recovery_timeout_ms=2_000)
    cluster.held = lambda _, to, message: to == LONG and isinstance(message, GetReplicaLogInfoRequest)
    own_id = cluster.ask(CONTROLLER, ElectLeadersRequest(UNCLEAN, ((TOPIC, 0),), 10_000))
    cluster.run(100)
    cluster.call(OTHER, DeleteTopicsRequest(((TOPIC, ""),)))
    assert _code(cluster.answers[own_id]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.run(3_000)
    assert cluster.machines[CONTROLLER].node.state.recoveries == {}  # type: ignore[union-attr]
    assert not any("unclean recovery" in note for note in cluster.machines[CONTROLLER].notes)


def test_no_attempt_of_a_forwarded_request_outlives_the_operators_patience() -> None:
    cluster = _without_leader(request_timeout_ms=300)
    _no_answers(cluster)
    request = ElectLeadersRequest(UNCLEAN, ((TOPIC, 0),), 2_000)
    assert cluster.call(OTHER, request) == ElectLeadersResponse(ErrorCode.REQUEST_TIMED_OUT, ())
    cluster.run(500)
    cluster.held = None
    cluster.run(5_000)
    assert cluster.leader() == -1


def test_one_operator_whose_time_is_up_does_not_take_back_what_another_asked_for() -> None:
    cluster = _without_leader()
    _no_answers(cluster)
    later = cluster.ask(CONTROLLER, ElectLeadersRequest(UNCLEAN, ((TOPIC, 0),), 20_000))
    assert _elect(cluster, timeout_ms=700) == ErrorCode.REQUEST_TIMED_OUT
    cluster.held = None
    cluster.run_until(lambda: later in cluster.answers)
    assert (_code(cluster.answers[later]), cluster.leader()) == (ErrorCode.NONE, LONG)


def test_nobody_is_elected_where_no_replica_is_there() -> None:
    cluster = _without_leader()
    for number in (SHORT, LONG):
        cluster.kill(number)
    cluster.run(3_000)
    assert _elect(cluster) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_a_partition_with_a_leader_needs_no_election() -> None:
    cluster = Cluster()
    cluster.create_topic()
    assert _elect(cluster) == ErrorCode.ELECTION_NOT_NEEDED
    everything = cluster.call(CONTROLLER, ElectLeadersRequest(UNCLEAN, None))
    assert everything == ElectLeadersResponse(ErrorCode.NONE, ())


def test_a_controller_that_is_deposed_leaves_the_election_to_the_next_one() -> None:
    cluster = _without_leader(controllers=3, request_timeout_ms=5_000)
    _no_answers(cluster)
    (active,) = cluster.active_controllers()
    own_id = cluster.ask(active, ElectLeadersRequest(UNCLEAN, ((TOPIC, 0),), 60_000))
    cluster.isolate(active)
    cluster.run_until(lambda: own_id in cluster.answers)
    assert cluster.answers[own_id] == ElectLeadersResponse(ErrorCode.NOT_CONTROLLER, ())


def test_a_controller_that_is_active_again_holds_no_election_that_it_has_refused_when_it_was_deposed() -> None:
    cluster = _without_leader(controllers=3, request_timeout_ms=5_000)
    _no_answers(cluster)
    (first,) = cluster.active_controllers()
    own_id = cluster.ask(first, ElectLeadersRequest(UNCLEAN, ((TOPIC, 0),), 60_000))
    for _ in range(20):
        (active,) = cluster.active_controllers()
        cluster.isolate(active)
        cluster.run_until(lambda active=active: active not in cluster.active_controllers())
        cluster.heal()
        cluster.run_until(lambda: len(cluster.active_controllers()) == 1)
        if cluster.active_controllers() == [first]:
            break
    cluster.held = None
    cluster.run(3_000)
    assert cluster.active_controllers() == [first]
    assert cluster.leader() == -1
    assert cluster.answers[own_id] == ElectLeadersResponse(ErrorCode.NOT_CONTROLLER, ())
    assert _elect(cluster, at=first) == ErrorCode.NONE


def test_a_controller_that_is_deposed_forgets_the_recoveries_that_it_has_begun() -> None:
    """Their timers still run: to decide after a short wait (UR-6), and to report that they take long (UR-11)."""
    cluster = _without_leader(controllers=3, request_timeout_ms=60_000, unclean_recovery_timeout_ms=3_000)
    _no_answers(cluster)
    (active,) = cluster.active_controllers()
    cluster.ask(active, ElectLeadersRequest(UNCLEAN, ((TOPIC, 0),), 60_000))
    cluster.isolate(active)
    cluster.run(5_000)
    assert active not in cluster.active_controllers()
    assert not any("unclean recovery" in note for note in cluster.machines[active].notes)


@pytest.mark.parametrize(
    "settings",
    [{"unclean_recovery_manager_enabled": False}, {"generation": "K4"}, {"generation": "K3"}],
    ids=["without the manager", "K4", "K3"],
)
def test_where_no_log_is_looked_for_the_first_active_replica_is_elected(settings: dict[str, object]) -> None:
    cluster = _without_leader(**settings)
    assert _elect(cluster) == ErrorCode.NONE
    assert cluster.leader() == SHORT
    assert [(loss["cause"], loss["logs"]) for loss in _losses(cluster)] == [("request", [])]


# --- the report ------------------------------------------------------------------------------------------------------


def test_an_election_on_request_is_reported_with_the_logs_that_were_compared() -> None:
    cluster = _without_leader(wall_clock_ms=1_700_000_000_000)
    epoch = cluster.view()["leader_epoch"]
    assert isinstance(epoch, int)
    ends = {number: cluster.replica(number)["log_end"] for number in (SHORT, LONG)}
    assert ends[SHORT] < ends[LONG] < 5  # type: ignore[operator]
    assert _elect(cluster) == ErrorCode.NONE
    (loss,) = _losses(cluster)
    at_ms = loss.pop("at_ms")
    assert isinstance(at_ms, int)
    assert 0 <= at_ms - 1_700_000_000_000 <= cluster.now_ms
    assert loss == {
        "topic": TOPIC,
        "partition": 0,
        "cause": "request",
        "leader": LONG,
        "leader_epoch": epoch + 1,
        "previous_leader_epoch": epoch,
        "isr": [],
        "elr": [FIRST],
        "last_known_elr": [],
        "logs": [{"broker": number, "last_epoch": 0, "log_end": end} for number, end in ends.items()],
    }
    notes = [note for note in cluster.machines[CONTROLLER].notes if "records may be lost" in note]
    assert len(notes) == 1
    assert f"unclean election by request: 3 leads epoch {epoch + 1} with log end {ends[LONG]}" in notes[0]


@pytest.mark.parametrize(
    ("settings", "cause", "logs"),
    [
        ({"unclean_leader_election_enable": True}, "recovery", 2),
        ({"unclean_recovery_strategy": "proactive"}, "recovery", 2),
        ({"unclean_leader_election_enable": True, "unclean_recovery_manager_enabled": False}, "setting", 0),
        ({"unclean_leader_election_enable": True, "generation": "K3"}, "setting", 0),
    ],
)
def test_an_unclean_election_by_a_setting_is_reported_once(settings: dict[str, object], cause: str, logs: int) -> None:
    cluster = _without_leader(**settings)
    cluster.run_until(lambda: cluster.leader() in (SHORT, LONG))
    (loss,) = _losses(cluster)
    assert (loss["cause"], loss["leader"], len(loss["logs"])) == (cause, cluster.leader(), logs)  # type: ignore[arg-type]
    counted = cluster.machines[CONTROLLER].node.describe()["unclean_elections"]  # type: ignore[union-attr]
    assert counted == [{"topic": TOPIC, "partition": 0, "cause": cause, "count": 1}]


def test_clean_elections_are_not_reported() -> None:
    cluster = Cluster()
    cluster.create_topic()
    first = cluster.leader()
    cluster.stop(first)
    cluster.run_until(lambda: cluster.leader() != first)
    assert _losses(cluster) == []


# --- what the elected leader does ------------------------------------------------------------------------------------


def test_only_the_leader_of_an_unclean_election_ends_its_recovery() -> None:
    """EL-9: no other change does, and to decide the same again is none."""
    state = PartitionState((1, 2, 3), (1,), 1, 5, 7, recovery_state=RECOVERING)
    fenced = changed(rules_for("K5", ()), state, (), lambda _: False, 2)
    assert fenced == PartitionState((1, 2, 3), (), -1, 6, 8, elr=(1,), recovery_state=RECOVERING)
    assert changed(rules_for("K5", ()), state, (1,), lambda _: True, 2) is None


def test_a_leader_of_an_unclean_election_says_that_it_has_recovered() -> None:
    """EL-9: until then nobody else joins its ISR; it does not wait for somebody who would."""
    cluster = _without_leader(unclean_recovery_strategy="manual")
    cluster.kill(SHORT)
    state = cluster.machines[CONTROLLER].node.state  # type: ignore[union-attr]
    cluster.held = lambda *passing: isinstance(passing[2], AlterPartitionRequest)
    assert _elect(cluster) == ErrorCode.NONE
    assert state.image.partition(TOPIC, 0).recovery_state == RECOVERING
    cluster.held = None
    cluster.run_until(lambda: state.image.partition(TOPIC, 0).recovery_state == RECOVERED)
    assert cluster.view()["isr"] == [LONG]
    cluster.start(SHORT)
    cluster.run_until(lambda: SHORT in cluster.view()["isr"])  # type: ignore[operator]
