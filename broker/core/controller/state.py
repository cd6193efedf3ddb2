"""The complete state of a controller (§2.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.configuration.settings import Settings
from broker.core.controller.losses import PotentialLosses
from broker.core.messages import (
    AnyRequest,
    AnyResponse,
    ElectedPartition,
    ElectLeadersRequest,
    FetchRequest,
    ReplicaLogInfo,
)
from broker.core.metadata.image import Image
from broker.core.ports.runtime import Runtime
from broker.core.quorum.state import Quorum
from broker.core.rules import Rules


class PendingReply(NamedTuple):
    """A response that may be sent once everything before `offset` is committed (CT-1)."""

    offset: int
    request_id: int
    request: AnyRequest
    response: AnyResponse


class WaitingMetadataFetch(NamedTuple):
    """A voter or observer that waits for records, and the high watermark last reported to it."""

    request: FetchRequest
    connection: int
    told_high_watermark: int


@dataclass(slots=True)
class RecoveryJob:
    """An unclean recovery in progress (UR-6): the queried brokers, and the answers so far."""

    partition_epoch: int
    settings: tuple[str, int]
    """The strategy and the min ISR with which it began."""

    asked: dict[int, int]  # broker -> its epoch when it was asked
    needed: tuple[int, ...]
    """The replicas without whose answers nothing may be decided."""
    infos: dict[int, ReplicaLogInfo] = field(default_factory=dict)
    behind: dict[int, None] = field(default_factory=dict)
    """The replicas that are to be asked again: their answers were from before the present leader epoch (UR-15)."""

    waited: bool = False
    """Whether the wait for replicas that are not needed is over."""


@dataclass(slots=True)
class PendingElection:
    """An ElectLeaders request that waits for unclean recoveries (UR-14)."""

    request_id: int
    request: ElectLeadersRequest
    asked: tuple[tuple[str, int], ...]
    """The partitions in the order of the answer."""

    done: dict[tuple[str, int], ElectedPartition]
    waiting: dict[tuple[str, int], str]
    """Topic id and number of the partitions that have no answer yet, with the topic's name."""


@dataclass(slots=True)
class ControllerState:
    """All state of a controller. The durable part is in the quorum's log.

    The active controller's image includes uncommitted records (CT-2); that of
    a standby is the committed one.
    """

    settings: Settings
    """Those in force: what the metadata has for all nodes comes before the file's."""

    rules: Rules
    runtime: Runtime
    quorum: Quorum
    image: Image
    file: Settings = field(init=False)
    """Those of the node's file alone."""

    adopted: dict[str, str] = field(default_factory=dict)
    """The settings of the metadata that are in force."""

    active: bool = False
    stopping: bool = False
    settled: tuple[int, int, int, bool] | None = None  # log end, high watermark, epoch, leading: as of the last check
    replies: list[PendingReply] = field(default_factory=list)
    fetches: dict[int, WaitingMetadataFetch] = field(default_factory=dict)
    last_contact_ms: dict[int, int] = field(default_factory=dict)
    metadata_offsets: dict[int, int] = field(default_factory=dict)
    shutdown_offsets: dict[int, int] = field(default_factory=dict)
    recoveries: dict[tuple[str, int], RecoveryJob] = field(default_factory=dict)
    timed_recoveries: dict[tuple[str, int], None] = field(default_factory=dict)
    """Recoveries whose time-out is running, through all their beginnings (UR-11)."""

    elections: dict[int, PendingElection] = field(default_factory=dict)
    """Requests for unclean elections that wait for recoveries, by their ids."""

    losses: PotentialLosses = field(default_factory=PotentialLosses)

    def __post_init__(self) -> None:
        self.file = self.settings
