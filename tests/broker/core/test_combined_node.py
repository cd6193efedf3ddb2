"""A combined node: broker and controller in one process."""

from __future__ import annotations

import pytest

from broker.core.broker_node import lifecycle
from broker.core.broker_node.state import Lifecycle
from broker.core.configuration.settings import Settings
from broker.core.messages import FetchRequest, Listener
from broker.core.node import CombinedNode, make_node
from broker.core.ports.events import Exit, Send, Started, StopRequested, TimerFired
from tests.support.memory_files import MemoryFiles


def settings_of(*roles: str) -> Settings:
    return Settings(
        node_id=1,
        roles=roles,
        voters=dict.fromkeys((1, 2, 3), ("c", 1)),
        listeners=(Listener("CLIENT", "b1", 1), Listener("BROKER", "b1", 2)),
        log_dirs=("/",),
    )


def test_a_broker_that_has_ended_hears_nothing_while_its_controller_hands_over() -> None:
    node = CombinedNode(settings_of("broker", "controller"), MemoryFiles(), "1/1")
    node.handle(0, Started(0))
    heartbeat = TimerFired((0, (lifecycle.HEARTBEAT,)))
    assert any(isinstance(effect, Send) for effect in node.handle(1, heartbeat))
    assert any(isinstance(effect, Exit) for effect in node.handle(2, StopRequested()))
    assert node.handle(3, heartbeat) == []


@pytest.mark.parametrize(("roles", "replica_id"), [(("broker", "controller"), -1), (("broker",), 1)])
def test_what_a_broker_has_of_the_metadata_does_not_count_as_the_log_of_its_nodes_voter(
    roles: tuple[str, ...], replica_id: int
) -> None:
    effects = make_node(settings_of(*roles), MemoryFiles(), "1/1").handle(0, Started(0))
    fetches = [effect.request for effect in effects if isinstance(effect, Send)]
    assert [each.replica_id for each in fetches if isinstance(each, FetchRequest)] == [replica_id]


@pytest.mark.parametrize("leader", [2, -1])
@pytest.mark.parametrize("lifecycle", [Lifecycle.RUNNING, Lifecycle.STARTING])
@pytest.mark.parametrize("fenced", [False, True])
def test_a_combined_node_is_ready_when_both_its_broker_and_its_controller_are(
    leader: int, lifecycle: Lifecycle, fenced: bool
) -> None:
    node = CombinedNode(settings_of("broker", "controller"), MemoryFiles(), "1/1")
    node.controller.state.quorum.leader = leader
    node.broker.state.lifecycle, node.broker.state.fenced = lifecycle, fenced
    assert node.is_ready() is (leader == 2 and lifecycle is Lifecycle.RUNNING and not fenced)
