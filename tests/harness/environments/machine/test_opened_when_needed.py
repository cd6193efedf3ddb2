"""Mechanisms are opened only when a fault needs them: healing without a fault does nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.environments.base import NodePlan
from harness.environments.machine.node import MachineNode
from harness.environments.network.network import JournaledNetwork
from harness.environments.storage.node_disk import NodeDisk
from harness.store.journal import Journal, read_journal
from nemesis.capabilities.shapes import PLAIN, Shape
from nemesis.faults.base import SharedLinks

LINK = frozenset({(1, 2)})


class Engine:
    """Carries nothing, and records its requests."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def set_blocked(self, links: object) -> None:
        self.asked.append(("cut", links))

    def set_shapes(self, shapes: object) -> dict[str, int]:
        self.asked.append(("shape", shapes))
        return {}


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def network(engine: Engine, tmp_path: Path) -> JournaledNetwork:
    return JournaledNetwork((0, 1, 2), engine, Journal(tmp_path))


def test_healing_an_untouched_network_does_not_call_the_engine(
    network: JournaledNetwork, engine: Engine, tmp_path: Path
) -> None:
    SharedLinks(network).clear()
    network.shape(LINK, PLAIN)
    network.unblock(LINK)
    assert engine.asked == []
    assert [entry["kind"] for entry in read_journal(tmp_path)] == ["opened"]


def test_what_was_done_is_undone_once(network: JournaledNetwork, engine: Engine) -> None:
    links = SharedLinks(network)
    slow = Shape(delay_ms=30)
    links.shape(LINK, slow)
    links.cut(LINK)
    links.clear()
    links.clear()
    assert engine.asked == [("shape", {(1, 2): slow}), ("cut", LINK), ("cut", frozenset()), ("shape", {})]


def test_shapes_are_undone_even_when_cuts_cannot_be(
    network: JournaledNetwork, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = SharedLinks(network)
    links.shape(LINK, Shape(delay_ms=30))
    links.cut(LINK)

    def refuse(_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(engine, "set_blocked", refuse)
    with pytest.raises(OSError, match="not permitted"):
        links.clear()
    assert engine.asked[-1] == ("shape", {})


class Nothing:
    """A mechanism that no fault has requested: any use of it is an error."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} was asked for")


def test_healing_an_untouched_node_uses_no_mechanism(tmp_path: Path) -> None:
    plan = NodePlan(1, "broker", tmp_path, tmp_path, tmp_path / "socket", "files")
    journal = Journal(tmp_path)
    NodeDisk(plan, Nothing(), journal, lambda: True).end_trouble()
    node = MachineNode(plan, Nothing(), Nothing(), Nothing(), journal)
    node._process = SimpleNamespace(poll=lambda: None)
    node.unthrottle()
    node.unlimit_memory()
    assert [entry["kind"] for entry in read_journal(tmp_path)] == ["opened"]
