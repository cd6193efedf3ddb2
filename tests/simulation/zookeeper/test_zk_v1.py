"""The first design on ZooKeeper in the simulation: what it does rightly, and what random seeds find."""

from __future__ import annotations

import pytest

from broker.zookeeper.choices import RAW_HIGH_WATERMARK, switches_of
from broker.zookeeper.requests.placement import place
from simulation.invariants.observer import property_observers
from simulation.invariants.properties import divergence_excuse, is_documented
from simulation.runs.failures import SimulationFinding, findings
from simulation.runs.sweep import simulate
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.overrides import check_overrides
from simulation.zookeeper.ensemble import SimulatedEnsemble
from simulation.zookeeper.observer import CUT_TO_HIGH_WATERMARK, TWO_LEADERS

V1 = {"generation": "zk-v1"}


def found(seed: int, **overrides: object) -> list[SimulationFinding]:
    return list(simulate(seed, {**V1, **overrides}, observed=True).findings)


@pytest.mark.parametrize("seed", range(1, 6))
def test_without_faults_nothing_is_lost(seed: int) -> None:
    outcome = cases.run(Case(seed, {**V1, "faults": (), "acks": -1}), property_observers())
    assert outcome.failure is None
    assert not findings(outcome)
    assert sum(row.status == "ok" and row.kind == "send" for row in outcome.history.operations) > 100
    assert any(row.phase == "final" for row in outcome.history.operations)


def test_a_seed_is_the_same_simulation_every_time() -> None:
    one, other = (simulate(3, V1, observed=True) for _ in range(2))
    assert (one.digest, one.events, one.findings) == (other.digest, other.events, other.findings)
    assert one.digest != simulate(4, V1, observed=True).digest


@pytest.mark.parametrize(("seed", "cause"), [(62, CUT_TO_HIGH_WATERMARK), (60, TWO_LEADERS)])
def test_random_seeds_find_both_ways_to_lose_what_was_acknowledged(seed: int, cause: str) -> None:
    first, *rest = found(seed)
    assert first.property_id in ("P-1", "P-8")
    assert cause in first.what
    assert is_documented(first.what)
    assert "lost-acked-write" in {one.property_id for one in rest}, "the clients' history shows it too"


def test_a_leader_that_wins_again_while_it_is_open_is_looked_at_again() -> None:
    first, *_ = found(43)
    assert first.property_id == "P-1"
    assert TWO_LEADERS in first.what


def test_replicas_that_stay_different_are_a_flaw_of_the_design_and_of_no_later_one() -> None:
    (divergence,) = (one for one in found(62) if one.property_id == "divergent-replicas")
    assert "Z-04" in divergence.what
    assert is_documented(divergence.what)
    assert [divergence_excuse(generation) for generation in ("K1", "K3", "K5")] == ["", "", ""]


def test_two_leaders_acknowledge_at_a_time() -> None:
    first, *_ = found(93)
    assert first.property_id == "P-8"
    assert TWO_LEADERS in first.what


@pytest.mark.parametrize("is_noted", [True, False])
def test_no_leader_is_documented_only_where_a_deposed_leader_has_written_the_isr(
    is_noted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_noted:
        monkeypatch.setattr(SimulatedEnsemble, "_note", lambda *_: None)
    first, *_ = found(225)
    assert first.property_id == "V-3"
    assert is_documented(first.what) == is_noted


@pytest.mark.parametrize(
    "name", sorted({*switches_of("zk-v1")} - {RAW_HIGH_WATERMARK})
)  # which needs a narrow fetch: its story
def test_every_switch_changes_what_some_seed_does(name: str) -> None:
    check_overrides({**V1, "flaws": (name,)})
    small = {**V1, "duration_ms": 20_000, "operations": 60, "side_topics": True}
    flawed = {**small, "flaws": (name,)}
    assert any(
        simulate(seed, small, observed=False).digest != simulate(seed, flawed, observed=False).digest
        for seed in range(1, 25)
    )


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"generation": "zk-v9"}, "generation: expected .*K1.*zk-v1.*, found 'zk-v9'"),
        ({"generation": "zk-v1", "client": "aiokafka"}, "client: expected model with zk-v1, found 'aiokafka'"),
        ({"generation": "zk-v1", "flaws": ("unclean-election",)}, "flaw: expected .*found 'unclean-election'"),
    ],
)
def test_a_wrong_name_is_refused_in_one_line(overrides: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        check_overrides(overrides)


@pytest.mark.parametrize(
    ("brokers", "partitions", "factor", "placed"),
    [
        ([1, 2, 3], 3, 2, [(1, 2), (2, 3), (3, 1)]),
        ([3, 1, 2], 4, 2, [(1, 2), (2, 3), (3, 1), (1, 3)]),  # k = 1: one further along
        ([1, 2], 4, 2, [(1, 2), (2, 1), (1, 2), (2, 1)]),  # where the formula meets the first replica: the next broker
        ([5], 2, 1, [(5,), (5,)]),
    ],
)
def test_replicas_are_placed_by_the_formula_on_brokers_of_their_own(
    brokers: list[int], partitions: int, factor: int, placed: list[tuple[int, ...]]
) -> None:
    assert place(brokers, partitions, factor) == placed
