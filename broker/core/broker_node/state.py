"""The complete state of a broker (§2.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from broker.core.broker_node.groups.state import GroupCoordinator
from broker.core.broker_node.requests.fetch_sessions import INITIAL_EPOCH, NO_SESSION, Fetch, FetchSessions, begin
from broker.core.configuration.settings import Settings
from broker.core.log.compaction.cleaning import Cleaning
from broker.core.log.log import LogConfig
from broker.core.messages import FetchPartition, ProducedPartition
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import Image
from broker.core.ports.files import Files
from broker.core.ports.runtime import Runtime
from broker.core.quorum.observer import MetadataCopy
from broker.core.replica.intake import Intake
from broker.core.replica.state import Replica
from broker.core.rules import Rules

CONTROL = "control"
"""The channel for short requests to the controller."""


class Lifecycle(Enum):
    """The broker's state from start to stop (§5)."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(slots=True)
class WaitingProduce:
    """A produce that waits for its partitions. `missing` shrinks until it is empty."""

    answers: dict[tuple[str, int], ProducedPartition]
    missing: dict[tuple[str, int], None]
    connection: int


@dataclass(slots=True)
class WaitingFetch:
    """A fetch that found too little and waits for more."""

    fetch: Fetch
    connection: int
    read_bytes: int = 0  # by attempts that found too little; it is not read for ever


@dataclass(slots=True)
class LeaderSession:
    """A fetch session, follower side: what the leader was last asked for, partition by partition."""

    session_id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH  # of the next request
    asked: dict[tuple[str, int], FetchPartition] = field(default_factory=dict)


@dataclass(slots=True)
class CompactionSchedule:
    """The log that is being compacted, if any."""

    is_planned: bool = False
    cleaning: Cleaning | None = None
    replica: Replica | None = None
    is_syncing: bool = False
    flushes: int = 0  # asked for so far; the number of the last


class TopicConfigured(NamedTuple):
    """What the settings in force and a topic's own say of its replicas."""

    settings: Settings
    configs: dict[str, str]
    log: LogConfig
    intake: Intake | None


@dataclass(slots=True)
class BrokerState:
    """All state of a broker."""

    settings: Settings
    """Those in force: what the metadata has for this broker or for all comes before the file's."""

    rules: Rules
    files: Files
    incarnation_id: str
    previous_broker_epoch: int = -1
    runtime: Runtime = field(default_factory=Runtime)
    lifecycle: Lifecycle = Lifecycle.STARTING
    broker_epoch: int = -1
    registration_deadline_ms: int | None = None  # None: it has registered since its start
    caught_up: bool = False
    flush_is_planned: bool = False  # by `log.flush.interval.ms`
    fenced: bool = True
    published: bool = False
    stop_wanted: bool = False
    controller_id: int = -1
    image: Image = field(default_factory=Image)
    """What requests and roles go by: the metadata, once a controller has confirmed them."""

    metadata: MetadataCopy = field(default_factory=MetadataCopy)
    snapshot_data: bytes = b""
    replicas: dict[tuple[str, int], Replica] = field(default_factory=dict)
    produces: dict[int, WaitingProduce] = field(default_factory=dict)
    fetches: dict[int, WaitingFetch] = field(default_factory=dict)
    touched: dict[tuple[str, int], None] = field(default_factory=dict)  # replicas whose waiting requests may proceed
    fetching_from: dict[int, int] = field(default_factory=dict)  # leader -> open request
    producer_ids: tuple[int, int] = (0, 0)  # next, end of the block that the controller gave
    waiting_for_producer_ids: list[int] = field(default_factory=list)  # request ids
    failed_directories: dict[int, str] = field(default_factory=dict)  # index in `log.dirs` -> why
    has_unread_directories: bool = False  # one failed before its contents were known
    offline: dict[tuple[str, int], str] = field(default_factory=dict)  # partitions without a usable log -> topic id
    lost: list[Replica] = field(default_factory=list)  # just failed; waiting requests must be answered
    reporting: tuple[tuple[str, str, int], ...] = ()  # offline replicas in the report to the controller that is open
    reported: tuple[tuple[str, str, int], ...] = ()  # in those that it accepted since the last metadata
    coordinator: GroupCoordinator = field(default_factory=GroupCoordinator)
    compaction: CompactionSchedule = field(default_factory=CompactionSchedule)

    file: Settings = field(init=False)
    """The settings of the node's file alone."""

    adopted: tuple[dict[str, str], dict[str, str]] = ({}, {})
    """The settings of the metadata that are in force: for all brokers, and for this one."""

    configured: dict[str, TopicConfigured] = field(default_factory=dict)
    """By topic, of those in the image that was published last; under "" of topics without settings of their own."""

    leader_sessions: dict[int, LeaderSession] = field(default_factory=dict)
    fetch_sessions: FetchSessions = field(init=False)

    def __post_init__(self) -> None:
        self.file = self.settings
        self.controller_id = min(self.settings.voters, default=-1)
        self.fetch_sessions = begin(self.settings.fetch_session_slots, self.incarnation_id)

    @property
    def broker_id(self) -> int:
        """This broker's node id."""
        return self.settings.node_id

    def absence_error(self, topic: str, partition: int) -> ErrorCode:
        """The error for a partition without a replica here (FE-1, PR-1, KIP-112)."""
        if (topic, partition) in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self.image.partition(topic, partition) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def touch(self, replica: Replica) -> None:
        """The replica's log or high watermark has moved: retry the requests that wait on it after this event."""
        self.touched[replica.key] = None
