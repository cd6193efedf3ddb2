"""Makes a node from its settings: a broker, a controller, or both in one process.

The two parts of a combined node share a process, a disk and an id, and nothing else: they communicate as separate nodes
do. Only at the start the broker reads the newest snapshot of the metadata log, which the controller keeps. Requests go
to the part whose listener received them; the effects of each part carry the part's number.
"""

from __future__ import annotations

from collections.abc import Hashable

from broker.core.broker_node.node import BrokerNode
from broker.core.configuration.settings import CONTROLLER_LISTENER, Settings
from broker.core.controller.node import ControllerNode
from broker.core.log import checkpoints
from broker.core.metadata.records import METADATA_TOPIC
from broker.core.ports.events import (
    CancelTimer,
    Disconnected,
    Effect,
    Event,
    Exit,
    Flush,
    FlushDone,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Send,
    SetTimer,
    Started,
    StopRequested,
    TimerFired,
)
from broker.core.ports.files import Files, StorageError
from broker.core.ports.runtime import Node
from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS
from broker.zookeeper.node import ZooKeeperNode

_BROKER, _CONTROLLER = 0, 1


class CombinedNode:
    """A combined node. The controller stops after the broker, which needs it for its controlled shutdown (BL-7)."""

    def __init__(self, settings: Settings, files: Files, incarnation_id: str) -> None:
        """Open the logs of both parts. Raises `StorageError`, `UnknownRules`."""
        self.controller = ControllerNode(settings, files, incarnation_id)
        self.broker = BrokerNode(settings, files, incarnation_id)
        self.broker_has_ended = False
        """Whether the broker has stopped, and the controller has not yet: the broker gets no events any more."""

    def handle(self, now_ms: int, event: Event) -> list[Effect]:
        """Pass an event to the part, or parts, that it concerns."""
        match event:
            case RequestReceived():
                return self._to(_CONTROLLER if event.listener == CONTROLLER_LISTENER else _BROKER, now_ms, event)
            case ResponseReceived(number, response):
                return self._to(number % 2, now_ms, ResponseReceived(number // 2, response))
            case RequestFailed(number, reason):
                return self._to(number % 2, now_ms, RequestFailed(number // 2, reason))
            case TimerFired((int(part), key)):
                return self._to(part, now_ms, TimerFired(key))
            case FlushDone((int(part), token), error):
                return self._to(part, now_ms, FlushDone(token, error))
            case Started() | Disconnected():
                return [*self._to(_CONTROLLER, now_ms, event), *self._to(_BROKER, now_ms, event)]
            case StopRequested():
                return self._to(_BROKER, now_ms, event)
            case _:
                raise ValueError(f"unexpected event: {event!r}")

    def after_error(self, event: RequestReceived) -> list[Effect] | None:
        """The effects instead of those of a request whose handling raised an error; None if the node must end."""
        return (self.controller if event.listener == CONTROLLER_LISTENER else self.broker).after_error(event)

    def _to(self, part: int, now_ms: int, event: Event) -> list[Effect]:
        if part == _BROKER and self.broker_has_ended:
            return []  # its logs are closed, and its marker says so (BL-8)
        node = self.controller if part == _CONTROLLER else self.broker
        effects: list[Effect] = []
        for effect in node.handle(now_ms, event):
            if isinstance(effect, Exit) and part == _BROKER and effect.status == 0:
                self.broker_has_ended = True
                effects += self._to(_CONTROLLER, now_ms, StopRequested())
            else:
                effects.append(_named(part, effect))
        return effects

    # --- queries of the host -----------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """Whether both parts serve."""
        return self.controller.is_ready() and self.broker.is_ready()

    def broker_address(self, node_id: int) -> tuple[str, int] | None:
        """Address of a broker's inter-broker listener, from whichever part knows it."""
        return self.broker.broker_address(node_id) or self.controller.broker_address(node_id)

    def describe(self) -> dict[str, object]:
        """The broker's state, and the controller's under "controller_state"."""
        return {**self.broker.describe(), "role": "combined", "controller_state": self.controller.describe()}

    def read_log(self, topic: str, partition: int, offset: int, limit: int) -> dict[str, object]:
        """Records of a replica's log, or of the metadata log."""
        node = self.controller if topic == METADATA_TOPIC else self.broker
        return node.read_log(topic, partition, offset, limit)


def _named(part: int, effect: Effect) -> Effect:
    """The effect with its number, timer key or token qualified by the part's number."""
    match effect:
        case Send():
            return effect._replace(request_id=effect.request_id * 2 + part)
        case SetTimer():
            return effect._replace(key=(part, effect.key))
        case CancelTimer():
            return effect._replace(key=(part, effect.key))
        case Flush():
            token: Hashable = (part, effect.token)
            return effect._replace(token=token)
        case _:
            return effect


class WrongCluster(Exception):
    """A log directory belongs to another cluster; the text is one line for the operator."""


def _claim_directories(settings: Settings, files: Files) -> None:
    """Refuse log directories of another cluster, and note the cluster in new ones."""
    for index, path in enumerate(settings.log_dirs):
        try:
            found = checkpoints.read_cluster_id(files, index)
            if found is None:
                checkpoints.write_cluster_id(files, settings.cluster_id, index)
        except StorageError:
            continue  # the node's parts handle a directory that has failed
        if found not in (None, settings.cluster_id):
            raise WrongCluster(
                f"log.dirs: expected {path} to belong to cluster {settings.cluster_id!r}, found cluster {found!r} in"
                f" {checkpoints.CLUSTER}: correct cluster.id or log.dirs"
            )


def make_node(settings: Settings, files: Files, incarnation_id: str) -> Node:
    """Create the node and recover its logs. `incarnation_id` is fresh for every start.

    Raises `StorageError` if the disk fails, `UnknownRules` for a protocol version or flaw that does not exist,
    `UnknownSwitch` for a switch of the designs on ZooKeeper, `WrongCluster` if a log directory belongs to another
    cluster.
    """
    _claim_directories(settings, files)
    if settings.generation in ZOOKEEPER_GENERATIONS:
        return ZooKeeperNode(settings, files, incarnation_id)
    if settings.is_controller and settings.is_broker:
        return CombinedNode(settings, files, incarnation_id)
    if settings.is_controller:
        return ControllerNode(settings, files, incarnation_id)
    return BrokerNode(settings, files, incarnation_id)
