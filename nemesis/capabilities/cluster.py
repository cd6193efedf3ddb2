"""The interfaces that faults are written against: nodes with their clocks, network, metadata, administration.

Environments implement them. An endpoint of the network is a node id, or `CLIENTS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from nemesis.capabilities.disks import BreakableDisk, PageCacheLoss, Survival
from nemesis.capabilities.shapes import LinkSample, Shape

LOG_LINES = 8
"""How many lines of a log are shown with an error."""


class Administrator(Protocol):
    """Administers topics. Errors are `NodeError`: the cluster refused, or did not answer."""

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> None:
        """Create a topic."""
        ...

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        ...

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase the number of a topic's partitions to `total`."""
        ...

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Request these replicas, the preferred leader first; returns before they are in place."""
        ...

    def elect(self, topic: str, partition: int) -> None:
        """Elect the preferred leader."""
        ...

    def setting(self, topic: str, name: str) -> str:
        """Return the value of a topic's setting."""
        ...

    def set(self, topic: str, name: str, value: str) -> None:
        """Change a topic's setting."""
        ...


class NodeWallClock(Protocol):
    """The wall clock of one node's processes. Their monotonic clock is always right. Errors are `NodeError`."""

    def bend(self, offset_ms: float, drift_ppm: int = 0) -> None:
        """Be off by `offset_ms` from now on, and gain `drift_ppm` microseconds per second."""
        ...

    def straighten(self) -> None:
        """Set the clock right."""
        ...

    def error_ms(self) -> float:
        """Ask a process that uses this clock for the time; returns how much it is off."""
        ...

    def answers(self) -> int:
        """How many times the node's processes have read the clock so far, where that is counted."""
        ...

    def governs(self, pid: int) -> bool:
        """Whether the process uses this clock."""
        ...


CLIENTS = 0
"""The endpoint of all client processes."""

Endpoint = int
Link = tuple[Endpoint, Endpoint]
"""A direction: packets from the first endpoint to the second."""

NodeRole = Literal["broker", "controller", "combined"]
"""What a node does in the cluster; "combined": both."""

Capability = Literal[
    "process",  # kill, pause, resume, start, controlled stop
    "upgrade",  # start a node with the next version of the system
    "starvation",  # take processor time or memory from a node that runs
    "network",  # block links
    "network-shaping",  # delay, lose, duplicate, reorder, throttle and reset what passes
    "page-cache-loss",  # lose unsynced data, all or a part of it
    "spare-broker",  # one that can take over a replica: more brokers than replicas of a partition
    "plain-broker",  # one that is not also a controller: a node that loses synced data may not vote
    "topics",  # create, extend and delete them
    "reassignment",  # move partitions to other replicas
    "administration",  # elect leaders, change settings
    "clock",  # set a node's wall clock wrong
    "disk-damage",  # change the files of a dead node
    "disk-full",  # fill the disk of a node that runs
    "disk-trouble",  # make its disk fail, skip syncs, be slow, or stall
]


class ClusterNode(Protocol):
    """A machine, container or process group that runs the system under test. Errors are `NodeError`."""

    @property
    def node_id(self) -> int:
        """Number in the cluster: brokers from 1, controllers that are no brokers from 100."""
        ...

    @property
    def role(self) -> NodeRole:
        """What the node does in the cluster."""
        ...

    @property
    def pid(self) -> int | None:
        """Process id of the latest start; None before the first."""
        ...

    def is_alive(self) -> bool:
        """Whether the process exists (a paused one does)."""
        ...

    def exit_status(self) -> int | None:
        """Exit status of the latest process, negative for the signal that killed it; None: it runs, or none did."""
        ...

    def is_ready(self) -> bool:
        """Whether it serves: a broker that reports itself running and unfenced."""
        ...

    def start(self) -> None:
        """Start the process; returns at once."""
        ...

    def stop(self, timeout_s: float) -> int:
        """Shut down in a controlled way; returns the exit status."""
        ...

    def kill(self) -> None:
        """SIGKILL and reap."""
        ...

    def pause(self) -> None:
        """Stop the process from running, and check that it is stopped."""
        ...

    def resume(self) -> None:
        """Let it run again, and check that it runs."""
        ...

    def is_paused(self) -> bool:
        """Whether the process is alive and stopped."""
        ...

    def throttle(self, percent: int) -> None:
        """Let the process run for that percentage of the time only, until `unthrottle`."""
        ...

    def unthrottle(self) -> None:
        """Stop throttling. Safe when it is not throttled, or dead."""
        ...

    def running_percent(self, seconds: float) -> float:
        """Sample for that time whether the process may run; returns the percentage of samples in which it might."""
        ...

    def limit_memory(self) -> int:
        """Limit the address space of the process to what it has; returns the limit in bytes."""
        ...

    def unlimit_memory(self) -> None:
        """Remove the limit. Safe when it is not limited, or dead."""
        ...

    def memory_limit(self) -> int | None:
        """The kernel's limit of the address space in bytes; None: no limit, or no process."""
        ...

    def log_tail(self, lines: int = LOG_LINES) -> Sequence[str]:
        """Return the last lines of each of the node's logs."""
        ...

    @property
    def disk(self) -> BreakableDisk:
        """The disk with its files."""
        ...

    @property
    def clock(self) -> NodeWallClock:
        """Its wall clock. Raises `NodeError` if it has none of its own."""
        ...

    def lose_page_cache(self, survival: Survival = "nothing", seed: int = 0) -> PageCacheLoss:
        """Drop the unsynced data of a killed node, except what survives."""
        ...


class HasRole(Protocol):
    """A node, or the plan of one."""

    @property
    def role(self) -> NodeRole: ...


def is_broker(node: HasRole) -> bool:
    """Whether it replicates partitions."""
    return node.role != "controller"


def is_controller(node: HasRole) -> bool:
    """Whether it votes on the metadata."""
    return node.role != "broker"


class Network(Protocol):
    """The links between endpoints."""

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """All node ids and `CLIENTS`."""
        ...

    def block(self, links: frozenset[Link]) -> None:
        """Cut these links, too."""
        ...

    def unblock(self, links: frozenset[Link]) -> None:
        """Mend these links."""
        ...

    def blocked(self) -> frozenset[Link]:
        """Links that are cut."""
        ...

    def reaches(self, source: Endpoint, target: Endpoint) -> bool:
        """Probe, with real packets, whether a packet from source arrives at target."""
        ...

    def reached(self, links: Iterable[Link]) -> frozenset[Link]:
        """Probe many links at once; returns those that carried their packet."""
        ...

    def shape(self, links: frozenset[Link], shape: Shape) -> None:
        """Apply a shape to these links in place of their old ones; `PLAIN` removes it."""
        ...

    def shaped(self) -> Mapping[Link, Shape]:
        """Links with a shape other than `PLAIN`."""
        ...

    def shaping_counts(self) -> Mapping[str, int]:
        """Count packets of shaped links so far, by what happened to them ("taken", "lost", "reset" …)."""
        ...

    def sample(self, links: Iterable[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        """Send `count` packets of `size` bytes over each link, and measure those that arrive within the time."""
        ...


@runtime_checkable
class CutsOffNodes(Protocol):
    """A network in which single links are out of reach: only whole nodes can be cut off. Errors are `NodeError`."""

    def cut_off(self, node: int) -> None:
        """Cut a node off, and verify that it is."""
        ...

    def rejoin(self, node: int) -> None:
        """Connect it again. Safe when it is not cut off."""
        ...

    def is_cut_off(self, node: int) -> bool:
        """Whether it was cut off and not connected again."""
        ...


@dataclass(frozen=True)
class PartitionView:
    """One partition according to the cluster's metadata (the controller's, if there is one)."""

    topic: str
    partition: int
    leader: int  # -1: none
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class VoterView:
    """The metadata quorum as one controller reports it."""

    controller: int
    role: str  # "leader", "follower", "candidate", "prospective", "unattached", "resigned"
    leader: int  # -1: unknown
    epoch: int
    log_end: int  # of its metadata log
    high_watermark: int


def active_among(voters: Iterable[VoterView]) -> VoterView | None:
    """Find the active controller: the leader of the newest epoch. One that was deposed may not know it yet."""
    return max((voter for voter in voters if voter.role == "leader"), key=lambda voter: voter.epoch, default=None)


class Cluster(Protocol):
    """The system under test."""

    @property
    def nodes(self) -> Mapping[int, ClusterNode]:
        """All nodes by id."""
        ...

    @property
    def network(self) -> Network:
        """The network between them."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What faults can do to it."""
        ...

    def partitions(self) -> Sequence[PartitionView]:
        """Query all partitions; empty if no broker answers."""
        ...

    @property
    def administrator(self) -> Administrator:
        """A client that administers topics."""
        ...

    def active_controller(self) -> int | None:
        """Node id of the active controller, if there is one."""
        ...

    def voters(self) -> Sequence[VoterView]:
        """Query the metadata quorum from each controller that answers."""
        ...


class NodeError(Exception):
    """A node did not carry out a request; the message has its last log lines."""


class NodeLost(NodeError):
    """A node was started, and ended by itself: it will not come back."""
