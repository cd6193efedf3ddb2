"""What is told of an agent that is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.environments.ssh import machine as module
from harness.environments.ssh.machine import Machine, Wishes
from harness.environments.ssh.node import SshNode
from harness.environments.ssh.talk import Request
from harness.journal import Journal
from nemesis.cluster import NodeError
from tests.support.fake_machine import FakeFleet, plan_in
from tests.support.stand_in import StandIn

_WAIT_S = 20.0


class _Agent:
    """Answers what it is asked, but for the state of the node while the test has not said so."""

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
    monkeypatch.setattr(module, "Connection", made.connect)
    monkeypatch.setattr(module, "install", lambda *_: "/harrow/package")
    return made


@pytest.fixture
def machine(fleet: FakeFleet, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(plan_in(tmp_path), StandIn(), fleet, Wishes("token", "power-cut", "", b"", {1: "10.0.0.1"}))
    made.attach()
    yield made
    made.close()


def test_an_agent_that_ends_with_the_power_on_is_an_error_that_tells_its_end(
    agent: _Agent, fleet: FakeFleet, machine: Machine, tmp_path: Path
) -> None:
    node = SshNode(machine, StandIn(), Journal(tmp_path), own_power=True)
    channel = machine._link._channel
    channel.exit_status, channel._errors = 137, b"Traceback:\nMemoryError\n"
    fleet.connections[-1].lose()
    told = (
        "expected the agent on host vm-1 to answer, found that it is gone: it ended with status 137, "
        "and said last: Traceback: MemoryError; its VM ended with status -9"
    )
    with pytest.raises(NodeError) as first:
        node.is_alive()
    assert str(first.value) == told
    with pytest.raises(NodeError) as again:
        machine.ask("now")
    assert str(again.value) == told
