"""What the committed records of an offsets partition say of its groups, and what members asked and were told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.broker_node.groups.records import (
    OffsetKey,
    StoredGroup,
    StoredOffset,
    UnknownRecord,
    decode_group,
    decode_key,
    decode_offset,
)
from broker.core.broker_node.groups.state import Group, GroupState, Member
from broker.core.messages import AnyRequest
from simulation.invariants.ghost import Batch, Ghost


class Commit(NamedTuple):
    """A committed offset in the log; None: it was deleted. `at` is the offset of its record."""

    at: int
    key: OffsetKey
    stored: StoredOffset | None


class Generation(NamedTuple):
    """A generation in the log; None: the group was deleted."""

    at: int
    group_id: str
    stored: StoredGroup | None


class Stay(NamedTuple):
    """A coordinator as long as it leads in one epoch: it forgets what it has not written when that ends."""

    broker: int
    incarnation: int
    leader_epoch: int


@dataclass(slots=True)
class GroupGhost:
    """The groups of one offsets partition, by its ghost log."""

    read_to: int = 0
    given_up: int = 0
    """How much of `Ghost.given_up` is taken into account."""

    commits: dict[OffsetKey, list[Commit]] = field(default_factory=dict)
    generations: dict[str, list[Generation]] = field(default_factory=dict)
    shown: dict[OffsetKey, int] = field(default_factory=dict)
    """Where the latest commit is that was acknowledged, or shown to a client."""

    unsafe: dict[OffsetKey | str, int] = field(default_factory=dict)
    """Keys and groups of which an unclean election gave up a record -> the end of what it kept.

    Compaction may have removed the records below, for the sake of the one that was given up.
    """

    def read(self, ghost: Ghost) -> Iterator[Commit | Generation]:
        """Read on in the ghost log; what is yielded does not count yet (`add`)."""
        if len(ghost.given_up) > self.given_up:
            self._give_up(ghost)
        while self.read_to < len(ghost.committed):
            batch = ghost.committed[self.read_to]
            self.read_to += 1
            if batch is not None and not batch.control:
                self.read_to = batch.last + 1
                yield from entries(ghost, batch)

    def _give_up(self, ghost: Ghost) -> None:
        """Forget what an unclean election gave up."""
        for end, batch in ghost.given_up[self.given_up :]:
            for entry in entries(ghost, batch):
                key = entry.key if isinstance(entry, Commit) else entry.group_id
                self.unsafe[key] = max(end, self.unsafe.get(key, 0))
            self.read_to = min(self.read_to, end)
        self.given_up = len(ghost.given_up)
        self.commits = {key: [one for one in found if one.at < self.read_to] for key, found in self.commits.items()}
        self.generations = {
            group_id: [one for one in found if one.at < self.read_to] for group_id, found in self.generations.items()
        }
        self.shown = {key: at for key, at in self.shown.items() if at < self.read_to}

    def add(self, entry: Commit | Generation) -> None:
        """Count a record that was read."""
        if isinstance(entry, Commit):
            self.commits.setdefault(entry.key, []).append(entry)
        else:
            self.generations.setdefault(entry.group_id, []).append(entry)

    def latest(self, group_id: str) -> StoredGroup | None:
        """The last generation of a group that is stored, and must be known to coordinators."""
        generations = self.generations.get(group_id)
        if not generations or generations[-1].at < self.unsafe.get(group_id, 0):
            return None
        return generations[-1].stored

    def is_safe(self, key: OffsetKey, at: int) -> bool:
        """Whether a commit that is stored there is promised to be found."""
        return at >= self.unsafe.get(key, 0)


def entries(ghost: Ghost, batch: Batch) -> Iterator[Commit | Generation]:
    """The commits and generations that are stored in a batch."""
    contents = ghost.contents if ghost.contents is not None else {}
    for at, content in contents.get((batch.epoch, batch.base), {}).items():
        entry = _decoded(at, content.key, content.value)
        if entry is not None:
            yield entry


def _decoded(at: int, key: bytes | None, value: bytes | None) -> Commit | Generation | None:
    """A record of the offsets topic; None if no coordinator of this version can have written it."""
    try:
        whose = decode_key(key)
        if isinstance(whose, OffsetKey):
            return Commit(at, whose, None if value is None else decode_offset(value))
        return Generation(at, whose.group_id, None if value is None else decode_group(value))
    except UnknownRecord:
        return None


class GroupRequest(NamedTuple):
    """A request of a member that is not answered yet."""

    request: AnyRequest
    floors: dict[OffsetKey, int]
    """Key -> where the latest commit is that had been shown to anybody when the request arrived."""

    left: Stay | None
    """The coordinator that had confirmed by then that the member has left."""

    arrived_ms: int
    """By the clock of its broker."""


@dataclass(slots=True)
class SeenGroup:
    """A group in its coordinator as it was after the step before. Times are ms by the clock of its broker."""

    group: Group
    since_ms: int
    """Since when it is in its state."""

    from_empty: bool
    """Whether it was empty before, or unknown."""

    state: GroupState = GroupState.EMPTY
    added_ms: int = 0
    """When its last new member has come."""

    begun_ms: int = 0
    """When its generation began, of which members have to ask for their assignments."""

    members: list[tuple[Member, bool]] = field(default_factory=list)
    """Each with whether it has joined, and waits for the generation."""

    not_synced: tuple[str, ...] = ()
    """Members that have not asked for their assignment in this generation."""


@dataclass(slots=True)
class Asked:
    """What members have asked for, and what they were told, at any broker."""

    groups: dict[int, GroupGhost] = field(default_factory=dict)
    """By partition of the offsets topic."""

    committers: dict[tuple[OffsetKey, int, str], list[tuple[int, str]]] = field(default_factory=dict)
    """Commit (key, offset, metadata) -> generations and members that have sent it."""

    assignments: dict[tuple[str, int], list[dict[str, bytes]]] = field(default_factory=dict)
    """Group and generation -> what its leaders have sent as assignments."""

    joined: dict[tuple[str, int, str], bool] = field(default_factory=dict)
    """Group, generation, member: who was told that it is a member of the generation."""

    instances: dict[str, str] = field(default_factory=dict)
    """Member id -> the instance id of a static member that once had it (KIP-345)."""

    left: dict[tuple[str, str], Stay] = field(default_factory=dict)
    """Group and member -> the coordinator that has confirmed that the member has left."""
