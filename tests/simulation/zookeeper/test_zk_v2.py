"""The second design on ZooKeeper in the simulation: what it does rightly, and what random seeds find."""

from __future__ import annotations

import pytest

from broker.zookeeper.choices import DELETION_NEEDS_LEADER, KEEPS_REASSIGNMENT, RAW_HIGH_WATERMARK, switches_of
from simulation.invariants.observer import property_observers
from simulation.invariants.properties import divergence_excuse, is_documented
from simulation.runs.failures import findings
from simulation.runs.sweep import simulate
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.overrides import check_overrides
from simulation.zookeeper.observer import (
    CUT_TO_HIGH_WATERMARK,
    DELETED,
    DIFFERS,
    ENDS_INSIDE,
    NEVER_HELD,
    NOT_SYNCED,
)

V2 = {"generation": "zk-v2"}


@pytest.mark.parametrize("seed", range(1, 4))
def test_without_faults_nothing_is_lost(seed: int) -> None:
    outcome = cases.run(Case(seed, {**V2, "faults": (), "acks": -1}), property_observers())
    assert outcome.failure is None
    assert not findings(outcome)
    assert sum(row.status == "ok" and row.kind == "send" for row in outcome.history.operations) > 100


def test_a_seed_is_the_same_simulation_every_time() -> None:
    one, other = (simulate(3, V2, observed=True) for _ in range(2))
    assert (one.digest, one.events, one.findings) == (other.digest, other.events, other.findings)
    assert one.digest != simulate(3, {"generation": "zk-v1"}, observed=True).digest


@pytest.mark.parametrize(
    ("seed", "cause"),
    [(1630064, CUT_TO_HIGH_WATERMARK), (1630007, NOT_SYNCED), (197, NEVER_HELD), (208, DIFFERS)],
)
def test_a_random_seed_loses_what_was_acknowledged_by_a_documented_flaw(seed: int, cause: str) -> None:
    first = simulate(seed, V2, observed=True).findings[0]
    assert first.property_id == "P-1"
    assert cause in first.what
    assert is_documented(first.what)


def test_topics_that_come_and_go_lose_what_was_acknowledged_by_a_delayed_request_to_close() -> None:
    first = simulate(1, {**V2, "side_topics": True}, observed=True).findings[0]
    assert first.property_id == "P-1"
    assert DELETED in first.what


def test_the_leader_of_an_earlier_topic_has_no_epoch_of_the_next_one_by_its_name() -> None:
    """In this seed a broker opens a partition that was cleaned up and created again, and that another one leads."""
    assert not simulate(267, V2, observed=True).findings


def test_a_move_that_ends_never_is_found_and_excused_only_by_a_log_that_ends_inside_a_batch() -> None:
    """V-6; a leader that leaves the request in the tree (Q18) has no such excuse."""
    (stuck,) = simulate(1630225, V2, observed=True).findings
    assert stuck.property_id == "V-6"
    assert ENDS_INSIDE in stuck.what
    left = {**V2, "flaws": (KEEPS_REASSIGNMENT,), "faults": ("reassignment",)}
    (kept,) = simulate(1630001, left, observed=True).findings
    assert kept.property_id == "V-6"
    assert not is_documented(kept.what)


def test_what_is_about_to_open_is_moved() -> None:
    """In this seed a leader reads that its partition is not to move, and it is before the partition is open."""
    assert not simulate(114, V2, observed=True).findings


def test_replicas_stay_different() -> None:
    (divergence,) = simulate(1630002, V2, observed=True).findings
    assert divergence.property_id == "divergent-replicas"
    assert divergence_excuse("zk-v2") in divergence.what


@pytest.mark.parametrize(
    "name", sorted({*switches_of("zk-v2")} - {RAW_HIGH_WATERMARK, DELETION_NEEDS_LEADER})
)  # their stories show them
def test_every_switch_changes_what_some_seed_does(name: str) -> None:
    check_overrides({**V2, "flaws": (name,)})
    small = {**V2, "duration_ms": 20_000, "operations": 60, "faults": ("reassignment", "kill", "pause", "isolate")}
    flawed = {**small, "flaws": (name,)}
    assert any(
        simulate(seed, small, observed=False).digest != simulate(seed, flawed, observed=False).digest
        for seed in range(1, 25)
    )


@pytest.mark.parametrize(
    ("generation", "flaw"), [("zk-v2", "zk-follows-only-on-request"), ("zk-v1", "zk-epoch-in-leader-znode")]
)
def test_a_switch_of_the_other_design_is_refused(generation: str, flaw: str) -> None:
    with pytest.raises(ValueError, match=f"flaw: expected .*found '{flaw}'"):
        check_overrides({"generation": generation, "flaws": (flaw,)})
