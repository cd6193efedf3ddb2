"""Compacts one log in small steps, between which its node serves requests.

First the records of its uncompacted part are read, and the last offset of each key is remembered (as many keys as
fit). Then the segments are copied from the first on, some small ones into one, without the records that are obsolete.

Offsets stay gapless: where all records of neighbouring batches went, one batch without records stands for them (a
filler). So a log of which a piece was lost still differs from one that was compacted, and leader epochs begin where
they began. Of the batches by which the leader recognizes what a producer repeats, the headers stay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from broker.core.log.compaction.filtering import Limits, emptied, latest_in, without_obsolete
from broker.core.log.compaction.swapping import cleaned_name
from broker.core.log.log import Log
from broker.core.log.producer_state import CACHED_BATCHES
from broker.core.log.segments.segment import Segment
from broker.core.ports.files import Files
from broker.core.records import BatchHeader, MalformedBatch, check_crc, filler, iterate_headers, read_header

STEP_BYTES = 64 << 10
"""Bytes read in one step; a single larger batch is read at once."""

_RELATIVE_OFFSET_MAX = 0x7FFFFFFF


class Progress(Enum):
    """What comes after a step."""

    MORE = "more"
    SYNC = "sync"
    """`unsynced` has to be on the disk before `synced` is called."""
    DONE = "done"
    ABANDONED = "abandoned"
    """The log was cut or lost segments meanwhile; nothing of it was changed since the last swap."""
    DAMAGED = "damaged"
    """A file holds something else than batches; nothing of the log was changed since the last swap."""


class Cleaning:
    """One compaction of a log. Raises `StorageError` when the disk fails."""

    def __init__(self, files: Files, log: Log, segments: Sequence[Segment], now_ms: int, keys_max: int) -> None:
        """Compact these closed segments, the log's first; `now_ms` is the time of day."""
        assert log.config.compaction is not None
        self.log = log
        self.ends = segments[-1].end_offset  # the log is compacted up to there, if all keys fit
        self.bytes_before = sum(segment.size for segment in segments)
        self.bytes_after = 0
        self._files = files
        self._segments = list(segments)
        self._keys_max = keys_max
        self._truncations = log.truncations
        self._latest: dict[bytes, int] = {}
        self._mapped_to = max(log.compacted_offset, segments[0].base_offset)
        self._recent: dict[int, deque[int]] = {}
        self._limits = Limits(self._latest, 0, now_ms, log.config.compaction.delete_retention_ms)
        self._groups: list[list[Segment]] | None = None
        self._copy: _Copy | None = None

    @property
    def unsynced(self) -> str:
        """The file that has to be synced."""
        return self._copy.name if self._copy is not None else ""

    def step(self) -> Progress:
        """Do a little."""
        if not self._is_unchanged():
            self.abandon()
            return Progress.ABANDONED
        try:
            if self._groups is None:
                self._map()
                return Progress.MORE
            return self._copy_on()
        except MalformedBatch:
            self.abandon()
            return Progress.DAMAGED

    def synced(self) -> Progress:
        """Put the new segment in place."""
        assert self._copy is not None
        if not self._is_unchanged():
            self.abandon()
            return Progress.ABANDONED
        self.log.replace_segments(self._copy.group, self._copy.new)
        self.bytes_after += self._copy.new.size
        self._copy = None
        return Progress.MORE

    def _is_unchanged(self) -> bool:
        group = self._copy.group if self._copy is not None else None
        return self.log.truncations == self._truncations and (group is None or self.log.has_segments(group))

    def abandon(self) -> None:
        """Delete the unfinished file."""
        if self._copy is not None:
            self._files.delete(self._copy.name)
            self._copy = None

    # --- which records are the last of their key -----------------------------------------------------------------

    def _map(self) -> None:
        end = self._segments[-1].end_offset
        data = self.log.read(max(self._mapped_to, self.log.start_offset), STEP_BYTES, end)
        is_full = False
        for position, header in iterate_headers(data):
            is_full = len(self._latest) >= self._keys_max
            if is_full:
                break
            self._latest.update(latest_in(data[position : position + header.size], header))
            if header.producer_id in self.log.producers.states:
                recent = self._recent.setdefault(header.producer_id, deque(maxlen=CACHED_BATCHES))
                recent.append(header.base_offset)
            self._mapped_to = header.last_offset + 1
        if is_full or not data:
            self._limits = self._limits._replace(end=self._mapped_to)
            covered = [segment for segment in self._segments if segment.base_offset < self._mapped_to]
            self._groups = _grouped(covered, self.log.config.segment_bytes)

    # --- copying without the others ------------------------------------------------------------------------------

    def _copy_on(self) -> Progress:
        if self._copy is None:
            assert self._groups is not None
            if not self._groups:
                self.log.compacted_offset = max(self.log.compacted_offset, self._mapped_to)
                return Progress.DONE
            group = self._groups.pop(0)
            if not self.log.has_segments(group):
                return Progress.ABANDONED
            self._copy = _Copy(self._files, self.log, group, self._recent)
        is_done = self._copy.go_on(self._limits)
        if self._copy.has_unreadable:
            self._limits = self._limits._replace(tombstones_stay=True)
        if not is_done:
            return Progress.MORE
        if self._copy.changes:
            return Progress.SYNC
        self._files.delete(self._copy.name)
        self.bytes_after += self._copy.new.size
        self._copy = None
        return Progress.MORE


class _Copy:
    """The copy of one group of segments into a `.cleaned` file."""

    def __init__(self, files: Files, log: Log, group: Sequence[Segment], recent: Mapping[int, Collection[int]]) -> None:
        """`recent` has the base offsets of each producer's last batches in the part that was not compacted before."""
        self.group = group
        self.new = group[0].successor()
        self.name = cleaned_name(group[0])
        self.changes = len(group) > 1
        self.has_unreadable = False
        self._files = files
        self._producers = log.producers
        self._recent = recent
        self._segment = 0
        self._position = 0
        self._filler: tuple[int, int, int] | None = None  # first offset, last offset, leader epoch
        files.delete(self.name)
        files.append(self.name, b"")

    def go_on(self, limits: Limits) -> bool:
        """Copy some batches; returns whether all are copied. Raises `MalformedBatch` for a damaged file."""
        out = bytearray()
        segment = self.group[self._segment]
        data = segment.read(self._position, min(STEP_BYTES, segment.size - self._position))
        first = read_header(data)
        if first.size > len(data):
            data = segment.read(self._position, first.size)
            if len(data) < first.size:
                raise MalformedBatch(f"expected a whole batch at {self._position} of {segment.name}")
        for position, header in iterate_headers(data):
            self._take(data[position : position + header.size], header, limits, out)
            self._position += header.size
        if self._position >= segment.size:
            self._segment, self._position = self._segment + 1, 0
        is_done = self._segment == len(self.group)
        if is_done:
            self._put_filler(out)
        self._files.append(self.name, bytes(out))
        return is_done

    def _take(self, batch: bytes, header: BatchHeader, limits: Limits, out: bytearray) -> None:
        kept = self._kept(batch, header, limits)
        if kept is not None:
            self.changes = self.changes or kept != batch
            self._put_filler(out)
            self._put(kept, header.last_offset, read_header(kept).max_timestamp, out)
            return
        self.changes = self.changes or not header.is_filler
        if self._filler is not None and self._filler[2] == header.leader_epoch:
            self.changes = True
            self._filler = (self._filler[0], header.last_offset, header.leader_epoch)
        else:
            self._put_filler(out)
            self._filler = (header.base_offset, header.last_offset, header.leader_epoch)

    def _kept(self, batch: bytes, header: BatchHeader, limits: Limits) -> bytes | None:
        """What to keep of a batch; None if a filler will do. What cannot be read stays as it is.

        It may hold a record that a later tombstone is there for, so from then on tombstones stay.
        """
        if self.has_unreadable:
            limits = limits._replace(tombstones_stay=True)
        try:
            kept = without_obsolete(batch, header, limits) if header.records_count else None
        except MalformedBatch:
            self.has_unreadable = True
            return batch
        if kept is None and not header.records_count and not check_crc(batch, 0, header.size):
            return batch
        if kept is None and self._tells_of_producer(header):
            return emptied(header)
        return kept

    def _tells_of_producer(self, header: BatchHeader) -> bool:
        """Whether the leader may need the batch to recognize that a producer repeats it (PR-5).

        Its state may count batches that are cut off later, so the last ones that are compacted now stay as well.
        """
        state = self._producers.states.get(header.producer_id)
        if state is None:
            return False
        if header.base_offset in self._recent.get(header.producer_id, (header.base_offset,)):
            return True
        return any(batch.base_offset == header.base_offset for batch in state.batches)

    def _put_filler(self, out: bytearray) -> None:
        if self._filler is not None:
            first, last, epoch = self._filler
            self._filler = None
            self._put(filler(first, last, epoch), last, -1, out)

    def _put(self, data: bytes, last_offset: int, max_timestamp: int, out: bytearray) -> None:
        self.new.add(last_offset, len(data), max_timestamp)
        out += data


def _grouped(segments: Sequence[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Neighbours that fit into one segment together, by size and by the range of relative offsets."""
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        fits = bool(groups) and size + segment.size <= segment_bytes
        if fits and segment.end_offset - groups[-1][0].base_offset <= _RELATIVE_OFFSET_MAX:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups
