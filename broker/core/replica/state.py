"""The state of a replica (§2.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from broker.core.log.checkpoints import Claim
from broker.core.log.log import Log
from broker.core.messages import NO_LEADER, UNKNOWN, AlterPartitionPartition
from broker.core.replica.intake import Intake


class Role(Enum):
    """The current role of a replica."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


@dataclass(slots=True)
class RemoteReplica:
    """A leader's state of one of its followers (FE-9, LG-1)."""

    log_end: int = UNKNOWN
    log_start: int = UNKNOWN
    broker_epoch: int = UNKNOWN
    fetched_in_epoch: bool = False
    caught_up_ms: int = 0
    last_fetch_ms: int = 0
    leader_end_at_last_fetch: int = UNKNOWN


class PendingIsr(NamedTuple):
    """An ISR change that was sent to the controller and not answered (ISR-2)."""

    isr: tuple[int, ...]
    request: AlterPartitionPartition


@dataclass(slots=True)
class Replica:
    """One replica on this broker. Offsets are exclusive ends; -1 means unknown."""

    topic: str
    partition: int
    topic_id: str
    broker_id: int
    log: Log
    high_watermark: int = 0
    role: Role = Role.NONE
    leader: int = NO_LEADER
    leader_epoch: int = UNKNOWN
    partition_epoch: int = UNKNOWN
    recovery_state: int = 0
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    min_insync_replicas: int = 1
    intake: Intake | None = None
    """What to do with producers' batches; None: nothing."""

    # leader
    leader_epoch_start: int = 0
    remotes: dict[int, RemoteReplica] = field(default_factory=dict)
    pending_isr: PendingIsr | None = None
    waiting_produces: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """Request id -> (offset that must be reached, whether by the high watermark or only by the local log)."""

    log_end_when_watched: int = UNKNOWN  # when the ISR was last checked for lagging members
    waiting_fetches: dict[int, None] = field(default_factory=dict)  # request ids, in order

    # follower
    retry_fetch_at_ms: int = 0
    asks_for_place: bool = False  # out of range: it waits, until then at most, for where the leader's log begins (TR-8)
    compares_logs: bool = True  # the next fetch says which epoch the log ends in

    latest_of_producers: dict[int, tuple[tuple[int, int], int]] = field(default_factory=dict)
    """Producer id -> (truncations of the log and the offset of its last record, monotonic ms of when first seen so)."""

    claim: Claim | None = None
    """Of a broker with several log directories: when it took this log for the partition's."""

    is_damaged: bool = False  # its files cannot be compacted

    # flushing
    flushing_to: tuple[int, int] | None = None  # log end offset and truncations when the flush was asked for

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, never more than there are replicas (§1)."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def acknowledges_flushed_only(self) -> bool:
        """Whether every write is synced before it counts."""
        return self.log.config.flush_messages == 1

    @property
    def reported_end(self) -> int:
        """The log end that this replica may report: with fsync on every write only what is on the disk."""
        return self.log.flushed_offset if self.acknowledges_flushed_only else self.log.end_offset

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition
