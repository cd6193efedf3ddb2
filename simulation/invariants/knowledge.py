"""The observer's state: the ghosts of the partitions, the committed metadata, the mirrors of the nodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from broker.core.broker_node.groups.state import Member
from broker.core.configuration.settings import Settings
from broker.core.controller.state import RecoveryJob
from broker.core.log.compaction.cleaning import Cleaning
from broker.core.messages import UNKNOWN, AnyRequest
from broker.core.metadata.image import Image
from broker.core.metadata.records import PartitionState
from broker.core.ports.events import RequestReceived
from broker.core.ports.marks import sometimes
from broker.core.quorum.state import Quorum, QuorumRole
from broker.core.replica.state import Replica
from simulation.engine.cluster import SimulatedCluster
from simulation.invariants.administration.asked import Administered
from simulation.invariants.answers.asked import AskedPartition, AsksControllers
from simulation.invariants.expiry import A_RUN_MS
from simulation.invariants.ghost import Entries, Ghost, Lineage, Mirror, ReplicaMirror
from simulation.invariants.groups.ghost import Asked, GroupRequest, SeenGroup
from simulation.invariants.progress.calm import Calm
from simulation.invariants.properties import DATA_PROPERTIES, Violation, data_excuse, with_excuse

LAST_REPLICA_LOST = sometimes("last replica standing: the only ISR member is back with a part of its log")


@dataclass(slots=True)
class DueCheckpoints:
    """When a broker's checkpoints are looked at, by its machine's clock, and what they must say by then."""

    incarnation: int = 0
    at_ms: int = 0
    late_since_us: int = -1
    """Virtual time of the first step at which they were due; -1: they are not."""

    noted: dict[tuple[str, int], object] = field(default_factory=dict)


class CompactionUnderWay(NamedTuple):
    """A compaction of a broker, and its log when it began."""

    cleaning: Cleaning
    replica: Replica
    truncations: int
    start: int
    compacted: int


class SeenFollower(NamedTuple):
    """What a leader knew of a follower after its last fetch; times by the leader's clock, in ms."""

    replica: Replica
    leader_epoch: int
    fetched_ms: int
    leader_end: int
    caught_up_ms: int
    log_end: int
    broker_epoch: int = UNKNOWN


@dataclass(slots=True)
class BrokerMirror:
    """A broker's process at its last step."""

    broker_id: int
    incarnation: int = 0
    up: bool = False
    has_started: bool = False
    """Whether the logs that its process found on the disk are known."""

    broker_epoch: int = -1
    image_end: int = 0
    image: Image | None = None
    """The broker's present metadata image."""

    furthest: int = 0
    """The furthest that it has reached in the metadata, in any process."""

    unseen: tuple[int, int] = (0, 0)
    """After and up to which offset of the metadata its process before may have come in a step that it did not end."""

    logs_at_end: dict[tuple[str, int], tuple[int, int, int]] | None = None
    """Where its logs began and ended, and how often they were cut, when it ended before the controller of its node."""

    clean_epoch: int = -1
    """The broker epoch of an incarnation that ended cleanly, until the next one starts; else -1."""

    interrupted: bool = False
    """Whether the power failed in the last step of its process, which may have been that of a clean stop."""

    failed_directories: Mapping[int, str] = field(default_factory=dict)
    """What its process holds to be the log directories that have failed, and why."""

    mirrors: dict[tuple[str, int], ReplicaMirror] = field(default_factory=dict)
    alterations: dict[int, tuple[str, str, int, int, int]] = field(default_factory=dict)
    """Open AlterPartition requests: request id -> (topic, topic id, partition, leader epoch, partition epoch)."""

    overtaken: set[tuple[str, str, int, int, int]] = field(default_factory=set)
    """Those of them that were answered by an error that says that the state is over."""

    proposed: list[Replica] = field(default_factory=list)
    """Partitions for which a change of the ISR has become pending in its last step."""

    reads: dict[int, dict[tuple[str, int], tuple[int, int]]] = field(default_factory=dict)
    """Open reads of consumers: request id -> partition -> (fetch offset, acknowledged end at the arrival)."""

    racks: dict[int, str] = field(default_factory=dict)
    """Those of them that name a rack: request id -> the rack."""

    fetches: dict[int, tuple[int, int, dict[tuple[str, int], tuple[int, int]]]] = field(default_factory=dict)
    """Open fetches: request id -> leader, session epoch, and (log end, leader epoch) of what it follows there."""

    sessions_accepted: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Leader that has answered its last fetch without an error -> the fetch session, and its epoch in that fetch."""

    writes: dict[int, dict[tuple[str, int], bytes]] = field(default_factory=dict)
    """Open produce requests with acks=all: request id -> partition -> the batch."""

    compared_settings: dict[tuple[str, int], tuple[object, ...]] = field(default_factory=dict)
    """Partition -> its log's settings and those of the metadata that they were found to follow from last."""

    checkpoints: DueCheckpoints = field(default_factory=DueCheckpoints)
    deleting: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """In a step in which it is asked to delete records: partition -> (before which offset, its log start before)."""

    asked: dict[int, AnyRequest] = field(default_factory=dict)
    """Open requests about partitions, of clients and of followers."""

    sessions: dict[int, dict[tuple[str, int], AskedPartition]] = field(default_factory=dict)
    """Fetch session -> what it asks for of each partition, by the topic's name or id."""

    session_epochs: dict[int, int] = field(default_factory=dict)
    """Fetch session -> the latest epoch in which it was asked for; 0: none since it began."""

    in_turn: dict[int, bool] = field(default_factory=dict)
    """Open fetches of sessions -> whether each was the next one of its session."""

    group_requests: dict[int, GroupRequest] = field(default_factory=dict)
    """Open requests of group members, with what had been shown and told when each arrived."""

    compaction: CompactionUnderWay | None = None
    followers: dict[tuple[str, int, int], SeenFollower] = field(default_factory=dict)
    """Of each partition that it leads and each follower."""

    groups_seen: dict[str, SeenGroup] = field(default_factory=dict)
    """The groups that it coordinates, as they were after its last step."""

    asking: AsksControllers = field(default_factory=AsksControllers)
    members_answered: dict[str, int] = field(default_factory=dict)
    """Member of a group -> when it was answered last without an error, in ms by the broker's clock (P-50)."""


class Standing(NamedTuple):
    """What a voter knew after a step: of an election, and of what is committed.

    `hears`: it follows a leader that has answered it.
    """

    epoch: int
    role: QuorumRole
    leader: int
    voted_for: int
    hears: bool
    high_watermark: int = 0


@dataclass(slots=True)
class VoterMirror(Mirror):
    """A mirror of a controller: its metadata log and its role in the quorum."""

    quorum: Quorum | None = None
    """Of its present process."""

    incarnation: int = 0
    epoch: int = 0
    high_watermark: int = 0
    image_end: int = 0
    snapshot_end: int = 0
    leads: bool = False
    standing: Standing | None = None
    """After its last step; None if it has just started."""

    before: Standing | None = None
    """After the step before."""

    stored: tuple[int, int] | None = None
    """The quorum epoch and the vote that were found on its disk last."""

    checked_ms: dict[Hashable, tuple[tuple[int, int], int | None]] = field(default_factory=dict)
    """Timer of a check -> the incarnation and the quorum epoch in which it came last, and when by its clock (P-71)."""


@dataclass(slots=True)
class OpenReports:
    """Requests of brokers that a controller must not carry out, by request id: why not."""

    incarnation: int
    stale: dict[int, str] = field(default_factory=dict)
    ahead: dict[int, dict[tuple[str, int], str]] = field(default_factory=dict)
    """By partition: the change of its ISR rests on a state that the controller does not know."""

    fenced: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """Of a heartbeat: the broker, and whether it was fenced when the heartbeat had been handled."""

    fenced_brokers: set[tuple[int, int, int]] = field(default_factory=set)
    """Quorum epoch, broker and its epoch, of brokers that were fenced when their last heartbeat had been handled."""

    assigned: dict[int, int] = field(default_factory=dict)
    """Of a report of replicas' directories: of how many replicas it is."""


@dataclass(slots=True)
class Version:
    """The committed image up to an offset, in a form that can be compared with a node's."""

    brokers: dict[int, object]
    topics: dict[str, tuple[str, dict[int, object], dict[str, str]]]
    configs: tuple[dict[str, str], dict[int, dict[str, str]]]
    """Settings of all nodes, and of single brokers."""

    next_producer_id: int


@dataclass(slots=True)
class Deciding:
    """A partition in an active controller: its state, and the logs (last epoch, end) that a recovery has heard of."""

    state: PartitionState
    heard: dict[int, tuple[int, int]] = field(default_factory=dict)
    job: RecoveryJob | None = None
    min_isr: int = 0
    """The effective min ISR by the controller's metadata when the recovery began."""


@dataclass(slots=True)
class OpenRequests:
    """What one process of a node has been asked and has not answered, by request id, the oldest first."""

    incarnation: int = -1
    waiting: dict[int, tuple[int, RequestReceived]] = field(default_factory=dict)
    """Since when, in virtual microseconds."""

    unheard: set[int] = field(default_factory=set)
    """Those whose connection has ended: they may be answered still, once, and nobody hears it."""

    given_up: list[tuple[int, int, RequestReceived]] = field(default_factory=list)
    """Those whose sender has ended the connection since it was looked last: from when to when they waited, in us."""


@dataclass(slots=True)
class Knowledge:
    """See the module. `settings` are those of any broker: all of a simulation have the same, but for min ISR."""

    settings: Settings
    min_isr_of_files: int
    """The largest `min.insync.replicas` in any node's file: what is promised until the metadata has another."""

    voters: dict[int, VoterMirror]
    brokers: dict[int, BrokerMirror]
    cluster: SimulatedCluster
    """What is observed: of this only clocks, disks, and how often each mark was hit."""

    producers_expire: bool = False
    """Whether a producer may be forgotten in this simulation at all (P-D2)."""

    unjudged: frozenset[str] = frozenset()
    """Properties that are not checked, since their rules were taken out of the build that is to be correct."""

    partitions: dict[tuple[str, int], Ghost] = field(default_factory=dict)
    """By topic id and partition."""

    topic_ids: dict[str, str] = field(default_factory=dict)
    """Every id of a topic that was ever committed -> its name."""

    administered: Administered = field(default_factory=Administered)
    """What administrators have asked for, and what became of it."""

    asked: Asked = field(default_factory=Asked)
    """What members of groups have asked for, and the truth about their groups."""

    image: Image = field(default_factory=Image)
    metadata: Entries = field(default_factory=list)
    """The ghost log of the metadata."""

    changes: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Batches of the metadata log that are not committed yet: (epoch, base offset) -> batch."""

    metadata_lineage: Lineage = field(default_factory=Lineage)
    versions: dict[int, Version] = field(default_factory=lambda: {0: Version({}, {}, ({}, {}), 0)})
    """The committed image by its end offset."""

    leaders: dict[int, int] = field(default_factory=dict)
    """Quorum epoch -> its leader, according to the first voter that named one."""

    led_in: dict[int, int] = field(default_factory=dict)
    """Quorum epoch -> the incarnation of the voter that led it."""

    committed_in: dict[int, int] = field(default_factory=dict)
    """Quorum epoch -> how far its leader has committed the metadata log."""

    votes: dict[tuple[int, int], int] = field(default_factory=dict)
    """(voter, quorum epoch) -> the candidate that it voted for."""

    ended_cleanly: dict[str, int] = field(default_factory=dict)
    """Incarnation id -> the broker epoch of the previous incarnation, if that ended cleanly, else -1."""

    failed_before: set[str] = field(default_factory=set)
    """Incarnation ids of brokers that could not see what a clean stop had left behind.

    Either a start before them has failed, and may have used it up, or a log directory failed as they started.
    """

    deciding: dict[int, dict[tuple[str, int], Deciding]] = field(default_factory=dict)
    """By active controller: the partitions as it has decided, committed or not, by topic id and number."""

    calm: Calm = field(default_factory=Calm)
    """What no fault has disturbed, and since when."""

    producer_ids: dict[int, int] = field(default_factory=dict)
    """Each id that a producer has got -> the broker that gave it (P-54)."""

    members_heard: dict[tuple[int, str], int] = field(default_factory=dict)
    """By broker and member of a group: when the broker has heard from it last, in virtual microseconds (P-39)."""

    members_seen: dict[tuple[int, str, str], tuple[Member, int]] = field(default_factory=dict)
    """By coordinator, group and member: the member, and since when it has not been waiting for an answer."""

    complete_groups: dict[tuple[int, str], tuple[tuple[Member, ...], int]] = field(default_factory=dict)
    """By coordinator and group that prepares a generation: its members, which have all joined, and since when (us)."""

    reported: dict[int, int] = field(default_factory=dict)
    """By controller that was active: how many unclean elections it has counted (P-37)."""

    unanswered: dict[int, OpenRequests] = field(default_factory=dict)
    """By node (V-16)."""

    reports: dict[int, OpenReports] = field(default_factory=dict)
    """By controller (P-40, P-41)."""

    decided_at: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """By active controller: its image's end offset when that was noted, and whether recoveries were going on."""

    @classmethod
    def of(cls, cluster: SimulatedCluster, unjudged: frozenset[str] = frozenset()) -> Knowledge:
        """The state before the first event."""
        every = [machine.settings for machine in cluster.machines.values()]
        brokers = [one for one in every if one.is_broker]
        return cls(
            brokers[0],
            max(one.min_insync_replicas for one in every),
            {one.node_id: VoterMirror(one.node_id) for one in every if one.is_controller},
            {one.node_id: BrokerMirror(one.node_id) for one in brokers},
            cluster,
            brokers[0].producer_id_expiration_ms < A_RUN_MS,
            unjudged,
        )

    @property
    def generation(self) -> str:
        """The protocol version (K1 to K5) of the observed cluster."""
        return self.settings.generation

    @property
    def elects_longest_logs(self) -> bool:
        """Whether the controllers look for the longest log before an unclean election (UR-5)."""
        return self.generation == "K5" and self.settings.unclean_recovery_manager_enabled

    def ghost(self, topic: str, topic_id: str, number: int, image: Image | None = None) -> Ghost:
        """The ghost of a partition; `image` knows a topic that may not be committed yet."""
        found = self.partitions.get((topic_id, number))
        if found is None:
            found = self.partitions[topic_id, number] = Ghost(topic, number)
            known = (image or self.image).topics.get(topic)
            if known is not None and "compact" in known.configs.get("cleanup.policy", ""):
                found.contents = {}
            if known is not None and ("retention.ms" in known.configs or "retention.bytes" in known.configs):
                found.times = {}
        return found

    def ghost_of(self, topic: str, number: int) -> Ghost | None:
        """The ghost of a partition of the topic that has this name now."""
        image = self.image.topics.get(topic)
        return self.partitions.get((image.topic_id, number)) if image is not None else None

    def ghost_held(self, broker: BrokerMirror, topic: str, number: int) -> Ghost | None:
        """The ghost of the partition whose log a broker has under this name, which may be that of a deleted topic."""
        mirror = broker.mirrors.get((topic, number))
        replica = mirror.replica if mirror is not None else None
        return self.partitions.get((replica.topic_id, number)) if replica is not None else None

    def time_of_day(self, node_id: int) -> int:
        """What a node takes for the time of day, in ms."""
        return self.cluster.machines[node_id].time_of_day_ms(self.cluster.now_us)

    def configured_min_isr(self, ghost: Ghost) -> int:
        """The min ISR of a partition by the committed metadata, however many replicas it has."""
        return self.image.min_insync_replicas(ghost.topic, self.min_isr_of_files)

    def min_isr(self, ghost: Ghost) -> int:
        """The effective min ISR of a partition by the committed metadata (§1)."""
        configured = self.configured_min_isr(ghost)
        return min(configured, len(ghost.state.replicas)) if ghost.state is not None else configured

    def runs_as_registered(self, broker_id: int) -> bool:
        """Whether the process of a broker is the one that is registered, by the committed metadata."""
        broker = self.brokers[broker_id]
        return broker.up and broker.broker_epoch == self.image.broker_epoch(broker_id)

    def clock_ms(self, node_id: int) -> int:
        """What the monotonic clock of a node's process says, in ms."""
        return self.cluster.machines[node_id].clock.now_ms(self.cluster.now_us)

    def sole_member_lost(self, ghost: Ghost) -> None:
        """A partition's only ISR member has restarted with a part of its log."""
        if ghost.sole_member_lost:  # this is called with every change of the metadata
            return
        ghost.sole_member_lost = True
        self.cluster.count(LAST_REPLICA_LOST)

    def fail(self, ghost: Ghost, property_id: str, what: str) -> NoReturn:
        """Raise the violation of a property of a partition."""
        excuse = ""
        if property_id in DATA_PROPERTIES:
            excuse = data_excuse(self.generation, sole_member_lost=ghost.sole_member_lost)
        raise Violation(property_id, with_excuse(f"{ghost}: {what}", self.generation, excuse))
