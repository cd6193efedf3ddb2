"""A topic that a system has lost is created again, once all nodes serve and none knows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.environments.base import Traits
from harness.run.context import Plan, RunContext
from harness.run.workload_topic import GONE_S, TopicWatch
from harness.spec.spec import Spec
from nemesis.schedule import Schedule
from tests.support.fake_environment import FakeEnvironment


@dataclass
class Scene:
    """A run whose clock a test moves."""

    context: RunContext
    watch: TopicWatch
    now_ns: int = 0

    def look_after(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)
        self.watch.check()

    @property
    def created(self) -> int:
        return sum(
            "harness.systems.administration" in process.command for process in self.context.environment.processes
        )


def scene_of(directory: Path, system: str) -> Scene:
    context = RunContext(*([None] * 8))
    context.environment = FakeEnvironment(directory)
    context.system = SimpleNamespace(traits=Traits())
    context.plan = Plan(Spec(seed=1, system=system), Schedule(()), directory, "")
    context.progress = SimpleNamespace(log=lambda *_, **__: None)
    scene = Scene(context, TopicWatch(context))
    context.clock = SimpleNamespace(now=lambda: scene.now_ns)
    return scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return scene_of(tmp_path, "some.toml")


def lose_the_topic(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene.context.environment.cluster, "partitions", list)


def test_a_topic_that_is_there_is_left_alone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = scene.context.environment.cluster
    known = [replace(view, topic="harrow") for view in cluster.partitions()]
    monkeypatch.setattr(cluster, "partitions", lambda: known)
    for _ in range(5):
        scene.look_after(GONE_S)
    assert scene.created == 0


def test_a_topic_that_no_node_knows_for_a_while_is_created_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_the_topic(scene, monkeypatch)
    scene.look_after(1.0)
    assert scene.created == 0, "a node that has just started may not know it yet"
    scene.look_after(GONE_S)
    assert scene.created == 1


def test_while_a_node_does_not_serve_a_topic_does_not_count_as_gone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_the_topic(scene, monkeypatch)
    scene.context.environment.cluster.nodes[2].paused = True
    for _ in range(5):
        scene.look_after(GONE_S)
    assert scene.created == 0


def test_harrows_own_broker_is_not_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = scene_of(tmp_path, "harrow")
    lose_the_topic(scene, monkeypatch)
    for _ in range(5):
        scene.look_after(GONE_S)
    assert scene.created == 0
