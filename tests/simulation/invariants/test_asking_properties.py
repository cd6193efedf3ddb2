"""What brokers ask controllers for, and how: P-40, P-66 to P-71, P-80, V-29 and P-33; and when segments end (P-32)."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core.broker_node import isr_changes, lifecycle
from broker.core.broker_node.groups.expiry import EXPIRE
from broker.core.broker_node.groups.state import TIMER
from broker.core.configuration import cleanup
from broker.core.controller import membership
from broker.core.controller.requests import leader_elections
from broker.core.controller.state import RecoveryJob
from broker.core.messages import (
    LOST_DIRECTORY,
    AllocateProducerIdsRequest,
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AnyRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import PartitionState
from broker.core.ports.events import (
    Disconnected,
    Event,
    Reply,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Send,
    TimerFired,
)
from broker.core.quorum import elections
from broker.core.replica.state import PendingIsr, Role
from broker.core.rules.flaws import rules_for
from simulation.engine.cluster import EventStep
from simulation.invariants import intervals, isr_proposals
from simulation.invariants.answers import controllers_asked, to_brokers
from simulation.invariants.answers.controllers_asked import sent
from simulation.invariants.directories import check_recorded
from simulation.invariants.knowledge import BrokerMirror, Deciding, Knowledge
from simulation.invariants.progress import requests
from simulation.invariants.recoveries import _check_reason
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import broken_by, observe

CONTROLLERS_DIE = [SimulatedFault(5_000, "kill", 3, 4_000, 0), SimulatedFault(10_000, "kill", 4, 4_000, 0)]
REPORT = AssignReplicasToDirsRequest(1, 7, ())
IDS = AllocateProducerIdsRequest(1, 7)
DUPLICATE = ErrorCode.DUPLICATE_BROKER_REGISTRATION
LEADERLESS = PartitionState((1, 2, 3), (), -1, 4, 9)


def test_brokers_whose_controllers_die_break_nothing() -> None:
    assert observe(faults=CONTROLLERS_DIE).failure is None


def test_a_request_that_is_answered_twice_breaks_p_66(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = membership.heartbeat

    def twice(*arguments: Any) -> None:
        honest(*arguments)
        honest(*arguments)

    monkeypatch.setattr(membership, "heartbeat", twice)
    assert observe().failed_property == "P-66"


@pytest.mark.parametrize(("closed", "breaks"), [(True, None), (False, "P-66")])
def test_a_request_that_is_answered_once_more_in_a_later_step_breaks_p_66(
    knowledge: Knowledge, closed: bool, breaks: str | None
) -> None:
    def stepped(event: Event, *answers: int) -> None:
        effects = [Reply(number, BrokerHeartbeatResponse(0)) for number in answers]
        requests.stepped(knowledge, EventStep(1, event, effects), 1, 0)

    stepped(
        RequestReceived(5, 9, BrokerHeartbeatRequest(1, 7, 0, want_fence=False, want_shut_down=False)),
        *([] if closed else [5]),
    )
    if closed:
        stepped(Disconnected(9))
    assert broken_by(lambda: stepped(TimerFired(("any",)), 5)) == breaks
    assert broken_by(lambda: stepped(TimerFired(("any",)), 5)) == "P-66"


@pytest.mark.parametrize(
    ("error", "fenced", "breaks"),
    [
        (ErrorCode.NOT_CONTROLLER, True, "P-67"),
        (ErrorCode.NOT_CONTROLLER, False, None),
        (ErrorCode.NONE, True, None),
        (ErrorCode.STALE_BROKER_EPOCH, True, None),
    ],
)
def test_an_error_alone_that_fences_a_broker_breaks_p_67(
    knowledge: Knowledge, error: ErrorCode, fenced: bool, breaks: str | None
) -> None:
    broker = BrokerMirror(1)
    broker.asking.is_fenced = False
    state: Any = SimpleNamespace(fenced=fenced, caught_up=True, offline={})
    event = ResponseReceived(5, BrokerHeartbeatResponse(error))
    assert broken_by(lambda: controllers_asked.stepped(knowledge, broker, state, event)) == breaks


@pytest.mark.parametrize(
    ("broker", "heard_ms", "error", "breaks"),
    [
        (1, 9_000, DUPLICATE, None),
        (1, 8_000, DUPLICATE, "P-40"),
        (1, None, DUPLICATE, "P-40"),
        (4, 9_900, DUPLICATE, "P-40"),  # no broker of that number is active
        (1, 8_000, ErrorCode.NONE, None),
    ],
)
def test_a_new_incarnation_is_refused_only_while_the_one_before_lives(
    knowledge: Knowledge, broker: int, heard_ms: int | None, error: ErrorCode, breaks: str | None
) -> None:
    state: Any = SimpleNamespace(
        settings=SimpleNamespace(node_id=100, broker_session_timeout_ms=2_000),
        runtime=SimpleNamespace(now_ms=10_000),
        last_contact_ms={} if heard_ms is None else {broker: heard_ms},
        image=knowledge.image,
    )
    request = BrokerRegistrationRequest(broker, "cluster", "another", ())
    answer = Reply(5, BrokerRegistrationResponse(error))
    assert broken_by(lambda: to_brokers._check_duplicate(state, 5, request, [answer])) == breaks


def test_a_broker_that_is_told_the_contrary_of_what_was_decided_breaks_p_67(monkeypatch: pytest.MonkeyPatch) -> None:
    def contrary(error: int, **fields: bool) -> BrokerHeartbeatResponse:
        if "is_fenced" in fields:
            fields["is_fenced"] = not fields["is_fenced"]
        return BrokerHeartbeatResponse(error, **fields)

    monkeypatch.setattr(membership, "BrokerHeartbeatResponse", contrary)
    assert observe().failed_property == "P-67"


def job(epoch: int = 9, needed: tuple[int, ...] = (1, 2), min_isr: int = 2) -> RecoveryJob:
    return RecoveryJob(epoch, ("balanced", min_isr), {1: 5, 2: 6}, needed)


@pytest.mark.parametrize(
    ("leader", "earlier", "now", "event", "broken"),
    [
        (-1, None, job(), TimerFired("any"), None),
        (2, None, job(), TimerFired("any"), "P-68"),
        (2, None, job(epoch=8), TimerFired("any"), None),
        (-1, job(), job(), TimerFired("any"), "P-68"),
        (-1, job(), job(), RequestFailed(1, "gone"), None),
        (-1, job(epoch=8), job(), TimerFired("any"), None),
        (-1, job(min_isr=1), job(), TimerFired("any"), None),
        (-1, job(needed=()), job(needed=()), TimerFired("any"), None),
    ],
)
def test_a_recovery_without_a_reason_breaks_p_68(
    knowledge: Knowledge, leader: int, earlier: RecoveryJob | None, now: RecoveryJob, event: Event, broken: str | None
) -> None:
    state = LEADERLESS._replace(leader=leader)
    before = Deciding(state, job=earlier) if earlier is not None else None
    ghost = knowledge.ghost("log", "id", 0)
    assert broken_by(lambda: _check_reason(knowledge, ghost, state, now, before, event)) == broken


@pytest.mark.parametrize("combined", [False, True])
def test_a_broker_that_asks_a_dead_controller_again_breaks_p_69(
    monkeypatch: pytest.MonkeyPatch, combined: bool
) -> None:
    monkeypatch.setattr(lifecycle, "try_another_controller", lambda *_: None)
    faults = [fault._replace(target=number) for number, fault in enumerate(CONTROLLERS_DIE)] if combined else None
    assert observe(faults=faults or CONTROLLERS_DIE, combined=combined).failed_property == "P-69"


def asked(number: int, request: AnyRequest) -> Send:
    return Send(number, 100, request, "control", 300)


@pytest.mark.parametrize(
    ("requests", "broken"), [((REPORT, IDS), None), ((REPORT, REPORT), "P-70"), ((IDS, REPORT, IDS), "P-70")]
)
def test_two_reports_at_a_time_break_p_70(
    knowledge: Knowledge, requests: tuple[AnyRequest, ...], broken: str | None
) -> None:
    broker = BrokerMirror(1)

    def send_all() -> None:
        for number, request in enumerate(requests):
            sent(knowledge, broker, asked(number, request), Disconnected(7))

    assert broken_by(send_all) == broken


@pytest.mark.parametrize("answered", [0, 1])
def test_a_report_that_is_answered_in_this_step_is_over(knowledge: Knowledge, answered: int) -> None:
    broker = BrokerMirror(1)
    sent(knowledge, broker, asked(0, REPORT), Disconnected(7))
    assert broken_by(lambda: sent(knowledge, broker, asked(2, REPORT), RequestFailed(answered, "late"))) == (
        "P-70" if answered else None
    )


def test_a_check_that_comes_too_soon_breaks_p_71(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = isr_changes.shrink_all

    def hasty(broker: Any) -> None:
        honest(broker)
        broker.runtime.set_timer((isr_changes.SHRINK,), 1)

    monkeypatch.setattr(isr_changes, "shrink_all", hasty)
    assert observe().failed_property == "P-71"


def test_a_check_of_a_controller_that_comes_too_soon_breaks_p_71(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = elections.check_quorum

    def hasty(quorum: Any) -> None:
        honest(quorum)
        if quorum.leads:
            quorum.runtime.set_timer((elections.CHECK,), 1)

    monkeypatch.setattr(elections, "check_quorum", hasty)
    assert observe().failed_property == "P-71"


@pytest.mark.parametrize("key", [(elections.CHECK,), (membership.SESSIONS,), (leader_elections.BALANCE,)])
def test_each_check_of_a_controller_has_its_interval(knowledge: Knowledge, key: tuple[str]) -> None:
    """A controller that leads anew, or that has just decided something, may look again at once (P-71)."""
    voter = next(iter(knowledge.voters.values()))
    settings = knowledge.settings
    state: Any = SimpleNamespace(settings=settings, quorum=SimpleNamespace(settings=settings, epoch=1), active=False)

    def fires(incarnation: int, *, decided: bool = False) -> str | None:
        return broken_by(lambda: intervals.of_controller(knowledge, voter, state, incarnation, key, decided=decided))

    assert fires(1) is None
    assert fires(2, decided=True) is None
    assert fires(2) is None
    assert fires(2) == "P-71"


@pytest.mark.parametrize("node_id", [1, 100])
def test_a_check_that_is_not_planned_again_breaks_p_71(knowledge: Knowledge, node_id: int) -> None:
    timers = knowledge.cluster.machines[node_id].timers
    of_loaded = (TIMER, EXPIRE, 7, 3)
    of_all = (*intervals._OF_BROKERS, of_loaded) if node_id == 1 else intervals._OF_ACTIVE_CONTROLLERS
    quorum = SimpleNamespace(settings=knowledge.settings, epoch=1)
    shards = {one: SimpleNamespace(partition=one, leader_epoch=3, load_from=at) for one, at in ((7, None), (8, 0))}
    state: Any = SimpleNamespace(
        settings=knowledge.settings, quorum=quorum, active=True, coordinator=SimpleNamespace(shards=shards)
    )

    def fires(key: tuple[str]) -> str | None:
        if node_id == 1:
            return broken_by(lambda: intervals.of_broker(knowledge, BrokerMirror(1), state, key))
        voter = knowledge.voters[node_id]
        return broken_by(lambda: intervals.of_controller(knowledge, voter, state, 1, key, decided=False))

    for missing in of_all:
        timers.clear()
        timers.update({planned: 1 for planned in of_all if planned != missing})
        assert fires(("any",)) == "P-71"
        timers[7, missing] = 1  # as a node of both roles names it
        assert fires(("any",)) is None
    timers.clear()
    state.active = False
    assert fires(("any",)) == ("P-71" if node_id == 1 else None)


@pytest.mark.parametrize(
    ("error", "epochs", "breaks"),
    [
        (ErrorCode.INVALID_UPDATE_VERSION, (4, 7), "P-22"),
        (ErrorCode.FENCED_LEADER_EPOCH, (4, 7), "P-22"),
        (ErrorCode.NEW_LEADER_ELECTED, (4, 7), "P-22"),
        (ErrorCode.INVALID_UPDATE_VERSION, (4, 8), None),
        (ErrorCode.REQUEST_TIMED_OUT, (4, 7), None),
    ],
)
def test_a_change_of_the_isr_that_is_asked_for_again_in_a_state_that_is_over_breaks_p_22(
    knowledge: Knowledge, error: ErrorCode, epochs: tuple[int, int], breaks: str | None
) -> None:
    knowledge.ghost("log", "id", 0)
    broker, state = BrokerMirror(1), SimpleNamespace(replicas={})

    def ask(request_id: int, leader_epoch: int, partition_epoch: int) -> None:
        part = AlterPartitionPartition("log", 0, leader_epoch, partition_epoch, ((1, 5),), topic_id="id")
        request = AlterPartitionRequest(1, 5, (part,))
        isr_proposals.request_sent(knowledge, broker, request_id, request)

    ask(1, 4, 7)
    answer = AlterPartitionResponse(ErrorCode.NONE, (AlteredPartition("log", 0, error, topic_id="id"),))
    isr_proposals.answered(knowledge, broker, cast("Any", state), ResponseReceived(1, answer))
    assert broken_by(lambda: ask(2, *epochs)) == breaks


@pytest.mark.parametrize(("begins_at", "breaks"), [(0, "P-22"), (2, "P-22"), (3, None), (-1, None)])
def test_an_isr_with_a_follower_that_has_not_deleted_what_its_leader_has_breaks_p_22(
    knowledge: Knowledge, begins_at: int, breaks: str | None
) -> None:
    broker, state = BrokerMirror(1), SimpleNamespace(rules=rules_for("K5", ()))
    request = AlterPartitionPartition("log", 0, 4, 7, ((1, 5), (2, 6)), topic_id="id")
    remotes = {2: SimpleNamespace(log_start=begins_at)}
    of_log = {"topic": "log", "topic_id": "id", "partition": 0, "log": SimpleNamespace(start_offset=3)}
    pending = PendingIsr((1, 2), request)
    leader = SimpleNamespace(**of_log, role=Role.LEADER, isr=(1,), remotes=remotes, pending_isr=pending)
    broker.proposed = [cast("Any", leader)]
    isr_proposals.request_sent(knowledge, broker, 1, AlterPartitionRequest(1, 5, (request,)))
    assert broken_by(lambda: isr_proposals.check(knowledge, broker, cast("Any", state))) == breaks


def test_leaders_that_are_not_balanced_any_more_break_p_71(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_elections, "start_balancing", lambda _controller: None)
    assert observe().failed_property == "P-71"


@pytest.mark.parametrize(
    ("leader", "isr", "offline", "active", "enabled", "breaks"),
    [
        (2, (1, 2), (), (1, 2), True, "P-80"),
        (2, (1, 2), (), (1, 2), False, None),
        (1, (1, 2), (), (1, 2), True, None),
        (-1, (1, 2), (), (1, 2), True, None),
        (2, (2,), (), (1, 2), True, None),
        (2, (1, 2), (1,), (1, 2), True, None),
        (2, (1, 2), (), (2,), True, None),
    ],
)
def test_a_preferred_leader_that_does_not_lead_once_leaders_are_balanced_breaks_p_80(
    knowledge: Knowledge,
    leader: int,
    isr: tuple[int, ...],
    offline: tuple[int, ...],
    active: tuple[int, ...],
    enabled: bool,
    breaks: str | None,
) -> None:
    topic = SimpleNamespace(name="log", partitions={0: PartitionState((1, 2), isr, leader, 0, 0, offline=offline)})
    settings = dataclasses.replace(knowledge.settings, auto_leader_rebalance_enable=enabled)
    state: Any = SimpleNamespace(
        settings=settings,
        quorum=SimpleNamespace(settings=settings, epoch=1),
        active=True,
        image=SimpleNamespace(topics={"id": topic}, is_active=lambda broker: broker in active),
    )
    knowledge.cluster.machines[100].timers.update(dict.fromkeys(intervals._OF_ACTIVE_CONTROLLERS, 1))
    key, voter = (leader_elections.BALANCE,), knowledge.voters[100]
    assert broken_by(lambda: intervals.of_controller(knowledge, voter, state, 1, key, decided=False)) == breaks


def test_a_broker_that_waits_before_it_says_that_it_has_caught_up_breaks_v_29(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = lifecycle.heartbeat_answered

    def slow(broker: Any, *arguments: Any) -> None:
        before = broker.caught_up
        honest(broker, *arguments)
        if broker.caught_up and not before:
            broker.runtime.set_timer((lifecycle.HEARTBEAT,), broker.settings.broker_heartbeat_interval_ms)

    monkeypatch.setattr(lifecycle, "heartbeat_answered", slow)
    assert observe().failed_property == "V-29"


@pytest.mark.parametrize(("offline", "broken"), [((3,), None), ((3, 3), "P-33")])
def test_a_replica_that_is_recorded_as_offline_twice_breaks_p_33(
    knowledge: Knowledge, offline: tuple[int, ...], broken: str | None
) -> None:
    ghost = knowledge.ghost("log", "id", 0)
    ghost.state = LEADERLESS._replace(leader=1, isr=(1, 2), offline=offline)
    assert broken_by(lambda: check_recorded(knowledge, ghost)) == broken


@pytest.mark.parametrize(
    ("replicas", "offline", "epoch", "broken"),
    [((1, 2), (), 7, "P-76"), ((1, 2), (1,), 7, None), ((2, 3), (), 7, None), ((1, 2), (), 8, None)],
)
def test_a_lost_replica_that_is_not_recorded_when_it_is_reported_breaks_p_76(
    replicas: tuple[int, ...], offline: tuple[int, ...], epoch: int, broken: str | None
) -> None:
    """Not of what the broker had no replica of then, whatever a reassignment gives it by the time of the answer."""
    image = SimpleNamespace(
        broker_epoch=lambda _: epoch,
        topic_names={"id": "log"},
        partition=lambda *_: LEADERLESS._replace(replicas=replicas, offline=offline),
    )
    controller = cast("Any", SimpleNamespace(settings=SimpleNamespace(node_id=100), image=image))
    request = AssignReplicasToDirsRequest(1, 7, ((LOST_DIRECTORY, "id", 0),))
    assert broken_by(lambda: to_brokers._check_recorded(controller, request)) == broken


def test_a_log_whose_segments_end_at_another_time_breaks_p_32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "segment_ms", lambda *_: 1 << 40)
    assert observe().failed_property == "P-32"
