"""The observer's ghosts and mirrors: which records are committed, and what every log holds (§20.1).

A *ghost* is the true state of one partition, which no node knows; a *mirror* is what the observer has read of one
replica. Logs are compared by their batches: base offset, leader epoch and checksum identify a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from broker.core.log.log import Log
from broker.core.metadata.records import PartitionState
from broker.core.records import (
    CONTROL_FLAG,
    HEADER,
    PREFIX_BYTES,
    decode_unfolded,
    iterate_headers,
    read_header,
    read_varint,
    unfolded,
)
from broker.core.replica.state import PendingIsr, Replica, Role
from simulation.invariants.expiry import SeenProducers

_EVERYTHING = 1 << 62


class Batch(NamedTuple):
    """A batch of a log. `last` is its last offset (inclusive)."""

    base: int
    last: int
    epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    control: bool

    def __str__(self) -> str:
        return f"{self.base}…{self.last} of epoch {self.epoch} (crc {self.crc:08x})"


class Content(NamedTuple):
    """What a record holds. `stored`: its bytes from the key on, which no compaction changes."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    stored: bytes


Entries = list[Batch | None]
"""A log by offset: the batch that the offset belongs to; None where it was deleted before the observer saw it."""


@lru_cache(maxsize=1_024)  # the replicas of a partition hold the same bytes
def batches_in(data: bytes) -> tuple[Batch, ...]:
    """The whole batches in some bytes of a log or an answer."""
    found = []
    at, size = 0, len(data)
    while at + HEADER.size <= size:
        base, length, epoch, _, crc, attributes, delta, _, _, producer_id, producer_epoch, sequence, _ = (
            HEADER.unpack_from(data, at)
        )
        if length < HEADER.size - PREFIX_BYTES:
            break  # no batch: `log_changed` reports such a log
        at += length + PREFIX_BYTES
        if at <= size:
            control = bool(attributes & CONTROL_FLAG)
            found.append(Batch(base, base + delta, epoch, crc, producer_id, producer_epoch, sequence, control))
    return tuple(found)


@lru_cache(maxsize=1_024)  # a compacted log is read anew after each compaction
def contents_in(data: bytes) -> Mapping[int, Content]:
    """What the records of a batch hold, by offset."""
    header, body = read_header(data), unfolded(data)
    found, position = {}, 0
    for record in decode_unfolded(body, header):
        length, begins = read_varint(body, position)
        position = begins + length
        _, at_offset = read_varint(body, begins + 1)
        _, at_key = read_varint(body, at_offset)
        found[record.offset] = Content(record.key, record.value, record.timestamp, body[at_key:position])
    return found


def bytes_of(log: Log, offset: int) -> bytes:
    """The bytes of a log from the batch that contains `offset` to its end."""
    return b"".join(data for data, _ in pieces(log, offset))


def batches_of(log: Log, offset: int, unfold: Callable[[bytes], Sequence[Batch]] = batches_in) -> list[Batch]:
    """The batches of a log from the one that contains `offset` to its end; see `Ghost.unfold`."""
    return [batch for data, _ in pieces(log, offset) for batch in unfold(data)]


def pieces(log: Log, offset: int) -> Iterator[tuple[bytes, Sequence[Batch]]]:
    """The chunks of a log up to its end, or to where no whole batch follows.

    Also ends where offsets go back, which happens only in the log of a flawed broker.
    """
    end = log.end_offset
    while offset < end:
        data = log.read(offset, _EVERYTHING, end)
        batches = batches_in(data)
        if not batches or batches[-1].last < offset:
            return
        yield data, batches
        offset = batches[-1].last + 1


@dataclass(slots=True)
class Lineage:
    """Every batch that any replica of a partition ever had: (epoch, base offset) -> batch and the one before it."""

    written: dict[tuple[int, int], tuple[Batch, Batch | None]] = field(default_factory=dict)

    def known(self, batch: Batch, before: Batch | None) -> tuple[Batch, Batch | None]:
        """The first batch that was seen with this epoch and base offset, maybe this one, and its predecessor."""
        key = (batch.epoch, batch.base)
        found = self.written.get(key)
        if found is None or (found[1] is None and before is not None and found[0] == batch):
            found = self.written[key] = (batch if found is None else found[0], before)
        return found


@dataclass(slots=True)
class Mirror:
    """A replica's log as the observer has read it, and the replica's state at its last step."""

    holder: int
    entries: Entries = field(default_factory=list)
    same: int = 0
    """How many offsets from the beginning are known to hold what is committed."""

    log: Log | None = None
    seen: tuple[object, ...] = ()
    truncations: int = 0
    start: int = 0
    durable: int = 0
    """All offsets below were flushed at some time, and not cut off since."""

    power_lost: bool = False
    """The machine lost power since the log was last read."""

    suspected: bool = False
    """Since then its holder is in `Ghost.lossy`, though it may have lost nothing."""

    dropped: list[Batch] = field(default_factory=list)
    """What the log once held and lost."""

    compacted: int = 0
    """How far its holder had compacted it."""

    def compare(self, committed: Entries) -> int:
        """Advance `same` over the offsets where the log equals what is committed, and return it.

        What it has deleted is equal to anything, also where an unclean election has given up what it was equal to.
        """
        start = self.start
        same = self.same
        entries = self.entries
        end = min(len(entries), len(committed))
        if same < end:
            if entries[same:end] == committed[same:end]:
                same = end
            else:
                while same < end and (same < start or entries[same] is None or entries[same] == committed[same]):
                    same += 1
            self.same = same
        return same

    def reached(self, batch: Batch) -> bool:
        """Whether the log holds a batch, ever did, or begins beyond it: what its holder has reported."""
        last = batch.last
        return last < self.start or (last < len(self.entries) and self.entries[last] == batch) or batch in self.dropped


class Pause(NamedTuple):
    """Until when, by its broker's clock, a follower asks for nothing in a leader epoch; -1: nothing is known."""

    leader_epoch: int
    until_ms: int


@dataclass(slots=True)
class ReplicaMirror(Mirror):
    """A mirror of a replica of a partition."""

    incarnation: int = 0
    replica: Replica | None = None
    role: Role = Role.NONE
    leader_epoch: int = -1
    partition_epoch: int = -1
    flushed: int = 0
    """Its recovery point."""

    high_watermark: int = 0
    lowest_high_watermark: int = 0
    """Since its checkpoint was last due."""

    high_watermark_epoch: int = -1
    """The leader epoch in which the high watermark was last learned."""

    learned: dict[int, int] = field(default_factory=dict)
    """Leader epoch -> the highest high watermark that was learned in it."""

    asked_start: int = 0
    """Up to where somebody has asked its holder to delete records."""

    segments: tuple[tuple[int, int], ...] = ()
    """Of a topic with retention: first offset and bytes of each segment of the log."""

    producers: SeenProducers = field(default_factory=SeenProducers)
    """Where producers expire: those that its holder knows, or has forgotten."""

    offline: bool = False
    """Its log directory has failed, as its broker knows: it is in no broker's memory, and may come back."""

    pauses: Pause | None = None
    """As a follower, since the last error of its leader."""

    paused_ms: int = 0
    """As a follower: until when it pauses by its own account, when its broker was answered last."""

    isr_state: tuple[tuple[int, ...], PendingIsr | None, int] = ((), None, 1)
    found: Replica | None = None
    """The replica whose files were looked at last."""

    shape: tuple[object, ...] = ()
    """Its segments, cuts, log start and epochs at that time."""

    indexed: dict[int, tuple[Log, int]] = field(default_factory=dict)
    """By first offset: segments whose indexes were looked at, in which log and with how many bytes."""

    was_compacted: bool = False
    """A compaction of its log has begun: a segment may be without indexes since."""

    def learns(self, epoch: int) -> None:
        """The high watermark was learned in this leader epoch."""
        self.high_watermark_epoch = epoch
        self.learned[epoch] = max(self.high_watermark, self.learned.get(epoch, 0))

    def starts_with(self, high_watermark: int) -> None:
        """A new process begins with a checkpoint: it is as old as the last epoch in which so much was learned."""
        self.high_watermark = high_watermark
        epochs = [epoch for epoch, learned in self.learned.items() if learned >= high_watermark]
        self.high_watermark_epoch = max(epochs, default=self.high_watermark_epoch)


@dataclass(slots=True)
class Ghost:
    """The true state of one partition."""

    topic: str
    number: int
    committed: Entries = field(default_factory=list)
    """The ghost log: the records below the highest high watermark that a leader ever had."""

    state: PartitionState | None = None
    """The state that the controllers have committed."""

    mirrors: dict[int, ReplicaMirror] = field(default_factory=dict)
    lineage: Lineage = field(default_factory=Lineage)
    authors: dict[int, int] = field(default_factory=dict)
    """Leader epoch -> the broker that appended in it."""

    log_start: int = 0
    """The highest log start offset of any leader, as far as no unclean election gave it up."""

    starts: dict[int, int] = field(default_factory=dict)
    """Leader epoch -> the highest log start offset of its leader."""

    acknowledged: dict[int, Batch] = field(default_factory=dict)
    """Base offset -> batch, of all that was acknowledged by acks=all."""

    acknowledged_end: int = 0
    shown_end: int = 0
    """The highest end of the log in any answer to a client."""

    first_seen: dict[bytes, int] = field(default_factory=dict)
    """A produced batch -> `acknowledged_end` when a broker first got it."""

    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    """Producer (id, epoch) -> last committed sequence number."""

    last_of: dict[int, int] = field(default_factory=dict)
    """Producer id -> the last offset of its last committed batch."""

    taken_anew: dict[tuple[int, int], int] = field(default_factory=dict)
    """(Leader epoch, base offset) of a batch whose leader had forgotten the producer -> its last offset until then."""

    acks_all_only: bool = True
    lossy: dict[int, int] = field(default_factory=dict)
    """Broker that lost data and was not in the ISR since -> its broker epoch when it lost them."""

    superseded: dict[int, int] = field(default_factory=dict)
    """Leader epoch -> how much was committed when the controllers chose a later one."""

    since_epoch: int = 0
    """The leader epoch of the last unclean election: leaders of earlier epochs are not checked any more."""

    trusted: bool = True
    """False once more replicas lost data than the contract allows (ST-8): then nothing is promised."""

    sole_member_lost: bool = False
    quorum_excused: bool = True
    """P-18 does not apply until min ISR replicas are in ISR, ELR and last known ELR together (again).

    Set by what may leave fewer: another min ISR, replicas given up, an unclean election; at first there are none.
    """

    unclean_wanted: bool = False
    """An operator has asked for an unclean election."""

    unadmitted: set[int] = field(default_factory=set)
    """Brokers that started uncleanly and have not been admitted since (P-7)."""

    vanished: dict[int, ReplicaMirror] = field(default_factory=dict)
    """Broker -> the mirror of its log, which was missing when it started again."""

    elected_end: int = 0
    """The log end of the leader of the last unclean election when it was elected."""

    elected: int = -1
    """The broker that the last unclean election chose, where losses are accepted and no logs compared, until it leads;
    -1 if there is none.
    """

    asked_before: dict[int, int] = field(default_factory=dict)
    """Broker -> up to where it had been asked to delete records when that leader was elected."""

    deleted: dict[int, tuple[ReplicaMirror, int]] = field(default_factory=dict)
    """Broker -> the mirror of a log that it deleted, and up to where it knew the metadata, which did not assign it."""

    lost: list[Batch] = field(default_factory=list)
    """Acknowledged batches that an unclean election gave up."""

    given_up: list[tuple[int, Batch]] = field(default_factory=list)
    """Every batch that an unclean election gave up, with the end of what it kept: committed, or taken for it since.

    In a compacted topic a replica may have removed records for the sake of these, which it can cut off no less.
    """

    times: dict[tuple[int, int], int] | None = None
    """Of a topic with retention: (leader epoch, base offset) -> the latest time in the batch, in ms."""

    contents: dict[tuple[int, int], Mapping[int, Content]] | None = None
    """Of a compacted topic: (leader epoch, base offset) -> what the batch held, by offset."""

    latest_of_keys: tuple[tuple[int, int, int], Mapping[bytes | None, int]] | None = None
    """What `_latest_of_keys` found last, and for how many entries; None once committed entries were given up."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"

    def owed_to(self, member: int, epoch: int) -> int:
        """How much of what is committed a replica that still follows the leader of `epoch` must not cut off.

        All of it, but for one outside of ISR and ELR whose leader was deposed: what was committed after that may have
        come to it before it followed that leader, who need not have it.
        """
        state = self.state
        if state is None or member in state.isr or member in state.elr:
            return len(self.committed)
        return self.superseded.get(epoch, len(self.committed))

    def unfold(self, data: bytes) -> Sequence[Batch]:
        """The batches in some bytes; those that compaction has emptied, or a part of, as they were committed.

        A batch that lacks more than compaction may remove stays as it is, and so differs from what is committed.
        """
        if self.times is not None:
            for _, header in iterate_headers(data):
                self.times[header.leader_epoch, header.base_offset] = header.max_timestamp
        if self.contents is None:
            return batches_in(data)
        found: list[Batch] = []
        for at, header in iterate_headers(data):
            stored = data[at : at + header.size]
            batch, held = batches_in(stored)[0], contents_in(stored)
            if header.records_count == header.last_offset_delta + 1 and header.delete_horizon_ms is None:
                self.contents.setdefault((batch.epoch, batch.base), held)
                found.append(batch)
            else:
                found += self._committed_as(batch, held) or [batch]
        return found

    def _committed_as(self, compacted: Batch, held: Mapping[int, Content]) -> list[Batch]:
        """The committed batches in whose place a compacted one may be; none if it must not.

        They may have been given up since: a replica that has not cut them off yet may compact them.
        """
        there = list(dict.fromkeys(self.committed[compacted.base : compacted.last + 1]))
        originals = self._whole(compacted, there) or self._whole(compacted, self._given_up_as(compacted, there))
        if not originals:
            return []
        assert self.contents is not None
        once: dict[int, Content] = {}
        for batch in originals:
            once |= self.contents[batch.epoch, batch.base]
        for offset, content in held.items():
            if once.get(offset) != content:
                return []
        last = self._latest_of_keys(self.contents)
        for offset, content in once.items():
            if offset not in held and last[content.key] <= offset:
                return []
        return originals

    def _given_up_as(self, compacted: Batch, there: Sequence[Batch | None]) -> list[Batch]:
        """The batches in whose place a compacted one may be that were given up, behind those that are still there."""
        once_there = sorted(
            {
                batch.base: batch
                for _, batch in self.given_up
                if batch.epoch == compacted.epoch and compacted.base <= batch.base <= compacted.last
            }.values(),
            key=lambda batch: batch.base,
        )
        kept = [batch for batch in there if batch and once_there and batch.last < once_there[0].base]
        return [*kept, *once_there]

    def _latest_of_keys(self, contents: Mapping[tuple[int, int], Mapping[int, Content]]) -> Mapping[bytes | None, int]:
        """The last offset of each key among what is committed or was given up."""
        of = (len(self.committed), len(self.given_up), len(contents))
        if self.latest_of_keys is None or self.latest_of_keys[0] != of:
            last: dict[bytes | None, int] = {}
            for batch in (*dict.fromkeys(batch for _, batch in self.given_up), *dict.fromkeys(self.committed)):
                known = contents.get((batch.epoch, batch.base), {}) if batch is not None else {}
                for offset, content in known.items():
                    if offset > last.get(content.key, -1):
                        last[content.key] = offset
            self.latest_of_keys = (of, last)
        return self.latest_of_keys[1]

    def times_between(self, mirror: Mirror, base: int, end: int) -> list[int]:
        """The latest time of each batch in a range of a replica's offsets, -1 where it is not known.

        A segment keeps what lies below the log start. What a replica had there before it was last opened is what was
        committed, if anybody knows it.
        """
        assert self.times is not None
        committed = self.committed[base:end]
        committed += [None] * (end - base - len(committed))
        there = dict.fromkeys(own or other for own, other in zip(mirror.entries[base:end], committed, strict=False))
        return [-1 if batch is None else self.times.get((batch.epoch, batch.base), -1) for batch in there]

    @staticmethod
    def _whole(compacted: Batch, batches: Sequence[Batch | None]) -> list[Batch]:
        """These batches, if they are of the compacted one's epoch and cover its offsets; else none."""
        found = [batch for batch in batches if batch is not None and batch.epoch == compacted.epoch]
        covers = bool(found) and (found[0].base, found[-1].last) == (compacted.base, compacted.last)
        return found if covers and len(found) == len(batches) else []

    def is_stale(self, mirror: ReplicaMirror) -> bool:
        """Whether a leader has been superseded, according to the committed metadata."""
        return self.state is None or mirror.leader_epoch < self.state.leader_epoch

    def protects(self, mirror: ReplicaMirror) -> bool:
        """Whether records are promised to be safe, and the promise binds this replica's epoch."""
        return self.trusted and mirror.leader_epoch >= self.since_epoch


def describe(entries: Entries, offset: int) -> str:
    """The batch at an offset of a log, for a message."""
    if not 0 <= offset < len(entries):
        return "nothing"
    return str(entries[offset] or "something that was deleted")


def and_more(what: str, first: int, end: int) -> str:
    """What happened to the committed offsets from the first one on, for a message; nothing where it is the only one."""
    return f"; {what} the committed offsets {first} to {end - 1}" if end - first > 1 else ""
