"""What a coordinator knows: the groups of every partition of the offsets topic that its broker leads."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from broker.core.broker_node.groups.records import CommittedOffset, StoredGroup, StoredMember

TIMER = "group"
"""First part of the keys of all timers of the coordinator."""


class GroupState(Enum):
    """Where a group is in its life; the names are Kafka's.

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
    """Has never completed a join, so that nobody expects heartbeats of it."""

    waiting_join: int | None = None
    """Request id of a JoinGroup that is answered when the join completes."""

    waiting_sync: int | None = None
    """Request id of a SyncGroup that is answered when the assignment is replicated."""

    def metadata_for(self, protocol: str | None) -> bytes:
        """What the member said about itself for a protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class Group:
    """A consumer group. Without members it is a name under which offsets are kept."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)  # in the order in which they came
    pending_members: dict[str, None] = field(default_factory=dict)
    """Member ids that were given out and have not joined yet (KIP-394)."""

    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id (KIP-345)
    pending_sync: dict[str, None] = field(default_factory=dict)  # members of this generation that have not synced
    in_initial_delay: bool = False
    initial_delay_left_ms: int = 0
    member_added: bool = False
    offsets: dict[tuple[str, int], CommittedOffset] = field(default_factory=dict)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        """Whether there is nobody left to wait for."""
        return not self.pending_members and all(m.waiting_join is not None for m in self.members.values())

    @property
    def is_void(self) -> bool:
        """Whether there is nothing about the group that is worth remembering."""
        return not (self.members or self.pending_members or self.offsets or self.generation)

    def supports(self, protocol_type: str, names: set[str]) -> bool:
        """Whether a member with these protocols fits: of the group's kind, and with a protocol that all have."""
        if not self.members:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and bool(names & self.common_protocols())

    def common_protocols(self) -> set[str]:
        """Names of the protocols that all members support."""
        return set.intersection(*({name for name, _ in member.protocols} for member in self.members.values()))

    def choose_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; ties go to the elder member's."""
        common = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if name in common)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def stored(self, assignments: dict[str, bytes]) -> StoredGroup:
        """The record of this generation, with these assignments."""
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
        )


# --- what is written and not yet replicated --------------------------------------------------------------------------


class OffsetsWrite(NamedTuple):
    """Offsets for a commit or, with None, for a deletion. `refused` goes into the answer as it is."""

    request_id: int
    group_id: str
    offsets: tuple[tuple[tuple[str, int], CommittedOffset | None], ...]
    refused: tuple[tuple[tuple[str, int], int], ...] = ()


class AssignmentWrite(NamedTuple):
    """The generation that its leader has assigned."""

    group_id: str
    generation: int
    assignments: tuple[tuple[str, bytes], ...]


class EmptyWrite(NamedTuple):
    """A generation without members; nobody waits for it."""

    group_id: str
    generation: int


class ReplacementWrite(NamedTuple):
    """A static member that came back under a new member id, into a stable group (KIP-345)."""

    group_id: str
    generation: int
    old_member_id: str
    new_member_id: str
    request_id: int


class DeletionWrite(NamedTuple):
    """The end of a group."""

    request_id: int
    group_id: str


Purpose = OffsetsWrite | AssignmentWrite | EmptyWrite | ReplacementWrite | DeletionWrite


@dataclass(slots=True)
class Write:
    """Records in the log that wait for replication. What is given up is still applied once it is replicated."""

    purpose: Purpose
    given_up: bool = False


@dataclass(slots=True)
class Shard:
    """One partition of the offsets topic, as long as this broker leads it in one leader epoch.

    `load_from` is the next offset to read, None once everything up to the start of the epoch has been. `writes` are
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
class Coordinator:
    """The coordinator of a broker."""

    shards: dict[int, Shard] = field(default_factory=dict)
    deletions: dict[int, WaitingDeletion] = field(default_factory=dict)  # by request id
    members_named: int = 0
