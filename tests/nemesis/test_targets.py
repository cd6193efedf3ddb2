from __future__ import annotations

import pytest

from nemesis.targets import FaultTarget, NoTarget, Role, resolve
from tests.support.fake_cluster import FakeCluster, quorum_cluster


@pytest.mark.parametrize(
    ("role", "nodes"),
    [
        ("leader", (2,)),
        ("in-sync-follower", (3,)),
        ("in-sync-replicas", (1, 2, 3)),
        ("broker", (2,)),
        ("minority", (2,)),
        ("majority", (2, 3)),
        ("brokers", (1, 2, 3)),
        ("everyone", (1, 2, 3, 100)),
        ("active-controller", (100,)),
        ("controller", (100,)),
    ],
)
def test_a_role_becomes_nodes_when_the_fault_fires(role: Role, nodes: tuple[int, ...]) -> None:
    assert resolve(FaultTarget(role, partition=1, pick=1), FakeCluster()).nodes == nodes


def test_the_pick_decides_between_equals() -> None:
    picked = {resolve(FaultTarget("broker", pick=pick), FakeCluster()).nodes[0] for pick in range(3)}
    assert picked == {1, 2, 3}


def test_the_choice_names_the_partition() -> None:
    assert resolve(FaultTarget("leader", partition=4), FakeCluster()).role == "the leader of harrow-1"


def test_nodes_that_another_fault_holds_are_spared() -> None:
    assert resolve(FaultTarget("in-sync-replicas"), FakeCluster(), frozenset({3})).nodes == (1, 2)


_OF_BROKERS = ["leader", "in-sync-follower", "in-sync-replicas", "broker", "minority", "majority", "brokers"]


@pytest.mark.parametrize("role", _OF_BROKERS)
def test_dead_nodes_are_never_chosen(role: Role) -> None:
    cluster = FakeCluster()
    for broker in (1, 2, 3):
        cluster.nodes[broker].alive = False
    with pytest.raises(NoTarget):
        resolve(FaultTarget(role), cluster)


def test_everyone_is_no_target_while_one_node_is_held() -> None:
    with pytest.raises(NoTarget, match="node 2 is gone or held by another fault"):
        resolve(FaultTarget("everyone"), FakeCluster(), frozenset({2}))


def test_a_silent_cluster_has_no_leader_to_hit() -> None:
    with pytest.raises(NoTarget, match="no broker reports"):
        resolve(FaultTarget("leader"), FakeCluster(speechless=True))


def test_a_paused_controller_cannot_be_hit() -> None:
    cluster = FakeCluster()
    cluster.nodes[100].paused = True
    with pytest.raises(NoTarget, match="no active controller"):
        resolve(FaultTarget("active-controller"), cluster)


def test_any_controller_may_be_hit_or_the_active_one_alone() -> None:
    cluster = quorum_cluster()
    assert {resolve(FaultTarget("controller", pick=pick), cluster).nodes for pick in range(3)} == {
        (100,),
        (101,),
        (102,),
    }
    assert {resolve(FaultTarget("active-controller", pick=pick), cluster).nodes for pick in range(3)} == {(100,)}


def test_the_next_active_controller_is_hit_when_the_first_is_dead() -> None:
    cluster = quorum_cluster()
    cluster.nodes[100].alive = False
    assert resolve(FaultTarget("active-controller"), cluster).nodes == (101,)
    assert resolve(FaultTarget("controller"), cluster, frozenset({101})).nodes == (102,)


def test_without_a_controller_left_none_is_hit() -> None:
    with pytest.raises(NoTarget, match="no controller is left"):
        resolve(FaultTarget("controller"), quorum_cluster(), frozenset({100, 101, 102}))


def test_a_replica_out_of_the_isr_is_no_insync_follower() -> None:
    cluster = FakeCluster(insync=(1, 3))
    assert {resolve(FaultTarget("in-sync-follower", 0, pick), cluster).nodes for pick in range(4)} == {(3,)}
