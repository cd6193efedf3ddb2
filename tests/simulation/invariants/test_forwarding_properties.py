"""Producer ids that are given twice, or withheld, break P-54; controllers that get no time to answer, P-55."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node.requests import forwarding
from broker.core.messages import (
    AllocateProducerIdsResponse,
    CreateTopicsRequest,
    ElectLeadersRequest,
    InitProducerIdResponse,
    MetadataResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import ResponseReceived, Send, TimerFired
from simulation.engine.event_queue import MS
from simulation.invariants.administration import passed_on
from simulation.invariants.answers import producer_ids
from simulation.invariants.knowledge import Knowledge
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import broken_by, observe

ASKED = [SimulatedFault(5_000 + 500 * number, "preferred-election", 0, 4_000, number) for number in range(3)]

# --- P-54 -------------------------------------------------------------------------------------------------------------


def test_an_id_that_two_producers_get_breaks_p_54(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(broker: Any) -> None:
        waiting, broker.waiting_for_producer_ids = broker.waiting_for_producer_ids, []
        for request_id in waiting:
            broker.runtime.reply(request_id, InitProducerIdResponse(ErrorCode.NONE, 7, 0))

    monkeypatch.setattr(forwarding, "_serve_producer_ids", serve)
    assert observe(producers=3).failed_property == "P-54"


def test_a_producer_that_gets_no_id_of_a_new_block_breaks_p_54(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = forwarding._serve_producer_ids

    def serve(broker: Any) -> None:
        held, broker.producer_ids = broker.producer_ids, (0, 0)
        honest(broker)
        broker.producer_ids = held

    monkeypatch.setattr(forwarding, "_serve_producer_ids", serve)
    assert observe().failed_property == "P-54"


def test_ids_that_differ_break_nothing() -> None:
    assert observe(producers=3).failure is None


@pytest.mark.parametrize(
    ("block", "breaks"),
    [
        (AllocateProducerIdsResponse(ErrorCode.NONE, 1_000, 1_000), "P-54"),
        (AllocateProducerIdsResponse(ErrorCode.NONE, 1_000, 0), None),
        (AllocateProducerIdsResponse(ErrorCode.NOT_CONTROLLER, -1, 0), None),
        (MetadataResponse((), "", 1, ()), None),
    ],
)
def test_who_gets_no_id(knowledge: Knowledge, block: Any, breaks: str | None) -> None:
    refused = InitProducerIdResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    event = ResponseReceived(1, block)
    assert broken_by(lambda: producer_ids.answered(knowledge, 1, event, refused)) == breaks


def test_each_id_is_given_once(knowledge: Knowledge) -> None:
    for broker, number in ((1, 5), (2, 6)):
        producer_ids.answered(knowledge, broker, TimerFired("any"), InitProducerIdResponse(0, number, 0))
    again = InitProducerIdResponse(0, 5, 0)
    assert broken_by(lambda: producer_ids.answered(knowledge, 2, TimerFired("any"), again)) == "P-54"


# --- P-55 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [1, 100])
def test_an_attempt_that_is_given_up_too_soon_breaks_p_55(monkeypatch: pytest.MonkeyPatch, timeout_ms: int) -> None:
    honest = forwarding.pass_on

    def pass_on(broker: Any, asked: Any, request: Any) -> None:
        honest(broker, asked._replace(deadline_ms=broker.runtime.now_ms + timeout_ms), request)

    monkeypatch.setattr(forwarding, "pass_on", pass_on)
    assert observe(faults=ASKED).failed_property == "P-55"


def test_attempts_that_get_their_time_break_nothing() -> None:
    without_controllers = [SimulatedFault(4_500, "kill", node, 3_000, 0) for node in range(3, 6)]
    assert observe(faults=[*without_controllers, *ASKED]).failure is None


@pytest.mark.parametrize(
    ("after_ms", "patience_ms", "attempt_ms", "election_ms", "breaks"),
    [
        (0, 1_000, 2_000, 1_000, None),
        (0, 1_000, 1_999, 1_000, "P-55"),
        (2_500, 1_000, 500, 500, None),
        (2_500, 1_000, 499, 499, "P-55"),
        (2_500, 1_000, 500, 501, "P-55"),
        (0, 1_000, 2_000, 1_001, "P-55"),
    ],
)
def test_the_time_of_an_attempt(
    knowledge: Knowledge, after_ms: int, patience_ms: int, attempt_ms: int, election_ms: int, breaks: str | None
) -> None:
    arrived_ms = knowledge.clock_ms(1)
    knowledge.administered.forwarded[1, 4] = ElectLeadersRequest(1, None, patience_ms), arrived_ms
    knowledge.cluster.now_us += after_ms * MS
    effect = Send(1, 100, ElectLeadersRequest(1, None, election_ms), "control", attempt_ms)
    assert broken_by(lambda: passed_on.sent(knowledge, 1, effect)) == breaks
    own = effect._replace(request=CreateTopicsRequest(()), timeout_ms=1)
    assert broken_by(lambda: passed_on.sent(knowledge, 1, own)) is None
