"""Nodes that are broker and controller: a fault of either role may hit them, and counts in both budgets."""

from __future__ import annotations

import pytest

from nemesis.capabilities.cluster import CLIENTS
from nemesis.faults import KINDS
from nemesis.targets import FaultTarget, Role, resolve
from tests.nemesis.test_nemesis import Stage, entry, leader
from tests.support.fake_cluster import FakeCluster, combined_cluster, site_of


def _cut(cluster: FakeCluster, kind: str, target: int, **parameters: str) -> set[tuple[int, int]]:
    KINDS[kind].aim(site_of(cluster), (target,), parameters).inject()
    return set(cluster.network.blocked())


@pytest.mark.parametrize(
    ("role", "nodes"),
    [
        ("leader", (2,)),
        ("broker", (2,)),
        ("majority", (2, 3)),
        ("everyone", (1, 2, 3)),
        ("controller", (2,)),
        ("active-controller", (1,)),
    ],
)
def test_a_node_of_both_roles_is_hit_as_either(role: Role, nodes: tuple[int, ...]) -> None:
    assert resolve(FaultTarget(role, partition=1, pick=1), combined_cluster()).nodes == nodes


def test_forgetful_brokers_wait_for_the_quorum_that_they_are_part_of() -> None:
    stage = Stage(
        [
            entry(1, 1, "page-cache-loss", leader(0)),
            entry(2, 5, "page-cache-loss", leader(1), beside=True),
        ],
        combined_cluster(),
        lossy_budget=2,
    )
    stage.cluster.lacking_metadata = frozenset({1})
    sleep = stage.clock.sleep

    def sleep_and_catch_up(seconds: float) -> None:
        sleep(seconds)
        stage.cluster.lacking_metadata = frozenset({1} if stage.clock.ns < 20 * 1_000_000_000 else ())

    stage.clock.sleep = sleep_and_catch_up
    stage.play()
    assert stage.starts_s()[1] == pytest.approx(20, abs=0.2)


def test_forgetful_controllers_wait_for_the_isr_of_the_brokers_that_they_are() -> None:
    stage = Stage(
        [
            entry(1, 1, "page-cache-loss", leader(0), 8),
            entry(2, 3, "page-cache-loss", FaultTarget("controller", pick=1), 1, beside=True),
        ],
        combined_cluster(),
    ).play()
    assert stage.starts_s()[1] >= 9


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if "plain-broker" in kind.needs])
def test_no_voter_forgets_what_it_has_synced(kind: str) -> None:
    stage = Stage(
        [entry(1, 1, kind, FaultTarget("broker", pick=pick)) for pick in range(3)], combined_cluster(2)
    ).play()
    assert stage.rows
    assert {target for row in stage.rows for target in row["targets"]} == {3}
    refused = Stage([entry(1, 1, kind, FaultTarget("broker"))], combined_cluster(3)).play()
    assert not refused.rows
    assert "no broker is left to hit" in refused.messages[0]


def test_the_kinds_that_forget_what_was_synced_are_known() -> None:
    assert {name for name, kind in KINDS.items() if "plain-broker" in kind.needs} == {
        *("bit-flip", "file-truncation", "file-loss", "disk-loss", "disk-rollback", "lying-fsync"),
    }


def test_halves_have_each_node_in_one_part_only() -> None:
    for where in ("targets", "rest", "active"):
        cut = _cut(combined_cluster(), "halves", 1, controller=where)
        assert cut == {(1, 2), (1, 3), (2, 1), (3, 1)}


def test_a_broker_is_cut_off_from_the_other_controllers_and_is_still_its_own() -> None:
    assert _cut(combined_cluster(2), "brokers-from-controllers", 1) == {(1, 2), (2, 1)}
    assert _cut(combined_cluster(2), "brokers-from-controllers", 3) == {(1, 3), (3, 1), (2, 3), (3, 2)}


@pytest.mark.parametrize(("party", "others"), [("brokers", {2, 3}), ("controllers", {2}), ("all", {CLIENTS, 2, 3})])
def test_a_node_of_both_roles_is_of_either_party(party: str, others: set[int]) -> None:
    assert {b for a, b in _cut(combined_cluster(2), "isolate", 1, **{"from": party}) if a == 1} == others
