"""Tracks idempotent producers of a log, to recognize repeated batches (PR-5, KIP-98, KAFKA-5494).

It is a function of the log's contents: followers and recovery add every batch without validation, and truncation
restores a snapshot and adds the remaining batches. Only the expiration of idle producers depends on time; it is each
replica's own, and truncation or a restart may undo it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import NamedTuple

from crc32c import crc32c

from broker.core.messages.errors import ErrorCode
from broker.core.ports.files import Files
from broker.core.records import BatchHeader

CACHED_BATCHES = 5
"""As many batches as a producer may have in flight."""
SNAPSHOT_SUFFIX = ".snapshot"
MEMORY_SNAPSHOT_BATCHES = 512
MEMORY_SNAPSHOTS = 4

_OFFSET_DIGITS = 20
"""Of the offset in the name of a snapshot."""

_SEQUENCE_MASK = 0x7FFFFFFF
_FORMAT = 1
_SNAPSHOT_HEADER = struct.Struct(">BIqi")  # format, checksum of what follows, offset, number of producers
_CHECKSUMMED_FROM = 5
_PRODUCER = struct.Struct(">qhqb")
_BATCH = struct.Struct(">iiqq")


class CachedBatch(NamedTuple):
    """A batch that was appended: sequence numbers and offsets of its first and last record."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class ProducerState(NamedTuple):
    """One producer id: its latest epoch, its latest batches in that epoch, oldest first, and the length of the unbroken
    run of sequence numbers that ends with them.
    """

    epoch: int
    batches: tuple[CachedBatch, ...]
    run_records: int


class Verdict(NamedTuple):
    """The decision on a batch: append it (`ACCEPT`), answer with the offsets of its original, or refuse it."""

    error: ErrorCode = ErrorCode.NONE
    duplicate_of: tuple[int, int] | None = None
    """(base offset, last offset) of the batch that this one repeats."""


ACCEPT = Verdict()
_STALE = Verdict(ErrorCode.INVALID_PRODUCER_EPOCH)
_OUT_OF_ORDER = Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
_OLD_DUPLICATE = Verdict(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class ProducerStates:
    """The producers of one log, by producer id."""

    __slots__ = ("_since_snapshot", "_snapshots", "states")

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        self._snapshots: list[tuple[int, dict[int, ProducerState]]] = []
        self._since_snapshot = 0

    def copy(self) -> ProducerStates:
        """A copy of the state."""
        twin = ProducerStates()
        twin.states = self.states.copy()
        twin._snapshots = self._snapshots.copy()
        twin._since_snapshot = self._since_snapshot
        return twin

    def verdict(self, header: BatchHeader) -> Verdict:
        """PR-5: decide whether a leader may append this batch of a producer.

        An old batch is a duplicate only if all of its sequence numbers are known to be in the log: a client takes
        that answer for success. After lost state the run is short and the answer is "out of order".
        """
        known = self.states.get(header.producer_id)
        if known is None:  # as for batches without a producer, of which `update` remembers nothing
            return ACCEPT
        first = header.base_sequence
        if header.producer_epoch != known.epoch:
            if header.producer_epoch < known.epoch:
                return _STALE
            return ACCEPT if first == 0 else _OUT_OF_ORDER
        newest = known.batches[-1]
        if first == (newest.last_sequence + 1) & _SEQUENCE_MASK:
            return ACCEPT
        last = header.last_sequence
        for batch in known.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return Verdict(duplicate_of=(batch.base_offset, batch.last_offset))
        back_to_first = (newest.last_sequence - first) & _SEQUENCE_MASK
        back_to_oldest = (newest.last_sequence - known.batches[0].first_sequence) & _SEQUENCE_MASK
        older = back_to_first - header.last_offset_delta > back_to_oldest
        return _OLD_DUPLICATE if older and back_to_first < known.run_records else _OUT_OF_ORDER

    def update(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        base_offset: int,
        last_offset: int,
        control: bool,
    ) -> None:
        """Record an appended batch, whatever its verdict would be."""
        if producer_id < 0 or base_sequence < 0 or control:
            return
        delta = last_offset - base_offset
        batch = CachedBatch(base_sequence, (base_sequence + delta) & _SEQUENCE_MASK, base_offset, last_offset)
        known = self.states.get(producer_id)
        if known is None or known.epoch != epoch:
            self.states[producer_id] = ProducerState(epoch, (batch,), delta + 1)
        else:
            follows = base_sequence == (known.batches[-1].last_sequence + 1) & _SEQUENCE_MASK
            self.states[producer_id] = ProducerState(
                epoch,
                (*known.batches[1 - CACHED_BATCHES :], batch),
                (known.run_records if follows else 0) + delta + 1,
            )
        self._since_snapshot += 1
        if self._since_snapshot >= MEMORY_SNAPSHOT_BATCHES:
            self._since_snapshot = 0
            self._snapshots.append((last_offset + 1, self.states.copy()))
            del self._snapshots[:-MEMORY_SNAPSHOTS]

    def forget(self, producer_id: int) -> None:
        """Drop a producer's state: its next batch may begin with any sequence number."""
        del self.states[producer_id]

    def clear(self) -> None:
        """Drop all producers."""
        self.states = {}
        self._snapshots = []
        self._since_snapshot = 0

    def roll_back(self, files: Files, directory: str, end_offset: int) -> int | None:
        """Restore the newest snapshot, in memory or on disk, at or below `end_offset`, and return its offset.

        Without one, drop all state and return None. Later snapshots are deleted, unreadable ones skipped.
        """
        self.delete_snapshots_above(files, directory, end_offset)
        in_memory = self._snapshots[-1][0] if self._snapshots else -1
        for offset in reversed(snapshot_offsets(files, directory)):
            if offset > in_memory:
                states = _read_snapshot(files, directory, offset)
                if states is not None:
                    self.clear()
                    self.states = states
                    return offset
        self._since_snapshot = 0
        if in_memory < 0:
            self.clear()
            return None
        self.states = self._snapshots[-1][1].copy()
        return in_memory

    def delete_snapshots_above(self, files: Files, directory: str, end_offset: int) -> None:
        """Delete the snapshots, in memory and on disk, of a longer log than the one that ends at `end_offset`."""
        while self._snapshots and self._snapshots[-1][0] > end_offset:
            self._snapshots.pop()
        for offset in snapshot_offsets(files, directory):
            if offset > end_offset:
                files.delete(snapshot_name(directory, offset))

    def write_snapshot(self, files: Files, directory: str, end_offset: int) -> None:
        """Write a snapshot for a log that ends at `end_offset`, durably."""
        body = [_SNAPSHOT_HEADER.pack(_FORMAT, 0, end_offset, len(self.states))[_CHECKSUMMED_FROM:]]
        for producer_id, state in sorted(self.states.items()):
            body.append(_PRODUCER.pack(producer_id, state.epoch, state.run_records, len(state.batches)))
            body.extend(_BATCH.pack(*batch) for batch in state.batches)
        data = b"".join(body)
        prefix = _SNAPSHOT_HEADER.pack(_FORMAT, crc32c(data), 0, 0)[:_CHECKSUMMED_FROM]
        files.replace(snapshot_name(directory, end_offset), prefix + data)


def snapshot_name(directory: str, offset: int) -> str:
    """Path of the snapshot of a log that ends at `offset`."""
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def snapshot_offsets(files: Files, directory: str) -> list[int]:
    """Offsets of the snapshots on disk, ascending."""
    return snapshots_among(files.list(directory))


def snapshots_among(names: Sequence[str]) -> list[int]:
    """Offsets of the snapshots among the sorted names in a log's directory, ascending."""
    found = [name[:_OFFSET_DIGITS] for name in names if name[_OFFSET_DIGITS:] == SNAPSHOT_SUFFIX]
    return [int(digits) for digits in found if digits.isdecimal()]


def delete_snapshots_below(files: Files, directory: str, offset: int) -> None:
    """Delete the snapshots of what a log does not hold any more: a process that died over a deletion may leave them."""
    for found in snapshot_offsets(files, directory):
        if found < offset:
            files.delete(snapshot_name(directory, found))


def prune_snapshots(files: Files, directory: str, kept: Collection[int]) -> None:
    """Delete all snapshots but those at the `kept` offsets."""
    for offset in snapshot_offsets(files, directory):
        if offset not in kept:
            files.delete(snapshot_name(directory, offset))


def _read_snapshot(files: Files, directory: str, offset: int) -> dict[int, ProducerState] | None:
    name = snapshot_name(directory, offset)
    data = files.read(name, 0, files.size(name))
    if len(data) < _SNAPSHOT_HEADER.size:
        return None
    version, checksum, found_offset, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != _FORMAT or found_offset != offset or crc32c(data[_CHECKSUMMED_FROM:]) != checksum:
        return None
    states = {}
    at = _SNAPSHOT_HEADER.size
    for _ in range(count):
        producer_id, epoch, run_records, batches = _PRODUCER.unpack_from(data, at)
        at += _PRODUCER.size
        end = at + batches * _BATCH.size
        cached = tuple(CachedBatch._make(fields) for fields in _BATCH.iter_unpack(data[at:end]))
        states[producer_id] = ProducerState(epoch, cached, run_records)
        at = end
    return states
