"""Requests to a machine while another thread cuts its power, and errors of an agent that is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.environments.base import EnvironmentFailed
from harness.environments.ssh import machine as module
from harness.environments.ssh.connection.rpc import Request
from harness.environments.ssh.machine import AgentSettings, Machine, NotThere
from harness.environments.ssh.node import SshNode
from harness.store.journal import Journal
from nemesis.capabilities.cluster import NodeError
from tests.harness.environments.ssh.fake_machine import FakeFleet, plan_in
from tests.support.stand_in import StandIn

_WAIT_S = 20.0


class _Agent:
    """Answers requests, but for the state of the node only after the test allows it."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def answer(self, request: Request) -> object:
        if request["do"] != "state":
            return None
        self.asked.set()
        self.may_answer.wait(_WAIT_S)
        return {"pid": 7, "alive": True, "paused": False}


@pytest.fixture
def agent() -> Iterator[_Agent]:
    made = _Agent()
    yield made
    made.may_answer.set()


@pytest.fixture
def fleet(agent: _Agent, monkeypatch: pytest.MonkeyPatch) -> FakeFleet:
    made = FakeFleet(agent.answer, "its VM ended with status -9")
    monkeypatch.setattr(module, "SshConnection", made.connect)
    monkeypatch.setattr(module, "install", lambda *_: "/harrow/package")
    return made


@pytest.fixture
def machine(fleet: FakeFleet, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(plan_in(tmp_path), StandIn(), fleet, AgentSettings("token", "power-cut", "", b"", {1: "10.0.0.1"}))
    made.attach()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("look", "seen"),
    [
        (lambda node: node.is_alive(), False),
        (lambda node: node.is_paused(), False),
        (lambda node: node.is_ready(), False),
        (lambda node: node.pid, None),
    ],
    ids=["alive", "paused", "ready", "pid"],
)
def test_a_node_whose_power_is_cut_during_a_check_is_dead_and_no_error(
    agent: _Agent, machine: Machine, tmp_path: Path, look: Callable[[SshNode], object], seen: object
) -> None:
    node = SshNode(machine, StandIn(), Journal(tmp_path), own_power=True)
    assert node.is_alive()
    agent.asked.clear()
    agent.may_answer.clear()
    with ThreadPoolExecutor(1) as watcher:
        looking = watcher.submit(look, node)
        assert agent.asked.wait(_WAIT_S)
        machine.lose_power()
        assert looking.result(_WAIT_S) == seen
        agent.may_answer.set()
    assert node.is_alive(), "the machine is there again, with an agent that answers"


def test_what_is_done_to_a_machine_that_loses_its_power_meanwhile_is_not_done(
    agent: _Agent, machine: Machine, tmp_path: Path
) -> None:
    agent.may_answer.clear()
    with ThreadPoolExecutor(1) as watcher:
        asking = watcher.submit(machine.ask, "state")
        assert agent.asked.wait(_WAIT_S)
        machine.lose_power()
        with pytest.raises(NotThere, match="expected host vm-1 to state, found that it lost its power"):
            asking.result(_WAIT_S)


def test_an_agent_that_ends_with_the_power_on_is_an_error_that_describes_its_end(
    agent: _Agent, fleet: FakeFleet, machine: Machine, tmp_path: Path
) -> None:
    node = SshNode(machine, StandIn(), Journal(tmp_path), own_power=True)
    channel = machine._link._channel
    channel.exit_status, channel._errors = 137, b"Traceback:\nMemoryError\n"
    fleet.connections[-1].lose()
    message = (
        "expected the agent on host vm-1 to answer, found that it is gone: it ended with status 137, "
        "and said last: Traceback: MemoryError; its VM ended with status -9"
    )
    with pytest.raises(NodeError) as first:
        node.is_alive()
    assert str(first.value) == message
    with pytest.raises(NodeError) as again:
        machine.ask("now")
    assert str(again.value) == message


def test_a_machine_that_does_not_come_back_is_missed_with_the_reason_and_not_taken_for_a_dead_node(
    fleet: FakeFleet, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = SshNode(machine, StandIn(), Journal(tmp_path), own_power=True)

    def refuse(node_id: int) -> None:
        raise EnvironmentFailed("expected QEMU to netdev_add, found: the port is taken")

    monkeypatch.setattr(fleet, "cut_power", refuse)
    message = "expected host vm-1 to come back after its loss of power, found: expected QEMU to netdev_add"
    with pytest.raises(NodeError, match=message):
        machine.lose_power()
    with pytest.raises(NodeError, match=message):
        node.is_alive()
    assert not machine.is_there
