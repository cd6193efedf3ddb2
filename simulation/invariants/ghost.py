"""What the observer knows and nobody else does: which records are committed, and what every log holds (§20.1).

A *ghost* is the truth about one partition, a *mirror* what the observer has seen of one replica. Logs are compared by
their batches: base offset, leader epoch and checksum tell a batch from any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.log.log import Log
from broker.core.metadata.records import PartitionState
from broker.core.records import CONTROL_FLAG, HEADER, PREFIX_BYTES
from broker.core.replica.state import PendingIsr, Replica, Role

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


Entries = list[Batch | None]
"""A log by offset: the batch that the offset belongs to; None where it was deleted before the observer saw it."""


def batches_in(data: bytes) -> list[Batch]:
    """The whole batches in some bytes of a log or an answer."""
    found = []
    at, size = 0, len(data)
    while at + HEADER.size <= size:
        base, length, epoch, _, crc, attributes, delta, _, _, producer_id, producer_epoch, sequence, _ = (
            HEADER.unpack_from(data, at)
        )
        if length < HEADER.size - PREFIX_BYTES:
            break  # no batch at all: whoever reads on in such a log finds that out
        at += length + PREFIX_BYTES
        if at <= size:
            control = bool(attributes & CONTROL_FLAG)
            found.append(Batch(base, base + delta, epoch, crc, producer_id, producer_epoch, sequence, control))
    return found


def bytes_of(log: Log, offset: int) -> bytes:
    """The bytes of a log from the batch that contains `offset` to its end."""
    return b"".join(data for data, _ in _pieces(log, offset))


def batches_of(log: Log, offset: int) -> list[Batch]:
    """The batches of a log from the one that contains `offset` to its end."""
    return [batch for _, batches in _pieces(log, offset) for batch in batches]


def _pieces(log: Log, offset: int) -> Iterator[tuple[bytes, list[Batch]]]:
    """What is read of a log at a time, up to its end, or to where nothing whole comes any more.

    Nor where it goes back, as none may, but one with a flaw does.
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
        """What stands for this batch, if it is the first of its epoch and offset, this one itself."""
        key = (batch.epoch, batch.base)
        found = self.written.get(key)
        if found is None or (found[1] is None and before is not None and found[0] == batch):
            found = self.written[key] = (batch if found is None else found[0], before)
        return found


@dataclass(slots=True)
class Mirror:
    """A replica's log as the observer has read it, and what it last saw of the replica."""

    holder: int
    entries: Entries = field(default_factory=list)
    same: int = 0
    """How many offsets from the beginning are known to hold what is committed."""

    log: Log | None = None
    seen: tuple[object, ...] = ()
    truncations: int = 0
    start: int = 0
    durable: int = 0
    """All below was once reported to be on the disk, and not cut off since."""

    power_lost: bool = False
    """The machine lost power since the log was last read."""

    suspected: bool = False
    """Since then its holder counts as one that lost data (`Ghost.lossy`); it may have lost none."""

    dropped: list[Batch] = field(default_factory=list)
    """What the log once held and lost."""

    def compare(self, committed: Entries) -> int:
        """Move `same` forward as far as the log equals what is committed, and return it."""
        same = self.same
        entries = self.entries
        end = min(len(entries), len(committed))
        if same < end:
            if entries[same:end] == committed[same:end]:
                same = end
            else:
                while same < end and (entries[same] is None or entries[same] == committed[same]):
                    same += 1
            self.same = same
        return same

    def reached(self, batch: Batch) -> bool:
        """Whether the log holds a batch, ever did, or begins beyond it: what its holder has reported."""
        last = batch.last
        return last < self.start or (last < len(self.entries) and self.entries[last] == batch) or batch in self.dropped


@dataclass(slots=True)
class ReplicaMirror(Mirror):
    """A mirror of a replica of a partition."""

    incarnation: int = 0
    replica: Replica | None = None
    role: Role = Role.NONE
    leader_epoch: int = -1
    partition_epoch: int = -1
    high_watermark: int = 0
    high_watermark_epoch: int = -1
    """The leader epoch in which the high watermark was last learned."""

    isr_state: tuple[tuple[int, ...], PendingIsr | None, int] = ((), None, 1)


@dataclass(slots=True)
class Ghost:
    """The truth about one partition."""

    topic: str
    number: int
    committed: Entries = field(default_factory=list)
    """The ghost log: the records below the highest high watermark that a leader ever had."""

    state: PartitionState | None = None
    """What the controllers have committed."""

    mirrors: dict[int, ReplicaMirror] = field(default_factory=dict)
    lineage: Lineage = field(default_factory=Lineage)
    authors: dict[int, int] = field(default_factory=dict)
    """Leader epoch -> the broker that appended in it."""

    log_start: int = 0
    """The highest log start offset of any leader."""

    acknowledged: dict[int, Batch] = field(default_factory=dict)
    """Base offset -> batch, of all that was acknowledged by acks=all."""

    acknowledged_end: int = 0
    shown_end: int = 0
    """The highest end of the log that any client was told."""

    first_seen: dict[bytes, int] = field(default_factory=dict)
    """A produced batch -> `acknowledged_end` when a broker first got it."""

    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    """Producer (id, epoch) -> last committed sequence number."""

    acks_all_only: bool = True
    lossy: dict[int, int] = field(default_factory=dict)
    """Broker that lost data and was not in the ISR since -> its broker epoch of then."""

    since_epoch: int = 0
    """The leader epoch of the last unclean election: leaders before it say nothing any more."""

    trusted: bool = True
    """False when more replicas lost data than the contract allows (ST-8): then nothing is promised."""

    sole_member_lost: bool = False
    quorum_excused: bool = True
    """P-18 does not apply until the ISR is sufficient (again)."""

    unclean_wanted: bool = False
    """An operator has asked for an unclean election."""

    unadmitted: set[int] = field(default_factory=set)
    """Brokers that started uncleanly and have not been admitted since (P-7)."""

    vanished: dict[int, ReplicaMirror] = field(default_factory=dict)
    """Broker -> what its log held that was gone when it started again."""

    lost: list[Batch] = field(default_factory=list)
    """Acknowledged batches that an unclean election gave up."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"

    def is_stale(self, mirror: ReplicaMirror) -> bool:
        """Whether a leader has been superseded, by what is committed."""
        return self.state is None or mirror.leader_epoch < self.state.leader_epoch

    def judges(self, mirror: ReplicaMirror) -> bool:
        """Whether records are promised to be safe, and this replica's epoch is bound by it."""
        return self.trusted and mirror.leader_epoch >= self.since_epoch


def told(entries: Entries, offset: int) -> str:
    """What a log holds at an offset, for a message."""
    if not 0 <= offset < len(entries):
        return "nothing"
    return str(entries[offset] or "something that was deleted")
