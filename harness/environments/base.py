"""Interfaces of environments and of systems under test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, NamedTuple, Protocol, runtime_checkable

from common.wording import FIRST_CONTROLLER
from harness.environments.causes import Caused
from nemesis.capabilities.cluster import Capability, Cluster, Endpoint, NodeRole, PartitionView, VoterView

Address = tuple[str, int]


class EnvironmentFailed(Caused):
    """The environment failed (exit status 4). One line: what was expected, what was found, what to do."""


FIT_S = 10.0
"""Within which a cluster that serves must be the one that is to be tested: nodes learn their features from others."""


class Addresses(Protocol):
    """Addresses of listeners. With per-link proxies an address depends on the source; in a real network it does not."""

    def bind(self, node_id: int, listener: str) -> Address:
        """Where a node's listener binds."""
        ...

    def reach(self, source: Endpoint, node_id: int, listener: str) -> Address:
        """Where `source` connects to reach that listener."""
        ...


@dataclass(frozen=True)
class NodePlan:
    """One node of the cluster: id, role and paths."""

    node_id: int
    role: NodeRole
    directory: Path  # settings and log of the node; no fault deletes them
    data: Path  # log data; the page-cache loss applies to it
    socket: Path  # path for the system's control socket (short enough for AF_UNIX)
    storage: Literal["files", "page-cache"]  # "page-cache": the broker keeps its own ledger of what was synced
    pace: int = 1  # factor on timeouts, for nodes slower than a process of this machine
    seen_at: Path | None = None  # the directory's path on the node's machine, if that is another machine

    @property
    def own_directory(self) -> Path:
        """The directory's path on the node's machine."""
        return self.seen_at or self.directory.absolute()


@dataclass(frozen=True)
class LogRecord:
    """One record of a replica's log."""

    offset: int
    leader_epoch: int | None  # None: the system has none
    crc: int | None  # None if the node does not report it
    value: bytes
    producer: tuple[int, int, int] | None = None  # its id, epoch and sequence number; None if it was not idempotent


@dataclass(frozen=True)
class ReplicaState:
    """The state of one replica, as its node reports it."""

    topic: str
    partition: int
    role: Literal["leader", "follower", "none"]
    leader: int
    leader_epoch: int | None  # None: the node does not know it, or there are none
    log_start: int | None  # None: the node does not tell, like the other two
    log_end: int | None
    high_watermark: int | None
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    broker_epoch: int
    last_known_elr: tuple[int, ...] | None = None  # None: the node does not tell


@dataclass(frozen=True)
class Traits:
    """Properties of a system that do not change during a run."""

    reports_followers: bool = True  # followers report their log end offset, not only the leader
    volatile: bool = False  # keeps its data in memory only, and promises no more
    orderly_exits: frozenset[int] = frozenset({0})  # exit statuses of a controlled shutdown
    start_s: float = 30.0  # within which a node that is started again serves
    stop_s: float = 20.0  # within which a controlled shutdown ends
    session_ms_min: int = 0  # the shortest session timeout of a member of a group that it accepts
    not_back_after: frozenset[str] = frozenset()  # kinds of fault after which a node need not come back
    versions: Mapping[str, str] = field(default_factory=dict)  # name → version, for the report
    flaw_summaries: Mapping[str, str] = field(default_factory=dict)  # planted flaw → what is wrong, for the report
    controllers_from: int = FIRST_CONTROLLER  # the id of the first node in the role of a controller
    upgrades_first: Literal["brokers", "controllers"] = "brokers"  # the nodes that an upgrade restarts first
    topic: str = "harrow"  # name of the workload's topic
    topic_settings: Mapping[str, str] = field(default_factory=dict)  # besides min.insync.replicas
    groups: tuple[str, ...] = ("readers-a", "readers-b")
    """Consumer groups of the workload `groups`: two, so that more than one broker coordinates a group."""


class System(Protocol):
    """The system under test. `configure` is called once per node before the first start."""

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> Traits: ...

    @property
    def version_name(self) -> str:
        """What `version` returns of a node that runs it."""
        ...

    def version(self, plan: NodePlan) -> str | None:
        """The version of the system that the node's process reports; None if it does not answer, or not tell."""
        ...

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:
        """The capabilities that this system does not support with these network and page-cache mechanisms."""
        ...

    def listeners(self, role: NodeRole) -> Sequence[str]:
        """Names of the listeners of a node of this role, e.g. CLIENT, BROKER."""
        ...

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        """Write the node's settings into `plan.directory`."""
        ...

    def command(self, plan: NodePlan) -> Sequence[str]:
        """The command that runs the node in the foreground."""
        ...

    def offsets_partition_of(self, group: str) -> int | None:
        """The partition of `__consumer_offsets` that stores a consumer group; None if unknown."""
        ...

    def stop_command(self, plan: NodePlan, pid: int) -> Sequence[str] | None:
        """The command for a controlled shutdown of a running node; None: SIGTERM does it."""
        ...

    def log_patterns(self, role: NodeRole) -> Sequence[str]:
        """Patterns of log files in the node's directory, besides its standard output and error."""
        ...

    def is_ready(self, plan: NodePlan) -> bool:
        """Whether the node reports that it serves."""
        ...

    def unfit(self, plans: Sequence[NodePlan]) -> str | None:
        """Why the cluster, which serves, is not the one that is to be tested, in one line; None: it is."""
        ...

    def replicas(self, plan: NodePlan) -> Sequence[ReplicaState]:
        """The states of this node's replicas; empty if it does not answer."""
        ...

    def view(self, plans: Sequence[NodePlan]) -> Sequence[PartitionView]:
        """The cluster's own view of its partitions; empty if no node answers."""
        ...

    def active_controller(self, plans: Sequence[NodePlan]) -> int | None:
        """The node that is the active controller."""
        ...

    def voters(self, plans: Sequence[NodePlan]) -> Sequence[VoterView]:
        """The quorum as each of these controllers reports it; controllers that do not answer are left out."""
        ...

    def log(self, plan: NodePlan, topic: str, partition: int) -> Iterator[LogRecord]:
        """Read a replica's whole log from a running node; empty if it does not answer."""
        ...

    def lose_page_cache(self, plan: NodePlan) -> Mapping[str, tuple[int, int]]:
        """For `storage` "page-cache" only: drop a dead node's unsynced data; file → (bytes before, after)."""
        ...

    def disk_changed(self, plan: NodePlan) -> None:
        """Called after a fault has changed a dead node's files: discard anything recorded about them."""
        ...


@runtime_checkable
class Upgradable(Protocol):
    """A system of which there are two versions."""

    @property
    def next_version(self) -> str:
        """The version to upgrade to."""
        ...

    def version(self, plan: NodePlan) -> str | None:
        """The version that the node's process reports; None if it does not answer."""
        ...

    def upgrade(self, plan: NodePlan) -> None:
        """Run that version of the node from its next start on."""
        ...


class Process(Protocol):
    """A client process that the environment runs inside the cluster's network."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> IO[bytes]: ...

    @property
    def stdout(self) -> IO[bytes]: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout_s: float) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Environment(Protocol):
    """Runs a cluster. `set_up` and `tear_down` may be called once each; tear-down is safe at any time."""

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """Descriptions of the mechanisms, for the report: {"network": "…", "page-cache-loss": "…"}."""
        ...

    @property
    def plans(self) -> Sequence[NodePlan]: ...

    @property
    def addresses(self) -> Addresses: ...

    @property
    def cluster(self) -> Cluster: ...

    def set_up(self) -> None:
        """Create networks and disks, write settings, start all nodes; returns when every node has been started."""
        ...

    def spawn_client(self, command: Sequence[str], log: Path) -> Process:
        """Run a client process as endpoint `CLIENTS`, with pipes for standard input and output."""
        ...

    def tear_down(self) -> None:
        """Stop all processes and remove all resources that `set_up` created."""
        ...


class Mechanisms(NamedTuple):
    """The mechanisms of a run: for the network, and for losing the page cache."""

    network: str
    page_cache: str


class Capabilities(Protocol):
    """The capabilities of an environment on this machine, with their mechanisms (see the modules `capabilities`)."""

    def sure_of(self, needs: frozenset[Capability]) -> bool:
        """Whether it has all these capabilities on every machine, so that no probe is needed."""
        ...

    def choose(self, network: str, page_cache: str, needs: frozenset[Capability]) -> Mechanisms:
        """Select the mechanisms that the user asked for, else the first that work and have the needed capabilities.

        Raises `EnvironmentFailed` when this machine lacks a mechanism that the user asked for, or cannot run nodes at
        all. When no mechanism has all needed capabilities, it selects as if none were needed: the caller compares the
        result with `offered`.
        """
        ...

    def offered(self, mechanisms: Mechanisms) -> frozenset[Capability]:
        """The capabilities of these mechanisms on this machine."""
        ...

    def mechanisms_for(self, needs: frozenset[Capability]) -> tuple[tuple[str, ...], ...]:
        """The mechanisms that can inject a fault with these needs: one tuple of alternatives for each group it needs.

        A tuple is empty if no mechanism of its group can inject the fault.
        """
        ...

    def lacking(self, needs: frozenset[Capability]) -> str | None:
        """Why no mechanism of this machine can inject a fault with these needs; None if one can."""
        ...
