"""Laggards that stay, replicas that do not return, and refusals without a reason break V-13, V-14 and P-31."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node.node import BrokerNode
from broker.core.log.producer_state import ProducerStates, Verdict
from broker.core.messages.errors import ErrorCode
from broker.core.replica.state import Role
from broker.core.rules.requests import ProduceRules
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import Plant, change_rules, observe, replica_of

LEADER = 6
"""The target that stands for the leader of the first partition, in a cluster of three brokers and three controllers."""

LONG = {"duration_ms": 30_000}
FOLLOWER_CUT_OFF = SimulatedFault(4_000, "one-way", LEADER, 20_000, 1)
"""Nothing that the first of the other nodes, a follower, sends to the leader arrives."""


def never_lagging() -> Plant:
    """A leader that takes each follower to have caught up just now; of a laggard that it knows of, P-22 judges."""

    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica, node = replica_of(cluster, step, Role.LEADER), cluster.machines[step.node_id].node
        if replica is not None and isinstance(node, BrokerNode):
            for remote in replica.remotes.values():
                remote.caught_up_ms = node.state.runtime.now_ms
        return False

    return Plant(lie, after_ms=0)


def never_returning() -> Plant:
    return change_rules("isr", has_caught_up=lambda *_ends: False)


def controllers_down(*nodes: int) -> list[SimulatedFault]:
    return [SimulatedFault(4_000, "kill", node, 20_000, 0) for node in nodes]


def test_a_laggard_that_leaves_the_isr_breaks_nothing() -> None:
    assert observe(faults=[FOLLOWER_CUT_OFF], **LONG).failure is None


def test_a_laggard_that_stays_breaks_v_13_while_the_fault_lasts() -> None:
    outcome = observe(never_lagging(), faults=[FOLLOWER_CUT_OFF], **LONG)
    assert outcome.failed_property == "V-13"
    assert outcome.virtual_ms < 24_000


def test_nobody_is_blamed_for_a_laggard_while_no_controller_can_commit() -> None:
    faults = [FOLLOWER_CUT_OFF, *controllers_down(3, 4)]
    assert observe(never_lagging(), faults=faults, **LONG).failed_property != "V-13"


def test_a_controller_that_is_down_excuses_no_laggard_while_a_majority_is_up() -> None:
    faults = [FOLLOWER_CUT_OFF, *controllers_down(5)]
    assert observe(never_lagging(), faults=faults, **LONG).failed_property == "V-13"


def test_a_laggard_is_excused_while_its_leader_cannot_reach_the_controllers() -> None:
    faults = [FOLLOWER_CUT_OFF, SimulatedFault(4_000, "brokers-from-controllers", 0, 20_000, 0)]
    assert observe(never_lagging(), faults=faults, **LONG).failed_property != "V-13"


def test_a_replica_that_does_not_return_breaks_v_14() -> None:
    outcome = observe(never_returning(), faults=[SimulatedFault(5_000, "kill", 1, 1_000, 0)], **LONG)
    assert outcome.failed_property == "V-14"
    assert outcome.virtual_ms < 30_000


def test_a_fault_elsewhere_does_not_excuse_a_replica_that_does_not_return() -> None:
    pauses = [SimulatedFault(at_ms, "pause", 5, 2_000, 0) for at_ms in range(5_000, 28_000, 3_000)]
    faults = [SimulatedFault(5_000, "kill", 1, 1_000, 0), *pauses]
    assert observe(never_returning(), faults=faults, **LONG).failed_property == "V-14"
    assert observe(never_returning(), faults=faults, **LONG, fetch_bytes=500).failed_property == "V-14"


def test_a_replica_that_cannot_reach_its_leader_need_not_return() -> None:
    faults = [SimulatedFault(5_000, "kill", 1, 1_000, 0), SimulatedFault(5_500, "isolate", 1, 23_000, 0)]
    assert observe(never_returning(), faults=faults, **LONG).virtual_ms > 30_000


def refuse_once(monkeypatch: pytest.MonkeyPatch, answer: ErrorCode) -> None:
    """Let the verdict on the tenth batch of a producer be this one."""
    honest, asked = ProducerStates.verdict, [0]

    def lie(states: ProducerStates, header: Any) -> Verdict:
        asked[0] += header.producer_id >= 0
        return Verdict(answer) if asked[0] == 10 else honest(states, header)

    monkeypatch.setattr(ProducerStates, "verdict", lie)


@pytest.mark.parametrize("answer", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_batch_in_order_that_is_refused_breaks_p_31(monkeypatch: pytest.MonkeyPatch, answer: ErrorCode) -> None:
    refuse_once(monkeypatch, answer)
    assert observe().failed_property == "P-31"


def test_a_repeated_batch_that_is_refused_breaks_p_31(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ProducerStates.verdict

    def lie(states: ProducerStates, header: Any) -> Verdict:
        verdict = honest(states, header)
        return Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) if verdict.duplicate_of is not None else verdict

    monkeypatch.setattr(ProducerStates, "verdict", lie)
    assert observe(answer_lost_of_1000=200).failed_property == "P-31"


def test_a_sound_batch_that_is_called_corrupt_breaks_p_31(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_once(monkeypatch, ErrorCode.CORRUPT_MESSAGE)
    assert observe().failed_property == "P-31"


def test_a_write_that_is_refused_though_the_isr_is_large_enough_breaks_p_31(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_rules: ProduceRules, acks: int, isr: tuple[int, ...], min_isr: int) -> ErrorCode:
        return ErrorCode.NOT_ENOUGH_REPLICAS if acks == -1 and len(isr) <= min_isr else ErrorCode.NONE

    monkeypatch.setattr(ProduceRules, "refuse", refuse)
    faults = [SimulatedFault(5_000, "kill", 1, 10_000, 0)]
    assert observe(faults=faults).failed_property == "P-31"
    monkeypatch.undo()
    assert observe(faults=faults).failure is None


def test_an_isr_below_min_isr_excuses_no_refusal_after_it_has_grown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ProduceRules.refuse
    shrunk = [False]

    def refuse(rules: ProduceRules, acks: int, isr: tuple[int, ...], min_isr: int) -> ErrorCode:
        shrunk[0] = shrunk[0] or len(isr) < min_isr
        return ErrorCode.NOT_ENOUGH_REPLICAS if shrunk[0] and len(isr) >= 3 else honest(rules, acks, isr, min_isr)

    monkeypatch.setattr(ProduceRules, "refuse", refuse)
    faults = [SimulatedFault(5_000, "kill", node, 3_000, 0) for node in (1, 2)]
    assert observe(faults=faults, **LONG).failed_property == "P-31"


def test_a_write_that_is_begun_with_though_the_isr_is_too_small_breaks_p_31(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProduceRules, "refuse", lambda *_asked: ErrorCode.NONE)
    faults = [SimulatedFault(5_000, "kill", node, 10_000, 0) for node in (1, 2)]
    assert observe(faults=faults, **LONG).failed_property == "P-31"
    assert observe(faults=faults[:1], **LONG).failure is None
