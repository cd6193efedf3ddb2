"""Everything that a broker knows (§2.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from broker.core.broker_node.groups.state import Coordinator
from broker.core.files import Files
from broker.core.messages import FetchRequest, ProducedPartition
from broker.core.metadata.image import Image
from broker.core.replica.state import Replica
from broker.core.rules import Rules
from broker.core.runtime import Runtime
from broker.core.settings import Settings

CONTROL = "control"
"""Channel of short requests to the controller."""


class Lifecycle(Enum):
    """Where the broker is in its life (§5)."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(slots=True)
class WaitingProduce:
    """A produce that waits for its partitions. `missing` shrinks to nothing."""

    answers: dict[tuple[str, int], ProducedPartition]
    missing: dict[tuple[str, int], None]
    connection: int


@dataclass(slots=True)
class WaitingFetch:
    """A fetch that found too little and waits for more."""

    request: FetchRequest
    connection: int


@dataclass(slots=True)
class BrokerState:
    """A broker, whole."""

    settings: Settings
    rules: Rules
    files: Files
    incarnation_id: str
    previous_broker_epoch: int
    runtime: Runtime = field(default_factory=Runtime)
    lifecycle: Lifecycle = Lifecycle.STARTING
    broker_epoch: int = -1
    caught_up: bool = False
    fenced: bool = True
    published: bool = False
    stop_wanted: bool = False
    controller_id: int = -1
    image: Image = field(default_factory=Image)
    snapshot_data: bytes = b""
    replicas: dict[tuple[str, int], Replica] = field(default_factory=dict)
    produces: dict[int, WaitingProduce] = field(default_factory=dict)
    fetches: dict[int, WaitingFetch] = field(default_factory=dict)
    touched: dict[tuple[str, int], None] = field(default_factory=dict)  # replicas whose waiting requests may go on
    fetching_from: dict[int, int] = field(default_factory=dict)  # leader -> open request
    producer_ids: tuple[int, int] = (0, 0)  # next, end of the block that the controller gave
    waiting_for_producer_ids: list[int] = field(default_factory=list)  # request ids
    coordinator: Coordinator = field(default_factory=Coordinator)

    def __post_init__(self) -> None:
        self.controller_id = min(self.settings.voters)

    @property
    def broker_id(self) -> int:
        """This broker's node id."""
        return self.settings.node_id

    def touch(self, replica: Replica) -> None:
        """The replica's log or high watermark has moved: look at the requests that wait on it after this event."""
        self.touched[replica.key] = None
