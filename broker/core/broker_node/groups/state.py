"""State of a group coordinator: the groups of every offsets partition that the broker leads."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from broker.core.broker_node.groups.records import NO_TIMESTAMP, StoredGroup, StoredMember, StoredOffset

TIMER = "group"
"""First element of the keys of all coordinator timers."""


class GroupState(Enum):
    """State of a group; the names are Kafka's.

    ```
    Empty ──join──► PreparingRebalance ──all joined──► CompletingRebalance ──leader assigns──► Stable
      ▲                │      ▲                              │ join, leave, time-out             │
      └──nobody left───┘      └──────────────────────────────┴──────────────────────────────────┘
    ```
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Member:
    """A member. Timeouts in milliseconds; `protocols` are (name, metadata), the preferred ones first."""

    member_id: str
    instance_id: str | None
    client_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    client_host: str = ""
    is_new: bool = False
    """Has never completed a join, so no heartbeats are expected of it."""

    waiting_join: int | None = None
    """Request id of the JoinGroup that is answered when the join completes."""

    waiting_sync: int | None = None
    """Request id of the SyncGroup that is answered when the assignment is replicated."""

    def metadata_for(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class Group:
    """A consumer group. Without members it only holds committed offsets."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)  # in order of joining
    pending_members: dict[str, None] = field(default_factory=dict)
    """Assigned member ids that have not joined yet (KIP-394)."""

    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id (KIP-345)
    pending_sync: dict[str, None] = field(default_factory=dict)  # members of this generation that have not synced
    in_initial_delay: bool = False
    initial_delay_left_ms: int = 0
    member_added: bool = False
    empty_since_ms: int = NO_TIMESTAMP
    """The time of day when the last member left; none for a group that never had a member."""

    offsets: dict[tuple[str, int], StoredOffset] = field(default_factory=dict)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Time for all members to rejoin: the longest of their rebalance timeouts."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        """Whether all members have joined."""
        return not self.pending_members and all(m.waiting_join is not None for m in self.members.values())

    @property
    def is_void(self) -> bool:
        """Whether the group holds nothing worth keeping."""
        return not (self.members or self.pending_members or self.offsets or self.generation)

    def supports(self, protocol_type: str, names: set[str]) -> bool:
        """Whether a member's protocols are compatible: same protocol type, and one protocol that all support."""
        if not self.members:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and bool(names & self.common_protocols())

    def common_protocols(self) -> set[str]:
        """Names of the protocols that all members support."""
        return set.intersection(*({name for name, _ in member.protocols} for member in self.members.values()))

    def choose_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; ties go to the earliest member's."""
        common = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if name in common)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def stored(self, assignments: dict[str, bytes], now_ms: int) -> StoredGroup:
        """The record of this generation, with these assignments; `now_ms` is the time of day."""
        return StoredGroup(
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            tuple(
                StoredMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    member.metadata_for(self.protocol),
                    assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
            now_ms,
        )


# --- writes not yet replicated ---------------------------------------------------------------------------------------


class OffsetsWrite(NamedTuple):
    """Offsets to commit or, with None, to delete. `refused` is copied into the response."""

    request_id: int
    group_id: str
    offsets: tuple[tuple[tuple[str, int], StoredOffset | None], ...]
    refused: tuple[tuple[tuple[str, int], int], ...] = ()


class AssignmentWrite(NamedTuple):
    """The generation with its leader's assignment."""

    group_id: str
    generation: int
    assignments: tuple[tuple[str, bytes], ...]


class EmptyWrite(NamedTuple):
    """A generation without members; no client waits for it."""

    group_id: str
    generation: int


class ReplacementWrite(NamedTuple):
    """A static member that rejoined a stable group under a new member id (KIP-345)."""

    group_id: str
    generation: int
    old_member_id: str
    new_member_id: str
    request_id: int


class DeletionWrite(NamedTuple):
    """The deletion of a group."""

    request_id: int
    group_id: str


class ExpiryWrite(NamedTuple):
    """The deletion of offsets that nobody needs any more; no client waits for it. `ends`: the group goes with them."""

    group_id: str
    keys: tuple[tuple[str, int], ...]
    ends: bool


Purpose = ExpiryWrite | OffsetsWrite | AssignmentWrite | EmptyWrite | ReplacementWrite | DeletionWrite


@dataclass(slots=True)
class Write:
    """Records in the log that wait for replication. An abandoned write is still applied once it is replicated."""

    purpose: Purpose
    given_up: bool = False


@dataclass(slots=True)
class Shard:
    """One partition of the offsets topic, as long as this broker leads it in one leader epoch.

    `load_from` is the next offset to read, None once loading has reached the start of the epoch. `writes` are
    in the order of the log, by the offset that the high watermark must reach.
    """

    partition: int
    leader_epoch: int
    load_from: int | None
    groups: dict[str, Group] = field(default_factory=dict)
    writes: dict[int, Write] = field(default_factory=dict)


@dataclass(slots=True)
class WaitingDeletion:
    """A DeleteGroups request; `missing` groups wait for replication."""

    results: dict[str, int]
    missing: int


@dataclass(slots=True)
class GroupCoordinator:
    """All shards that a broker coordinates."""

    shards: dict[int, Shard] = field(default_factory=dict)
    deletions: dict[int, WaitingDeletion] = field(default_factory=dict)  # by request id
    members_named: int = 0
