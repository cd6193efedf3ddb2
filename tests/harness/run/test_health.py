from __future__ import annotations

from dataclasses import replace

import pytest

from harness.environments.base import NodePlan, ReplicaState, Traits
from harness.run.health import ReportedEnd, by_topic, partition_ends, unhealthy_reason
from nemesis.capabilities.cluster import PartitionView
from tests.support.fake_cluster import FakeCluster, quorum_cluster

VIEW = PartitionView("harrow", 0, 1, 3, (1, 2, 3), (), (1, 2, 3))
USUAL = Traits()
REPLICA = ReplicaState("harrow", 0, "follower", 1, 3, 0, 50, 50, (1, 2, 3), (), 9)


class GivenReplicas:
    """A system whose replicas are given."""

    def __init__(self, replicas: dict[int, list[ReplicaState]], traits: Traits = USUAL) -> None:
        self._replicas = replicas
        self.traits = traits

    def replicas(self, plan: NodePlan) -> list[ReplicaState]:
        return self._replicas.get(plan.node_id, [])


def plans() -> list[NodePlan]:
    return [NodePlan(node, "broker", None, None, None, "files") for node in (1, 2, 3)]


def ended(replicas: dict[int, list[ReplicaState]], traits: Traits = USUAL) -> ReportedEnd:
    (end,) = partition_ends(GivenReplicas(replicas, traits), plans(), [VIEW])
    return end


def test_a_cluster_that_lacks_nothing_is_well() -> None:
    assert unhealthy_reason(FakeCluster()) is None


def test_a_node_that_does_not_serve_is_missed() -> None:
    cluster = FakeCluster()
    cluster.nodes[2].paused = True
    assert unhealthy_reason(cluster) == "node 2 does not serve"


def test_a_replica_that_is_not_in_sync_is_missed() -> None:
    assert unhealthy_reason(FakeCluster(insync=(1, 2))) == "harrow-0 has an ISR without 3"


def test_a_silent_cluster_is_not_well() -> None:
    assert unhealthy_reason(FakeCluster(speechless=True)) == "no broker describes the partitions"


def test_a_partition_without_a_leader_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    monkeypatch.setattr(cluster, "partitions", lambda: [replace(VIEW, leader=-1)])
    assert unhealthy_reason(cluster) == "harrow-0 has no leader"


def test_controllers_without_a_leader_are_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = quorum_cluster()
    candidates = [replace(voter, role="candidate") for voter in cluster.voters()]
    monkeypatch.setattr(cluster, "voters", lambda: candidates)
    assert unhealthy_reason(cluster) == "the controllers have no leader"


def test_a_controller_that_believes_in_an_older_leader_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = quorum_cluster()
    one, two, three = cluster.voters()
    monkeypatch.setattr(cluster, "voters", lambda: [one, two, replace(three, role="leader", leader=102, epoch=2)])
    assert unhealthy_reason(cluster) == "controller 102 does not follow controller 100"


def test_a_controller_that_lacks_metadata_is_not_well() -> None:
    cluster = quorum_cluster()
    assert unhealthy_reason(cluster) is None
    cluster.lacking_metadata = frozenset({101})
    assert unhealthy_reason(cluster) == "controller 101 lacks committed metadata"


def test_an_end_is_agreed_when_every_replica_stands_there() -> None:
    assert ended({1: [REPLICA], 2: [REPLICA], 3: [REPLICA]}) == ReportedEnd("harrow", 0, 50, agreed=True)


@pytest.mark.parametrize(
    "replicas",
    [
        {1: [REPLICA], 2: [REPLICA]},
        {1: [REPLICA], 2: [REPLICA], 3: [replace(REPLICA, log_end=51)]},
        {1: [REPLICA], 2: [REPLICA], 3: [replace(REPLICA, high_watermark=49)]},
        {},
    ],
    ids=["one is silent", "one is longer", "one knows less", "all are silent"],
)
def test_an_end_is_not_agreed_when_one_replica_differs(replicas: dict[int, list[ReplicaState]]) -> None:
    assert not ended(replicas).agreed


def test_an_end_that_is_not_agreed_is_the_highest_that_is_committed() -> None:
    behind = replace(REPLICA, high_watermark=20)
    assert ended({1: [REPLICA], 2: [behind], 3: [behind]}).end_offset == 50


def test_workers_get_ends_by_topic_and_partition() -> None:
    found = [
        ReportedEnd("a", 0, 5, agreed=True),
        ReportedEnd("a", 1, 6, agreed=True),
        ReportedEnd("b", 0, 7, agreed=False),
    ]
    assert by_topic(found) == {"a": {"0": 5, "1": 6}, "b": {"0": 7}}


def test_where_followers_do_not_report_the_leader_decides_on_the_end() -> None:
    leader = {1: [replace(REPLICA, role="leader")]}
    assert ended(leader, Traits(reports_followers=False)) == ReportedEnd("harrow", 0, 50, True)
    assert not ended(leader).agreed
    assert not ended({}, Traits(reports_followers=False)).agreed


@pytest.mark.parametrize(
    ("leader", "follower", "agreed"),
    [
        (REPLICA, replace(REPLICA, high_watermark=48), True),
        (replace(REPLICA, high_watermark=48), REPLICA, False),
        (REPLICA, replace(REPLICA, log_end=51, high_watermark=48), False),
    ],
    ids=["a follower has not heard", "not committed", "a follower is longer"],
)
def test_where_followers_need_not_report_they_may_know_an_earlier_high_watermark(
    leader: ReplicaState, follower: ReplicaState, agreed: bool
) -> None:
    replicas = {1: [replace(leader, role="leader")], 2: [follower]}
    assert ended(replicas, Traits(reports_followers=False)).agreed is agreed


def test_brokers_that_keep_the_metadata_among_themselves_need_no_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    monkeypatch.setattr(cluster, "voters", list)
    assert unhealthy_reason(cluster) == "the controllers have no leader"
    brokers = {node_id: node for node_id, node in cluster.nodes.items() if node.role == "broker"}
    monkeypatch.setattr(cluster, "nodes", brokers)
    assert unhealthy_reason(cluster) is None
