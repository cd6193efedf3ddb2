"""The sampler records each change of a controller's role once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
