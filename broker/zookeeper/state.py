"""The state of a broker of the ZooKeeper designs: the core's logs and replicas, and what the designs add to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.broker_node.state import BrokerState, WaitingProduce
from broker.core.messages import UNKNOWN, FetchRequest
from broker.core.ports.coordination import NO_SESSION
from broker.core.replica.state import RemoteReplica, Replica, Role
from broker.zookeeper.choices import CONTROLLED, WITH_EPOCHS
from broker.zookeeper.designs.controller.state import ControlledState
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Procedures


@dataclass(slots=True)
class PendingProduce:
    """An entry of a leader's commit queue. `request_id` is None where nobody waits for it."""

    end: int
    """Offset behind its last record."""

    request_id: int | None


@dataclass(slots=True)
class WaitingFetch:
    """A fetch that found nothing yet."""

    request: FetchRequest
    connection: int


class Cut(NamedTuple):
    """With a controller: why a follower has cut its log; what its leader has answered, -1 if it was not asked."""

    epoch: int = UNKNOWN
    end_offset: int = UNKNOWN
    to_high_watermark: bool = False


@dataclass(slots=True)
class Hosted:
    """A partition of which this broker has a replica."""

    replica: Replica
    is_elected: bool = False
    """The leader znode is ours, as far as is known: followers may fetch, whether the partition is open or not."""

    catching_up: set[int] = field(default_factory=set)
    """CUR: the assigned replicas that are not in sync."""

    reassigned: tuple[int, ...] = ()
    """RAR: the replicas that the partition is to have; none if it is not to move."""

    queue: deque[PendingProduce] = field(default_factory=deque)
    open_fetch: int | None = None
    """As follower: the request to the leader that is open."""

    registered_in: int = NO_SESSION
    """First design: the session of our state znode."""

    state_version: int = 0
    """First design: version of the request that was last read from it."""

    epoch: int = 0
    """Second design: the partition's epoch in which this broker was last elected."""

    asked_to_close_ms: int | None = None
    """Second design: when this leader asked the replicas to close that the partition is not to have any more."""

    controller_epoch: int = 0
    """With a controller: that of who has last elected here."""

    pending_isr: tuple[int, ...] = ()
    """With a controller: as leader, the ISR that is being written."""

    last_cut: Cut | None = None
    is_listening: bool = False
    """Our watches on the partition's znodes are set, or being set."""

    def __str__(self) -> str:
        return f"{self.replica.topic}-{self.replica.partition}"

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return self.replica.key

    @property
    def is_open(self) -> bool:
        """Whether it is led here, and open to clients."""
        return self.replica.role is Role.LEADER

    def end_of(self, broker_id: int) -> int:
        """The log end of a replica, as its fetches have shown it."""
        if broker_id == self.replica.broker_id:
            return self.replica.log.end_offset
        remote = self.replica.remotes.get(broker_id)
        return UNKNOWN if remote is None else remote.log_end

    def reported(self, broker_id: int, offset: int) -> None:
        """A fetch at this offset: taken at face value, from anybody (Z-06)."""
        self.replica.remotes.setdefault(broker_id, RemoteReplica()).log_end = offset


@dataclass(slots=True)
class ZooKeeperState:
    """All state of a broker. `broker` has what all generations have: settings, files, logs, runtime."""

    broker: BrokerState
    procedures: Procedures
    choices: frozenset[str]
    insync_in: Callable[[bytes, str], tuple[int, ...]]
    """Decodes the design's znode of in-sync replicas, of this path. Raises `BadZnode`."""

    session: int = NO_SESSION
    is_registered: bool = False
    hosted: dict[Key, Hosted] = field(default_factory=dict)
    produces: dict[int, WaitingProduce] = field(default_factory=dict)
    fetches: dict[int, WaitingFetch] = field(default_factory=dict)
    addresses: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Where brokers were last seen to listen."""

    backlog: int = 0
    """Second design: requests in our queue that were seen, and not carried out yet."""

    awaited: set[str] = field(default_factory=set)
    """Without a controller: paths by whose watches an administrator's command waits for a change."""

    controlled: ControlledState = field(default_factory=ControlledState)
    """With a controller: what it has said, and what this one does as controller."""

    @property
    def is_controlled(self) -> bool:
        """Whether the design has a controller."""
        return self.broker.settings.generation in CONTROLLED

    @property
    def has_epochs(self) -> bool:
        """Whether batches have the epoch of their leader."""
        return self.broker.settings.generation in WITH_EPOCHS

    @property
    def broker_id(self) -> int:
        """This broker's id, which is its replicas' too."""
        return self.broker.broker_id

    @property
    def keep_in_sync_ms(self) -> int:
        """`KeepInSyncTime`: how long a leader waits for a follower before it drops it from the ISR."""
        return self.broker.settings.replica_lag_time_max_ms

    def chose(self, choice: str) -> bool:
        """Whether a switch is on."""
        return choice in self.choices
