"""What a broker of the design with a controller knows beside its replicas; and what the active controller does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from broker.core.messages import NO_LEADER
from broker.core.messages.leadership import LiveBroker, OrderRequest, PartitionLeadership
from broker.zookeeper.designs.controller import znodes
from broker.zookeeper.paths import Key


class TaskKind(Enum):
    """What the controller has to see to."""

    BROKERS = "brokers have come or gone"
    TOPICS = "there are other topics"
    PREFERRED = "preferred replicas may lead"
    DELETIONS = "topics are to be deleted"
    SHUTDOWN = "a broker wants to stop"


class Task(NamedTuple):
    """`broker_id` and `request_id` are those of a `SHUTDOWN`."""

    kind: TaskKind
    broker_id: int = -1
    request_id: int = -1


class Order(NamedTuple):
    """A request to a broker, and what to call once it has obeyed."""

    request: OrderRequest
    then: Callable[[], None] | None = None


@dataclass(slots=True)
class Office:
    """What the active controller knows and has to do."""

    epoch: int
    live: dict[int, LiveBroker] = field(default_factory=dict)
    sessions: dict[int, int] = field(default_factory=dict)
    """Live broker -> the session of its node. Nothing is decided by it: that came with KIP-380."""

    missed: set[int] = field(default_factory=set)
    """Live brokers that were away between two looks."""

    stopping: set[int] = field(default_factory=set)
    """Live brokers that have asked to stop: they are not elected."""

    assigned: dict[Key, tuple[int, ...]] = field(default_factory=dict)
    """The replicas of each partition, without topics that are being deleted."""

    states: dict[Key, PartitionLeadership] = field(default_factory=dict)
    """Partitions as they were last read or written."""

    deleting: set[str] = field(default_factory=set)
    tasks: deque[Task] = field(default_factory=deque)
    orders: dict[int, deque[Order]] = field(default_factory=dict)
    """Broker -> requests to it, of which the first is under way."""

    balance_at_ms: int = 0
    """When preferred replicas are looked at next."""


@dataclass(slots=True)
class ControlledState:
    """What a broker knows by the controller's requests."""

    controller_epoch: int = znodes.NO_EPOCH
    """The highest of a request that was obeyed."""

    controller_id: int = NO_LEADER
    live: tuple[LiveBroker, ...] = ()
    partitions: dict[Key, PartitionLeadership] = field(default_factory=dict)
    """The metadata that clients get."""

    office: Office | None = None
    """Of the active controller, or of one that does not know yet that it is not any more."""
