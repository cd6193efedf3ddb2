"""Requests and answers of an earlier state that are taken up break P-40 to P-43, a high watermark that waits V-22."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.messages import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    FetchedPartition,
    FetchResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Reply, RequestReceived, ResponseReceived
from broker.core.replica.state import Role
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.node_views import leading
from simulation.invariants.answers import of_leaders, to_brokers
from simulation.invariants.ghost import ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.workload.clients import TOPIC
from tests.simulation.invariants.planting import Plant, broken_by, change_rules, observe

LONG = {"duration_ms": 30_000}
TO_CONTROLLERS = (5, 7, 9)
"""Parameters of late connections from a broker, of three, to each of three controllers: those that control it."""


def late_heartbeats(*plants: Plant) -> SimulationOutcome:
    """What a broker has asked of the controllers arrives when its next incarnation is registered."""
    late = [SimulatedFault(5_000, "late-connection", 0, 2 * 6_000, link) for link in TO_CONTROLLERS]
    return observe(*plants, faults=[*late, SimulatedFault(6_500, "kill", 0, 500, 0)], **LONG)


def test_a_request_of_an_ended_incarnation_that_is_refused_breaks_nothing() -> None:
    assert late_heartbeats().failure is None


def test_a_request_of_an_ended_incarnation_that_is_obeyed_breaks_p_40() -> None:
    obeying = change_rules("registration", is_current=lambda *_epochs: True)
    assert late_heartbeats(obeying).failed_property == "P-40"


@pytest.mark.parametrize(
    ("ahead_by", "answer", "broken"),
    [
        (1, ErrorCode.INVALID_UPDATE_VERSION, "P-41"),
        (1, ErrorCode.NONE, "P-41"),
        (1, ErrorCode.NOT_CONTROLLER, None),
        (0, ErrorCode.INVALID_UPDATE_VERSION, None),
        (-1, ErrorCode.INVALID_UPDATE_VERSION, None),
    ],
)
def test_a_controller_that_knows_less_than_who_asks_must_say_so(
    ahead_by: int, answer: ErrorCode, broken: str | None
) -> None:
    found: list[str | None] = []

    def judge(cluster: SimulatedCluster, _step: EventStep) -> bool:
        controller = leading(cluster)
        state = None if controller is None else controller.image.partition(TOPIC, 0)
        if controller is None or state is None:
            return False
        part = AlterPartitionPartition(TOPIC, 0, state.leader_epoch, state.partition_epoch + ahead_by, ())
        asked = AlterPartitionRequest(state.leader, controller.image.broker_epoch(state.leader), (part,))
        replied = Reply(7, AlterPartitionResponse(ErrorCode.NONE, (AlteredPartition(TOPIC, 0, answer),)))
        known, received = Knowledge.of(cluster), RequestReceived(7, 1, asked)
        found.append(broken_by(lambda: to_brokers.stepped(known, controller, 1, received, [replied])))
        return True

    observe(Plant(judge))
    assert found == [broken]


def held_answers(*plants: Plant) -> str | None:
    """The first property that breaks while fetches are late by some elections, in many forms of that recipe."""
    for parameter in range(0, 4_000, 37):
        faults = [SimulatedFault(at_ms, "fetch-held-over-elections", 0, 1, parameter) for at_ms in (4_000, 9_000)]
        outcome = observe(*plants, faults=faults, in_flight=5, operations=200)
        if outcome.failed_property is not None:
            return outcome.failed_property
        if not plants and parameter > 500:
            break
    return None


def test_late_answers_that_are_passed_over_break_nothing() -> None:
    assert held_answers() is None


@pytest.mark.slow
def test_a_follower_that_takes_an_answer_of_another_epoch_breaks_p_42() -> None:
    assert held_answers(change_rules("truncation", accepts_answer=lambda *_states: True)) == "P-42"


@pytest.mark.parametrize(
    ("diverging", "before", "high_watermark", "log_start", "breaks"),
    [
        ((0, 4), 3, 4, 0, "P-42"),
        (None, 3, 4, 0, None),  # an answer like any other
        ((0, 4), 3, 3, 0, None),
        ((0, 4), 5, 4, 0, None),  # the cut has taken it along
        ((0, 4), 3, 4, 4, None),  # what is deleted is deleted
    ],
)
def test_a_high_watermark_that_an_answer_about_divergence_raises_breaks_p_42(
    diverging: tuple[int, int] | None, before: int, high_watermark: int, log_start: int, breaks: str | None
) -> None:
    log = SimpleNamespace(end_offset=4, start_offset=log_start)
    replica: Any = SimpleNamespace(
        topic=TOPIC, partition=0, topic_id="id", log=log, high_watermark=high_watermark, role=Role.FOLLOWER,
        leader=2, retry_fetch_at_ms=0,
    )  # fmt: skip
    broker, key = BrokerMirror(1), (TOPIC, 0)
    broker.mirrors[key] = ReplicaMirror(1, replica=replica)
    broker.mirrors[key].seen = (6, before, 0, 1)
    broker.fetches[7] = 2, 0, {key: (6, 1)}
    state: Any = SimpleNamespace(replicas={key: replica}, runtime=SimpleNamespace(now_ms=0))
    part = FetchedPartition(TOPIC, 0, ErrorCode.NONE, 4, diverging_epoch=diverging)
    event = ResponseReceived(7, FetchResponse((part,), 0, session_id=3))
    assert broken_by(lambda: of_leaders.check(broker, state, event)) == breaks


def stops_in_turn(*plants: Plant, clean: bool) -> SimulationOutcome:
    """A broker dies, then another one stops and returns, which leaves the ISR too small and is eligible to lead."""
    faults = [
        SimulatedFault(4_000, "kill", 2, 20_000, 0),
        SimulatedFault(9_000, "restart" if clean else "kill", 1, 1_500, 0),
    ]
    return observe(*plants, faults=faults, **LONG)


def test_a_clean_stop_that_costs_eligibility_breaks_p_43() -> None:
    suspicious = change_rules("registration", stopped_cleanly=lambda *_known: False)
    assert stops_in_turn(suspicious, clean=True).failed_property == "P-43"
    assert stops_in_turn(clean=True).failure is None


def test_a_crash_may_cost_eligibility() -> None:
    assert stops_in_turn(clean=False).failure is None


def test_a_start_that_fails_may_use_up_what_a_clean_stop_left_behind() -> None:
    faults = [
        SimulatedFault(4_000, "kill", 2, 20_000, 0),
        SimulatedFault(9_000, "restart", 1, 1_500, 0),
        SimulatedFault(10_500, "disk-error", 1, 3_000, 0),
    ]
    assert observe(faults=faults, **LONG).failure is None


def two_followers_die(*plants: Plant) -> SimulationOutcome:
    faults = [SimulatedFault(5_000, "kill", node, 15_000, 0) for node in (1, 2)]
    return observe(*plants, faults=faults, min_insync_replicas=1, **LONG)


def test_a_high_watermark_that_moves_with_the_isr_breaks_nothing() -> None:
    assert two_followers_die().failure is None


def test_a_high_watermark_that_waits_for_the_next_fetch_breaks_v_22() -> None:
    waiting = change_rules("high_watermark", moves_with_isr=lambda: False)
    assert two_followers_die(waiting).failed_property == "V-22"
