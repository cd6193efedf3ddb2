"""The simulated ensemble: order, delays, lost connections, sessions that expire."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.configuration.settings import Settings
from broker.core.messages import Listener
from broker.core.ports.coordination import (
    Answer,
    Call,
    CallError,
    ChangeKind,
    Coordinate,
    Coordinated,
    Create,
    Exists,
    GetData,
    OpenSession,
    SessionChanged,
    SessionState,
    SetData,
    WatchFired,
)
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.zookeeper.ensemble import ENSEMBLE, SimulatedEnsemble

TIMEOUT_MS = 3_000


class Listening:
    """Stands for a broker's process: notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, Any]] = []

    def handle(self, now_ms: int, event: Any) -> list[Any]:
        self.heard.append((now_ms, event))
        return []

    @property
    def states(self) -> list[SessionState]:
        return [event.state for _, event in self.heard if isinstance(event, SessionChanged)]

    @property
    def news(self) -> list[Any]:
        return [event for _, event in self.heard if not isinstance(event, SessionChanged)]


class Two:
    """Two brokers with a session each; delays by a seed, or the shortest."""

    def __init__(self, seed: int | None = None) -> None:
        choices = ChoiceSequence(seed, None if seed is not None else {})
        settings = [
            Settings(node_id=one, voters={}, listeners=(Listener("CLIENT", "b", 1),), log_dirs=("/",)) for one in (1, 2)
        ]
        self.cluster = SimulatedCluster(choices, settings)
        self.ensemble = SimulatedEnsemble(self.cluster, choices["zookeeper"], "zk-v1")
        self.nodes = {1: Listening(), 2: Listening()}
        self._calls = 0
        for number, node in self.nodes.items():
            machine = self.cluster.machines[number]
            machine.node, machine.incarnation = node, 1  # type: ignore[assignment]
            self.ensemble.carry_out(number, 1, OpenSession(TIMEOUT_MS))
        self.run(2_000)
        assert all(node.states == [SessionState.OPEN] for node in self.nodes.values())

    def run(self, ms: int) -> None:
        self.cluster.run_until(self.cluster.now_us + ms * MS)

    def call(self, node: int, call: Call) -> None:
        self._calls += 1
        self.ensemble.carry_out(node, 1, Coordinate(self._calls, call))

    def ask(self, node: int, call: Call) -> Answer:
        self.call(node, call)
        number = self._calls
        self.run(1_000)
        return next(event.answer for event in self.nodes[node].news if event[0] == number)

    def cut(self, node: int) -> None:
        self.cluster.transport.cut(frozenset({(node, ENSEMBLE), (ENSEMBLE, node)}))

    def mend(self, node: int) -> None:
        self.cluster.transport.mend(frozenset({(node, ENSEMBLE), (ENSEMBLE, node)}))


@pytest.mark.parametrize("seed", range(20))
def test_a_session_hears_of_a_change_before_it_sees_it_and_of_all_in_order(seed: int) -> None:
    two = Two(seed)
    two.call(1, Create("/a", b"0"))
    two.run(2_000)
    two.nodes[2].heard.clear()
    two.call(2, GetData("/a", watch=True))
    for number in range(1, 6):
        two.call(1, SetData("/a", b"%d" % number))
        two.call(2, GetData("/a", watch=True))
    two.run(4_000)
    seen = [event.answer.data if isinstance(event, Coordinated) else event.kind for event in two.nodes[2].news]
    for before, after in zip(seen, seen[1:], strict=False):
        if isinstance(before, bytes) and isinstance(after, bytes):
            assert before == after, "a new value, and no event before it"
    values = [one for one in seen if isinstance(one, bytes)]
    assert values == sorted(values)


def test_the_watches_of_one_change_have_delays_of_their_own() -> None:
    apart = set()
    for seed in range(10):
        two = Two(seed)
        two.ask(1, Create("/a"))
        for node in two.nodes:
            two.ask(node, GetData("/a", watch=True))
        two.ask(1, SetData("/a", b"1"))
        one, other = (
            next(at for at, event in node.heard if isinstance(event, WatchFired)) for node in two.nodes.values()
        )
        apart.add(one - other)
    assert len(apart) > 3


def test_a_connection_that_is_cut_and_back_in_time_keeps_the_nodes_and_loses_the_watches() -> None:
    two = Two()
    two.ask(1, Create("/mine", b"1", ephemeral=True))
    two.ask(1, GetData("/mine", watch=True))
    two.cut(1)
    two.call(1, SetData("/mine", b"2"))
    two.run(TIMEOUT_MS * 3 // 4)
    assert two.nodes[1].states == [SessionState.OPEN, SessionState.SUSPENDED]
    assert two.nodes[1].news[-1].answer.error is CallError.CONNECTION_LOSS
    assert two.ensemble.tree.data("/mine") == b"1"
    two.mend(1)
    two.run(1_000)
    assert two.nodes[1].states[-1] is SessionState.RESTORED
    two.ask(2, SetData("/mine", b"3"))
    assert not any(isinstance(event, WatchFired) for event in two.nodes[1].news)
    assert two.ask(1, GetData("/mine")).data == b"3"


def test_an_answer_that_is_cut_off_leaves_a_call_uncertain_that_took_effect() -> None:
    two = Two()
    two.cluster.transport.cut(frozenset({(ENSEMBLE, 1)}))
    two.run(1)
    two.mend(1)
    two.call(1, Create("/a"))
    while two.ensemble.tree.data("/a") is None:
        two.cluster.run_until(two.cluster.now_us + 1)
    two.cut(1)
    two.run(TIMEOUT_MS)
    assert two.nodes[1].news[-1].answer.error is CallError.CONNECTION_LOSS
    assert two.ensemble.tree.data("/a") == b""


@pytest.mark.parametrize("how", ["cut", "frozen", "dead"])
def test_a_session_that_is_not_heard_of_ends_and_others_hear_of_it_first(how: str) -> None:
    two = Two()
    two.ask(1, Create("/leader", ephemeral=True))
    two.ask(2, Exists("/leader", watch=True))
    machine = two.cluster.machines[1]
    if how == "cut":
        two.cut(1)
    elif how == "frozen":
        two.cluster.pause(1)
    else:
        machine.node = None
    two.run(TIMEOUT_MS - 1_000)
    assert two.ensemble.tree.data("/leader") is not None
    two.run(2_000)
    assert two.ensemble.tree.data("/leader") is None
    assert two.nodes[2].news[-1] == WatchFired(ChangeKind.DELETED, "/leader")
    assert SessionState.EXPIRED not in two.nodes[1].states, "it is a zombie: it cannot know"
    if how == "dead":
        return
    two.mend(1)
    two.cluster.resume(1)
    two.run(1_000)
    assert two.nodes[1].states[-1] is SessionState.EXPIRED
    assert two.ask(1, GetData("/")).error is CallError.SESSION_EXPIRED
    two.ensemble.carry_out(1, 1, OpenSession(TIMEOUT_MS))
    two.run(1_000)
    assert two.ask(1, Create("/leader", ephemeral=True)).error is None


def test_an_ensemble_without_a_majority_ends_no_session_and_gives_each_its_time_anew() -> None:
    two = Two()
    two.ask(1, Create("/leader", ephemeral=True))
    two.ensemble.stop_serving()
    two.run(10 * TIMEOUT_MS)
    assert two.nodes[1].states[-1] is SessionState.SUSPENDED
    two.ensemble.serve_again()
    two.run(1_000)
    assert two.nodes[1].states[-1] is SessionState.RESTORED
    assert two.ensemble.tree.data("/leader") is not None


def test_a_session_can_be_ended_under_a_client_that_is_connected() -> None:
    two = Two()
    two.ask(1, Create("/leader", ephemeral=True))
    assert two.ensemble.expire(1)
    assert two.ensemble.tree.data("/leader") is None
    two.run(1_000)
    assert two.nodes[1].states[-1] is SessionState.EXPIRED
    assert not two.ensemble.expire(1)
