"""Requests that are not answered in time break V-16, whoever owes the answer; waits that last too long, V-25."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core.broker_node.node import BrokerNode
from broker.core.broker_node.requests import fetching, forwarding
from broker.core.controller import changes, membership
from broker.core.controller.requests import metadata_fetches
from broker.core.messages import (
    AnyRequest,
    AssignReplicasToDirsRequest,
    CreateTopicsRequest,
    FetchRequest,
    InitProducerIdRequest,
    MetadataRequest,
    ProduceRequest,
)
from broker.core.messages.groups import HeartbeatRequest, OffsetCommitRequest, SyncGroupRequest
from broker.core.messages.refusals import ADMINISTRATION
from broker.core.ports.events import Disconnected, RequestReceived
from simulation.engine.cluster import EventStep
from simulation.engine.event_queue import MS
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.progress import requests
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import broken_by, observe

REPORT = AssignReplicasToDirsRequest(1, 1, ())
LONG = {"duration_ms": 30_000}
ASKED = [SimulatedFault(5_000 + 100 * number, "reassignment", 0, 4_000, number) for number in range(3)]
BROKERS, CONTROLLERS = range(3), range(3, 6)


def on(nodes: range, at_ms: int, kind: str, duration_ms: int, parameter: int = 0) -> list[SimulatedFault]:
    return [SimulatedFault(at_ms, kind, node, duration_ms, parameter) for node in nodes]


def broken(*faults: SimulatedFault) -> tuple[str | None, str]:
    outcome = observe(faults=[*ASKED, *faults], **LONG)
    return outcome.failed_property, str(outcome.failure)


def never_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers try again for as long as no controller answers."""
    honest = forwarding.forwarded

    def forwarded(broker: Any, asked: forwarding.ForwardedRequest, request: Any, response: Any) -> None:
        honest(broker, asked._replace(deadline_ms=1 << 40), request, response)

    monkeypatch.setattr(forwarding, "forwarded", forwarded)


def drop_answers(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """Let controllers forget administrators when a change is committed, or when they are deposed."""
    honest = getattr(changes, function)

    def forgetful(controller: Any) -> None:
        due = [
            pending
            for pending in controller.replies
            if isinstance(pending.request, ADMINISTRATION)
            and (function == "give_up" or pending.offset <= controller.quorum.high_watermark)
        ]
        controller.replies = [pending for pending in controller.replies if pending not in due]
        honest(controller)

    monkeypatch.setattr(changes, function, forgetful)


def test_a_broker_that_never_gives_up_breaks_v_16(monkeypatch: pytest.MonkeyPatch) -> None:
    never_give_up(monkeypatch)
    property_id, text = broken(*on(CONTROLLERS, 4_000, "kill", 20_000))
    assert property_id == "V-16"
    assert "broker" in text


def test_a_broker_that_gives_up_in_time_breaks_nothing() -> None:
    assert broken(*on(CONTROLLERS, 4_000, "kill", 20_000))[0] is None


def test_a_frozen_broker_need_not_answer() -> None:
    faults = [*on(CONTROLLERS, 4_000, "kill", 20_000), *on(BROKERS, 5_500, "pause", 10_000)]
    assert broken(*faults)[0] != "V-16"


def test_a_broker_that_was_frozen_has_to_answer_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    never_give_up(monkeypatch)
    faults = [*on(CONTROLLERS, 4_000, "kill", 20_000), *on(BROKERS, 5_500, "pause", 3_000)]
    assert broken(*faults)[0] == "V-16"


def test_a_controller_that_commits_and_does_not_answer_breaks_v_16(monkeypatch: pytest.MonkeyPatch) -> None:
    drop_answers(monkeypatch, "committed")
    property_id, text = broken()
    assert property_id == "V-16"
    assert "controller" in text


def test_a_controller_is_not_excused_by_another_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    drop_answers(monkeypatch, "committed")
    assert broken(*on(range(3, 4), 4_000, "kill", 20_000))[0] == "V-16"


def test_a_controller_whose_voters_cannot_sync_need_not_answer() -> None:
    assert broken(*on(CONTROLLERS, 4_900, "slow-disk", 20_000, 14_000))[0] != "V-16"


def test_a_former_controller_that_forgets_who_asked_breaks_v_16(monkeypatch: pytest.MonkeyPatch) -> None:
    drop_answers(monkeypatch, "give_up")
    faults = [
        *on(CONTROLLERS, 4_900, "slow-disk", 20_000, 14_000),
        *on(CONTROLLERS, 5_400, "isolate", 15_000),
    ]
    property_id, text = broken(*faults)
    assert property_id == "V-16"
    assert "former controller" in text


@pytest.mark.parametrize(
    ("active", "elections", "breaks"), [(False, True, "V-16"), (False, False, None), (True, True, None)]
)
def test_a_former_controller_keeps_no_elections(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch, active: bool, elections: bool, breaks: str | None
) -> None:
    state = SimpleNamespace(active=active, elections={5: "asked"} if elections else {})
    monkeypatch.setattr(requests, "controllers", lambda _cluster: [(100, state)])
    assert broken_by(lambda: requests.check(knowledge, knowledge.cluster, 0, works=True)) == breaks


@pytest.mark.parametrize(("runs", "given_up"), [(True, 1), (False, 0)])
def test_a_sender_whose_process_has_ended_has_not_given_up(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch, runs: bool, given_up: int
) -> None:
    """It asks no more: that it got no answer harms nobody."""
    sender = SimpleNamespace(node=object() if runs else None)
    monkeypatch.setattr(knowledge.cluster, "machines", {1: sender})
    for at_us, event in ((20_000 * MS, RequestReceived(5, 1, REPORT)), (21_900 * MS, Disconnected(1))):
        requests.stepped(knowledge, cast("EventStep", SimpleNamespace(node_id=100, event=event, effects=[])), 0, at_us)
    assert len(knowledge.unanswered[100].given_up) == given_up


@pytest.mark.parametrize(
    ("arrived_ms", "ended_ms", "request_", "breaks"),
    [
        (20_000, 21_900, REPORT, "V-16"),
        (20_000, 20_100, REPORT, None),  # its sender died
        (9_000, 11_000, REPORT, None),  # something had disturbed the controller
        (20_000, 21_900, FetchRequest((), max_wait_ms=5_000), None),  # it may wait
    ],
)
def test_a_controller_that_nothing_disturbs_answers_before_a_broker_gives_up(
    knowledge: Knowledge, arrived_ms: int, ended_ms: int, request_: AnyRequest, breaks: str | None
) -> None:
    knowledge.calm.majority_us = 5_000 * MS
    given_up = [(arrived_ms * MS, ended_ms * MS, RequestReceived(5, 1, request_))]
    assert broken_by(lambda: requests._check_given_up(knowledge, 100, given_up, 5_000 * MS)) == breaks


def test_a_client_that_gets_no_producer_id_breaks_v_16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "init_producer_id", lambda _broker, _request_id, _request: None)
    property_id, text = broken()
    assert property_id == "V-16"
    assert "InitProducerIdRequest" in text


def test_a_request_whose_connection_is_closed_need_not_be_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def close(broker: Any, request_id: int, _request: Any) -> None:
        connections = {one.connection for one in asked if one.request_id == request_id}
        for connection in connections:
            broker.runtime.refuse(connection, "a test")

    honest, asked = BrokerNode._request, []

    def request(node: Any, event: Any) -> None:
        asked.append(event)
        honest(node, event)

    monkeypatch.setattr(BrokerNode, "_request", request)
    monkeypatch.setattr(forwarding, "init_producer_id", close)
    assert broken()[0] != "V-16"


def test_a_follower_that_gets_no_answer_breaks_v_25(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fetching.handle

    def handle(broker: Any, event: Any, request: Any) -> None:
        if request.replica_id != 3 or broker.runtime.now_ms < 4_900:
            honest(broker, event, request)

    monkeypatch.setattr(fetching, "handle", handle)
    assert broken()[0] == "V-25"


def test_a_controller_that_keeps_a_heartbeat_breaks_v_16(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = membership.heartbeat

    def heartbeat(controller: Any, request_id: int, request: Any) -> None:
        if request.broker_id != 3 or controller.runtime.now_ms < 4_900:
            honest(controller, request_id, request)

    monkeypatch.setattr(membership, "heartbeat", heartbeat)
    assert broken()[0] == "V-16"


# --- V-25 -------------------------------------------------------------------------------------------------------------


def test_a_controller_that_forgets_who_waits_for_metadata_breaks_v_25(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = metadata_fetches.timed_out

    def timed_out(controller: Any, request_id: int) -> None:
        if controller.runtime.now_ms < 4_900:
            honest(controller, request_id)

    monkeypatch.setattr(metadata_fetches, "timed_out", timed_out)
    property_id, text = broken()
    assert property_id == "V-25"
    assert "FetchRequest" in text


def test_brokers_that_stand_still_are_not_too_late() -> None:
    paused = [SimulatedFault(5_000 + 4_000 * number, "pause", number, 3_000, 0) for number in range(6)]
    assert broken(*paused)[0] is None


@pytest.mark.parametrize(
    ("request_", "is_controller", "own_ms"),
    [
        (FetchRequest((), max_wait_ms=700), False, 700),
        (FetchRequest((), max_wait_ms=700), True, 700),
        (ProduceRequest(-1, 900, ()), False, 900),
        (OffsetCommitRequest("group", 1, "member", ()), False, 1_000),
        (MetadataRequest(), False, 0),
        (HeartbeatRequest("group", 1, "member"), False, 0),
        (SyncGroupRequest("group", 1, "member"), False, None),
        (InitProducerIdRequest(), False, None),
        (CreateTopicsRequest(()), False, None),
        (CreateTopicsRequest(()), True, None),
    ],
)
def test_what_a_node_may_wait_for_by_itself(
    knowledge: Knowledge, request_: AnyRequest, is_controller: bool, own_ms: int | None
) -> None:
    assert requests.own_time_ms(knowledge.settings, request_, is_controller=is_controller) == own_ms
