"""What retention permits is not reported, and every other deletion is: P-D1 and P-10, and what the judge excuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.core.broker_node.requests import deletion
from broker.core.replica.state import Replica, Role
from broker.core.rules.requests import FetchRules
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants.observer import PropertyObserver
from simulation.runs.failures import findings
from simulation.runs.sweep import simulate
from simulation.scenario.clocks import BEGINNING_MS, clock_ahead_ms, clocks_ahead_ms
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from tests.simulation.invariants.planting import Plant, observe, replica_of

BY_TIME: dict[str, object] = {"segment_bytes": 300, "retention_ms": 5_000}
BY_SIZE: dict[str, object] = {"segment_bytes": 300, "retention_bytes": 1_000}
OLD: dict[str, object] = {"segment_bytes": 300, "retention_ms": 600_000}
LARGE: dict[str, object] = {"segment_bytes": 300, "retention_bytes": 600_000}
WRONG: dict[str, object] = {"clock_error_ms": 30_000}


def first_start(outcome: SimulationOutcome) -> int:
    return max(log.start for log in outcome.logs.values())


@pytest.mark.parametrize(
    "settings",
    [
        BY_TIME,
        BY_SIZE,
        {**BY_TIME, **BY_SIZE},
        {**BY_TIME, "log_append_time": True},
        {**BY_TIME, **WRONG},
        {**BY_TIME, **WRONG, "log_append_time": True},
        {**BY_TIME, "in_flight": 5},
    ],
)
def test_what_retention_deletes_is_neither_a_violation_nor_lost(settings: dict[str, object]) -> None:
    restart = SimulatedFault(9_000, "restart", 0, 2_000, 0)
    outcome = observe(faults=(restart,), **settings)
    assert first_start(outcome) > 0
    assert findings(outcome) == []


def deleting(role: Role, end: Callable[[Replica], int]) -> Plant:
    """A broker that raises the start of its log, though nobody has asked for that and nothing is old."""

    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, role)
        if replica is None or replica.high_watermark < 20:
            return False
        replica.log.advance_start(end(replica))
        return True

    return Plant(lie)


@pytest.mark.parametrize("settings", [{}, OLD, LARGE, {**OLD, **LARGE}, {**OLD, "log_append_time": True}])
def test_records_that_are_deleted_before_their_time_break_p_d1(settings: dict[str, object]) -> None:
    outcome = observe(deleting(Role.LEADER, lambda replica: 10), **settings)
    assert outcome.failed_property == "P-D1", outcome.failure


def test_a_follower_that_deletes_what_no_leader_has_deleted_breaks_p_d1() -> None:
    outcome = observe(deleting(Role.FOLLOWER, lambda replica: 10), **OLD)
    assert outcome.failed_property == "P-D1", outcome.failure


def test_a_follower_may_delete_what_the_leader_of_its_epoch_deleted_before_an_unclean_election_gave_that_up() -> None:
    assert not simulate(13007791, {"search": "mixed", "keyed_topic": False}, observed=True).findings


@pytest.mark.parametrize("settings", [BY_TIME, BY_SIZE])
def test_a_segment_too_much_breaks_p_d1(settings: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are too young, or the log would be small enough without: retention permits only what is before."""
    retain = deletion.retain

    def eager(broker: object) -> None:
        retain(broker)  # type: ignore[arg-type]
        for replica in broker.replicas.values():  # type: ignore[attr-defined]
            if replica.role is Role.LEADER and replica.topic == "log" and replica.log.start_offset:
                following = [one for one in replica.log.segment_offsets[1:] if one <= replica.high_watermark]
                replica.log.advance_start(max(following, default=0))

    monkeypatch.setattr(deletion, "retain", eager)
    outcome = observe(**settings)
    assert outcome.failed_property == "P-D1", outcome.failure


def test_retention_above_the_high_watermark_breaks_p_10(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FetchRules, "deletion_bound", lambda rules, high_watermark, log_end: log_end)
    alone = [SimulatedFault(6_000, "kill", number, 12_000, 0) for number in (1, 2)]
    broken = {
        observe(faults=alone, seed=seed, **{**BY_TIME, "retention_ms": 1_000, "lag_ms": 15_000}).failed_property
        for seed in range(1, 5)
    }
    assert "P-10" in broken


def lacking(outcome: SimulationOutcome, **different: object) -> list[str]:
    return [one.property_id for one in findings(replace(outcome, **different))]  # type: ignore[arg-type]


def test_the_judge_excuses_only_what_was_asked_for_or_what_retention_permits() -> None:
    outcome = observe(**BY_TIME)
    assert first_start(outcome) > 0
    assert lacking(outcome) == []
    keeping = replace(outcome.configuration, retention_ms=0)
    assert lacking(outcome, configuration=keeping)[0] == "lost-acked-write"
    assert lacking(outcome, configuration=keeping, deleted={0: first_start(outcome)}) == []
    assert lacking(outcome, configuration=keeping, deleted={0: 1})[0] == "lost-acked-write"
    longer = replace(outcome.configuration, retention_ms=outcome.virtual_ms)
    assert lacking(outcome, configuration=longer)[0] == "lost-acked-write"
    assert lacking(outcome, configuration=longer, clocks_jumped_ms=outcome.virtual_ms) == []


def test_the_judge_does_not_excuse_a_log_that_was_not_too_large() -> None:
    outcome = observe(**BY_SIZE)
    assert first_start(outcome) > 0
    assert lacking(outcome) == []
    larger = replace(outcome.configuration, retention_bytes=50_000)
    assert lacking(outcome, configuration=larger)[0] == "lost-acked-write"


def test_one_clock_of_three_is_right_one_ahead_and_one_behind() -> None:
    dated = Configuration(clock_error_ms=7)
    assert sorted(clock_ahead_ms(dated, node) - BEGINNING_MS for node in (1, 2, 3)) == [-7, 0, 7]
    assert clocks_ahead_ms(dated) == (BEGINNING_MS - 7, BEGINNING_MS + 7)
    assert {clock_ahead_ms(Configuration(), node) for node in (1, 2, 3)} == {0}


def test_a_batch_that_gets_another_time_than_the_answer_says_breaks_p_12(monkeypatch: pytest.MonkeyPatch) -> None:
    from broker.core.broker_node.requests import producing

    monkeypatch.setattr(producing, "_append_time", lambda header: BEGINNING_MS)
    outcome = observe(PropertyObserver(), **{**BY_TIME, "log_append_time": True})
    assert outcome.failed_property == "P-12", outcome.failure
