"""Brokers that do not end break V-8, markers of a clean stop that lie P-38, and members that nobody misses P-39."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node import lifecycle, storage
from broker.core.broker_node.groups import rebalancing
from broker.core.log import checkpoints
from broker.core.metadata.records import BrokerRegistered, PartitionState
from simulation.invariants import metadata, processes
from simulation.invariants.knowledge import Knowledge
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from tests.simulation.invariants.planting import observe

RESTART = SimulatedFault(5_000, "restart", 1, 14_000, 0)
STOPPING: dict[str, object] = {"duration_ms": 30_000, "controlled_shutdown_ms": 1_000}


def broken(*faults: SimulatedFault, **overrides: object) -> str | None:
    return observe(faults=faults, **{**STOPPING, **overrides}).failed_property


# --- V-8 --------------------------------------------------------------------------------------------------------------


def never_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "finish", lambda _broker: None)


def test_brokers_that_stop_break_nothing() -> None:
    assert broken(RESTART) is None


def test_a_broker_that_does_not_stop_breaks_v_8(monkeypatch: pytest.MonkeyPatch) -> None:
    never_stop(monkeypatch)
    assert broken(RESTART) == "V-8"


def test_a_broker_that_nobody_releases_has_to_stop_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off = SimulatedFault(4_900, "isolate", 1, 16_000, 0)
    assert broken(RESTART, cut_off) is None
    never_stop(monkeypatch)
    assert broken(RESTART, cut_off) == "V-8"


def test_a_frozen_broker_need_not_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    never_stop(monkeypatch)
    assert broken(RESTART, SimulatedFault(5_050, "pause", 1, 14_900, 0)) != "V-8"


def test_a_broker_has_as_long_as_its_shutdown_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    never_stop(monkeypatch)
    assert broken(RESTART, controlled_shutdown_ms=30_000) != "V-8"


# --- P-38 -------------------------------------------------------------------------------------------------------------


def test_a_clean_stop_without_a_marker_breaks_p_38(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "mark_clean_stop", lambda _broker: None)
    assert broken(RESTART) == "P-38"


def test_a_marker_of_another_epoch_breaks_p_38(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = checkpoints.write_clean_shutdown

    def write(files: Any, broker_epoch: int, directories: int = 1) -> None:
        honest(files, broker_epoch + 1, directories)

    monkeypatch.setattr(checkpoints, "write_clean_shutdown", write)
    assert broken(RESTART) == "P-38"


def test_a_marker_that_stays_breaks_p_38(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "delete_clean_shutdown", lambda *_arguments: None)
    assert broken(RESTART) == "P-38"


def test_a_broker_that_was_never_registered_needs_no_marker() -> None:
    down = [SimulatedFault(4_000, "kill", node, 20_000, 0) for node in (3, 4, 5)]
    again = [SimulatedFault(6_000, "kill", 1, 1_000, 0), SimulatedFault(8_000, "restart", 1, 3_000, 0)]
    assert broken(*down, *again) is None


# --- P-39 -------------------------------------------------------------------------------------------------------------


def grouped(seed: int, *faults: SimulatedFault) -> SimulationOutcome:
    return observe(seed=seed, faults=faults, duration_ms=40_000, partitions=2, group_members=3)


def test_members_who_leave_in_every_way_break_nothing() -> None:
    assert {grouped(seed).failed_property for seed in range(3)} == {None}


def test_a_member_whose_session_never_ends_breaks_p_39(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "session_expired", lambda *_arguments: None)
    assert "P-39" in {grouped(seed).failed_property for seed in range(3)}


def test_a_member_that_is_expected_of_nobody_breaks_p_39(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "expect_heartbeat", lambda *_arguments: None)
    assert "P-39" in {grouped(seed).failed_property for seed in range(3)}


def test_a_frozen_coordinator_need_not_remove_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "session_expired", lambda *_arguments: None)
    times_ms = range(2_500, 39_500, 3_000)
    pauses = [SimulatedFault(at_ms, "pause", node, 1_000, 0) for at_ms in times_ms for node in range(3)]
    outcome = grouped(0, *pauses)
    assert outcome.failed_property != "P-39" or outcome.virtual_ms > 40_000


@pytest.mark.parametrize(("clean_epoch", "is_clean"), [(30, True), (-1, False)])
def test_a_process_that_registers_in_the_step_in_which_it_ends_has_started_cleanly_if_the_last_one_ended_so(
    knowledge: Knowledge, clean_epoch: int, is_clean: bool
) -> None:
    """P-7: nobody has seen it; its eligibility is kept, and the next one has no marker any more."""
    ghost = knowledge.ghost("log", "id", 0)
    ghost.state = PartitionState((1, 2), (1,), 1, 0, 0)
    broker = knowledge.brokers[2]
    broker.up, broker.incarnation, broker.clean_epoch = False, 2, clean_epoch
    knowledge.cluster.machines[2].incarnation = 3
    processes.crashed(knowledge, knowledge.cluster, 2, -1)
    metadata._registered(knowledge, BrokerRegistered(2, "2/3", (), None), 30)
    assert (2 not in ghost.unadmitted) == is_clean
    metadata._registered(knowledge, BrokerRegistered(2, "2/4", (), None), 30)
    assert 2 in ghost.unadmitted
