"""A combined node: broker and controller in one process."""

from __future__ import annotations

from broker.core.broker_node import lifecycle
from broker.core.configuration.settings import Settings
from broker.core.messages import Listener
from broker.core.node import CombinedNode
from broker.core.ports.events import Exit, Send, Started, StopRequested, TimerFired
from tests.support.memory_files import MemoryFiles


def test_a_broker_that_has_ended_hears_nothing_while_its_controller_hands_over() -> None:
    settings = Settings(
        node_id=1,
        roles=("broker", "controller"),
        voters=dict.fromkeys((1, 2, 3), ("c", 1)),
        listeners=(Listener("CLIENT", "b1", 1), Listener("BROKER", "b1", 2)),
        log_dirs=("/",),
    )
    node = CombinedNode(settings, MemoryFiles(), "1/1")
    node.handle(0, Started(0))
    heartbeat = TimerFired((0, (lifecycle.HEARTBEAT,)))
    assert any(isinstance(effect, Send) for effect in node.handle(1, heartbeat))
    assert any(isinstance(effect, Exit) for effect in node.handle(2, StopRequested()))
    assert node.handle(3, heartbeat) == []
