"""Creates a node from its settings: a broker, a controller, or both."""

from __future__ import annotations

from broker.core.broker_node.node import BrokerNode
from broker.core.combined import CombinedNode
from broker.core.controller.node import ControllerNode
from broker.core.ports.files import Files
from broker.core.ports.runtime import Node
from broker.core.settings import Settings


def make_node(settings: Settings, files: Files, incarnation_id: str) -> Node:
    """Create the node and recover its logs. `incarnation_id` is fresh for every start.

    Raises `StorageError` if the disk fails, `UnknownRules` for a protocol version or flaw that does not exist.
    """
    if settings.is_controller and settings.is_broker:
        return CombinedNode(settings, files, incarnation_id)
    if settings.is_controller:
        return ControllerNode(settings, files, incarnation_id)
    return BrokerNode(settings, files, incarnation_id)
