"""The sampler records each change of a controller's role, and of a node's version, once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.environments.base import NodePlan
from harness.run.sampler import Sampler
from tests.support.fake_cluster import quorum_cluster
from tests.support.fake_environment import FakeEnvironment, FakeSystem


def test_a_controller_is_recorded_when_its_standing_changes(tmp_path: Path) -> None:
    environment = FakeEnvironment(tmp_path, quorum_cluster())
    rows: list[Mapping[str, object]] = []
    now = iter(range(100))
    sampler = Sampler(FakeSystem(environment), environment.plans, lambda: next(now), lambda _: None, rows.append)

    sampler.sample_all()
    sampler.sample_all()
    assert [(row["controller"], row["role"], row["leader"]) for row in rows] == [
        (100, "leader", 100),
        (101, "follower", 100),
        (102, "follower", 100),
    ]

    rows.clear()
    environment.cluster.nodes[100].alive = False
    sampler.sample_all()
    assert [(row["controller"], row["role"], row["leader"]) for row in rows] == [
        (101, "leader", 101),
        (102, "follower", 101),
    ]


class VersionedSystem(FakeSystem):
    """Reports the versions of the fake nodes."""

    def __init__(self, environment: FakeEnvironment) -> None:
        super().__init__(environment)
        self._nodes = environment.cluster.nodes

    def version(self, plan: NodePlan) -> str | None:
        return self._nodes[plan.node_id].version()


def test_a_node_is_recorded_when_it_reports_another_version(tmp_path: Path) -> None:
    environment = FakeEnvironment(tmp_path)
    rows: list[Mapping[str, object]] = []
    now = iter(range(100))
    system = VersionedSystem(environment)
    sampler = Sampler(system, environment.plans, lambda: next(now), lambda _: None, lambda _: None, rows.append)
    for _ in range(2):
        sampler.sample_all()
    assert [(row["node"], row["version"]) for row in rows] == [(node, "9.0") for node in (1, 2, 3, 100)]

    rows.clear()
    node = environment.cluster.nodes[2]
    node.alive = False
    sampler.sample_all()
    assert rows == [], "a dead node reports nothing"
    node.use_next_version()
    node.start()
    for _ in range(2):
        sampler.sample_all()
    assert [(row["node"], row["version"]) for row in rows] == [(2, "9.1")]
