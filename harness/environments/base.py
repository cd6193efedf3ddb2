"""What an environment offers to the runner, and what it asks of a system under test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, NamedTuple, Protocol

from harness.environments.causes import Caused
from nemesis.capabilities.cluster import Capability, Cluster, Endpoint, NodeRole, PartitionView, VoterView

Address = tuple[str, int]


class EnvironmentFailed(Caused):
    """The environment could not do its work (exit status 4). One line: what was wanted, what was found, what to do."""


class Addresses(Protocol):
    """Who reaches whom where. With per-link proxies the answer depends on who asks; with real networks it does not."""

    def bind(self, node_id: int, listener: str) -> Address:
        """Where a node's listener binds."""
        ...

    def reach(self, source: Endpoint, node_id: int, listener: str) -> Address:
        """Where `source` connects to reach that listener."""
        ...


@dataclass(frozen=True)
class NodePlan:
    """One node of the cluster, as the environment has laid it out."""

    node_id: int
    role: NodeRole
    directory: Path  # settings and log of the node; never lost
    data: Path  # what the page-cache loss applies to
    socket: Path  # where the system may put a control socket (short enough for AF_UNIX)
    storage: Literal["files", "page-cache"]  # "page-cache": the broker keeps its own ledger of what was synced
    pace: int = 1  # how many times longer than a process of this machine it may take to answer
    seen_at: Path | None = None  # where the node itself finds its directory, if that is on another machine

    @property
    def own_directory(self) -> Path:
        """The directory as the node itself finds it."""
        return self.seen_at or self.directory.absolute()


@dataclass(frozen=True)
class LogRecord:
    """One record of a replica's log."""

    offset: int
    leader_epoch: int
    crc: int | None  # None where the node does not tell
    value: bytes


@dataclass(frozen=True)
class ReplicaState:
    """What one node believes of one replica."""

    topic: str
    partition: int
    role: Literal["leader", "follower", "none"]
    leader: int
    leader_epoch: int
    log_start: int
    log_end: int
    high_watermark: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    broker_epoch: int


@dataclass(frozen=True)
class Traits:
    """What is so of every node of a system, whoever asks and whenever."""

    tells_followers: bool = True  # a follower tells where its log ends, not the leader alone
    volatile: bool = False  # keeps nothing beyond the end of its process, and promises no more
    versions: Mapping[str, str] = field(default_factory=dict)  # name → version, for readers of the run


class System(Protocol):
    """The system under test. `configure` is called once per node before the first start."""

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> Traits: ...

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:
        """What faults cannot do to this system, with its links carried and its files kept by these mechanisms."""
        ...

    def listeners(self, role: NodeRole) -> Sequence[str]:
        """Names of the listeners that a node of this role has, e.g. CLIENT, BROKER."""
        ...

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        """Write the node's settings into `plan.directory`."""
        ...

    def command(self, plan: NodePlan) -> Sequence[str]:
        """The command that runs the node in the foreground."""
        ...

    def keeper_of(self, group: str) -> int | None:
        """The partition of the topic `__consumer_offsets` that keeps a consumer group, if that is known."""
        ...

    def stop_command(self, plan: NodePlan, pid: int) -> Sequence[str] | None:
        """The command that has a running node shut down in good order; None: SIGTERM does."""
        ...

    def log_patterns(self, role: NodeRole) -> Sequence[str]:
        """Where a node logs besides its standard output and error: patterns of files in its directory."""
        ...

    def is_ready(self, plan: NodePlan) -> bool:
        """Whether the node serves, by its own account."""
        ...

    def replicas(self, plan: NodePlan) -> Sequence[ReplicaState]:
        """What this node believes; empty if it does not answer."""
        ...

    def view(self, plans: Sequence[NodePlan]) -> Sequence[PartitionView]:
        """The cluster's own view, from whoever can tell; empty if nobody can."""
        ...

    def active_controller(self, plans: Sequence[NodePlan]) -> int | None:
        """The node that is the active controller."""
        ...

    def voters(self, plans: Sequence[NodePlan]) -> Sequence[VoterView]:
        """What each of these controllers says of the quorum; one that does not answer is left out."""
        ...

    def log(self, plan: NodePlan, topic: str, partition: int) -> Iterator[LogRecord]:
        """Read a replica's whole log from a running node; nothing if it does not answer."""
        ...

    def lose_page_cache(self, plan: NodePlan) -> Mapping[str, tuple[int, int]]:
        """For `storage` "page-cache" only: drop what a dead node had not synced; file → (bytes before, after)."""
        ...

    def disk_changed(self, plan: NodePlan) -> None:
        """Hear that a dead node's files were changed behind its back: what was noted down of them holds no more."""
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
    """A place where a cluster runs. `set_up` and `tear_down` may be called once each; tear-down is safe at any time."""

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """How each capability is done here, in words for the report: {"network": "…", "page-cache-loss": "…"}."""
        ...

    @property
    def plans(self) -> Sequence[NodePlan]: ...

    @property
    def addresses(self) -> Addresses: ...

    @property
    def cluster(self) -> Cluster: ...

    def set_up(self) -> None:
        """Make networks and disks, write settings, start all nodes; returns when every node has been started."""
        ...

    def spawn_client(self, command: Sequence[str], log: Path) -> Process:
        """Run a client process as endpoint `CLIENTS`, with pipes for standard input and output."""
        ...

    def tear_down(self) -> None:
        """Stop everything that was started and undo everything that was made."""
        ...


class Mechanisms(NamedTuple):
    """What carries the packets of a run, and what its disks are made of."""

    network: str
    page_cache: str


class Capabilities(Protocol):
    """What a kind of environment can do to a cluster on this machine, and by which mechanisms: a module `offers`."""

    def sure_of(self, needs: frozenset[Capability]) -> bool:
        """Whether it can do all this whatever the machine is like, so that nothing need be tried."""
        ...

    def choose(self, network: str, page_cache: str, needs: frozenset[Capability]) -> Mechanisms:
        """The mechanisms to use: those that were asked for, else the first that work and offer what the faults need.

        Raises `EnvironmentFailed` when one was asked for that this machine does not have, or it can house no nodes at
        all. When none offers all that is needed the choice is as if nothing were: whoever asks compares it with
        `offered`.
        """
        ...

    def offered(self, mechanisms: Mechanisms) -> frozenset[Capability]:
        """What these mechanisms can do on this machine."""
        ...

    def ways(self, needs: frozenset[Capability]) -> tuple[tuple[str, ...], ...]:
        """The mechanisms among which a fault with these needs has a choice, one tuple a choice; none if it needs none.

        A fault that no mechanism can inject has an empty choice.
        """
        ...

    def lacking(self, needs: frozenset[Capability]) -> str | None:
        """Why this machine cannot inject a fault with these needs by any mechanism; None if it can."""
        ...
