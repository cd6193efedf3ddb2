"""What a fault needs: capabilities of nodes, of the network between them, and of the cluster's own view.

Environments provide these; faults are written once against them. An endpoint of the network is a node id,
or `CLIENTS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from nemesis.capabilities.administration import Administrator
from nemesis.capabilities.clocks import WallClock
from nemesis.capabilities.disks import Disk, PageCacheLoss, Survival
from nemesis.capabilities.shapes import Sample, Shape

CLIENTS = 0
"""The endpoint of all client processes."""

Endpoint = int
Link = tuple[Endpoint, Endpoint]
"""A direction: packets from the first endpoint to the second."""

NodeRole = Literal["broker", "controller", "combined"]
"""What a node does in the cluster; "combined": both."""

Capability = Literal[
    "process",  # kill, pause, resume, start, controlled stop
    "starvation",  # take processor time or memory from a node that runs
    "network",  # block links
    "network-shaping",  # delay, lose, duplicate, reorder, throttle and reset what passes
    "page-cache-loss",  # lose what was not synced, whole or in part
    "spare-broker",  # one that can take over a replica: there are more brokers than replicas of a partition
    "plain-broker",  # one that is no controller, too: what forgets something that it had synced may not vote
    "administration",  # create topics, move replicas, elect, change settings
    "clock",  # bend a node's wall clock
    "disk-damage",  # change the files of a dead node behind its back
    "disk-full",  # leave no room on the disk of a node that runs
    "disk-trouble",  # have its disk fail, lie, be slow, or stall
]


class Node(Protocol):
    """A machine, container or process group that runs the system under test. Errors are `NodeError`."""

    @property
    def node_id(self) -> int:
        """Number in the cluster: brokers from 1, controllers that are nothing else from 100."""
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

    def is_ready(self) -> bool:
        """Whether it serves: a broker that is running and unfenced by its own account."""
        ...

    def start(self) -> None:
        """Start the process; returns at once."""
        ...

    def stop(self, timeout_s: float) -> int:
        """Shut down in good order; returns the exit status."""
        ...

    def kill(self) -> None:
        """SIGKILL and reap."""
        ...

    def pause(self) -> None:
        """Stop the process from running, and see that it is stopped."""
        ...

    def resume(self) -> None:
        """Let it run again, and see that it runs."""
        ...

    def is_paused(self) -> bool:
        """Whether the process is alive and stands still."""
        ...

    def throttle(self, percent: int) -> None:
        """Let the process run in so many percent of the time only, until `unthrottle`."""
        ...

    def unthrottle(self) -> None:
        """Let it run whenever it wants to. Safe when it is not throttled, or dead."""
        ...

    def running_percent(self, seconds: float) -> float:
        """Look, again and again, whether the process may run; in how many percent of the looks it might."""
        ...

    def limit_memory(self) -> int:
        """Let the process have no more address space than it has; returns how many bytes that is."""
        ...

    def unlimit_memory(self) -> None:
        """Let it have as much as before. Safe when it is not limited, or dead."""
        ...

    def memory_limit(self) -> int | None:
        """Bytes of address space that the kernel lets the process have; None: no limit, or no process."""
        ...

    def log_tail(self) -> Sequence[str]:
        """Give the last lines that the node logged."""
        ...

    @property
    def disk(self) -> Disk:
        """What it keeps its files on."""
        ...

    @property
    def clock(self) -> WallClock:
        """Its wall clock, where it has one of its own. Raises `NodeError` where not."""
        ...

    def lose_page_cache(self, survival: Survival = "nothing", seed: int = 0) -> PageCacheLoss:
        """Drop what the dead node had not synced, but for what survives. The node must have been killed before."""
        ...


class HasRole(Protocol):
    """A node, or a plan of one."""

    @property
    def role(self) -> NodeRole: ...


def is_broker(node: HasRole) -> bool:
    """Whether it keeps partitions."""
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
        """Cut these links in addition to those that are cut."""
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
        """Treat packets of these links so, whatever was done to them before; `PLAIN` leaves them alone."""
        ...

    def shaped(self) -> Mapping[Link, Shape]:
        """Links whose packets are tampered with."""
        ...

    def shaping_counts(self) -> Mapping[str, int]:
        """Tell what was done to packets of shaped links so far, by kind ("taken", "lost", "reset" …)."""
        ...

    def sample(self, links: Iterable[Link], count: int, size: int, timeout_s: float) -> Sample:
        """Send so many packets of that size over each link, and see what becomes of them within the time."""
        ...


@dataclass(frozen=True)
class PartitionView:
    """What the cluster itself says of one partition (the controller's view where there is one)."""

    topic: str
    partition: int
    leader: int  # -1: none
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class VoterView:
    """What one controller says of the quorum that keeps the metadata."""

    controller: int
    role: str  # "leader", "follower", "candidate", "prospective", "unattached", "resigned"
    leader: int  # -1: it knows none
    epoch: int
    log_end: int  # of its metadata log
    high_watermark: int


def active_among(voters: Iterable[VoterView]) -> VoterView | None:
    """Find the active controller: the leader of the newest epoch. One that was deposed may not know it yet."""
    return max((voter for voter in voters if voter.role == "leader"), key=lambda voter: voter.epoch, default=None)


class Cluster(Protocol):
    """The system under test, as faults see it."""

    @property
    def nodes(self) -> Mapping[int, Node]:
        """All nodes by id."""
        ...

    @property
    def network(self) -> Network:
        """The network between them."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What can be done to it."""
        ...

    def partitions(self) -> Sequence[PartitionView]:
        """Look at all partitions; empty if nobody can tell."""
        ...

    @property
    def administrator(self) -> Administrator:
        """Somebody who may administer it."""
        ...

    def active_controller(self) -> int | None:
        """Node id of the controller that decides now, if there is one."""
        ...

    def voters(self) -> Sequence[VoterView]:
        """Look at the quorum through each controller that answers."""
        ...


class NodeError(Exception):
    """A node did not do what was asked; the message carries its last log lines."""
