"""One segment of a log: a file of batches, with its indexes.

The files have Kafka's names: `<base offset>.log`, and `.index` and `.timeindex` with an entry at most every
`index_interval_bytes`. In memory there are the two indexes and, for the segment being written, the exact positions
of its latest batches.

Index files are written when a segment is rolled or the log is closed. They are hints: batches after their last entry
are scanned, and an index that contradicts itself or the log file is rebuilt.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator
from typing import NamedTuple

from broker.core.log.segments.indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Indexes
from broker.core.ports.files import Files, StorageError
from broker.core.records import HEADER_BYTES, MAGIC, PREFIX_BYTES, BatchHeader, MalformedBatch, read_header

LOG_SUFFIX = ".log"

TAIL_BATCHES = 1024
"""At least this many of the latest batches are found without reading the file."""
_LOOKUP_BYTES = 8192
_SCAN_BYTES = 1 << 20

_WALK = struct.Struct(">qi4xb6xi8xq")  # base offset, length, magic, last offset delta, max timestamp


class CorruptLog(StorageError):
    """A log file contradicts its index, its name or its neighbours: the directory has failed (TR-6)."""


class FilePosition(NamedTuple):
    """Position of a batch in a segment's file."""

    position: int
    size: int
    last_offset: int
    max_timestamp: int


class Segment:
    """Batches from `base_offset` to `end_offset` (exclusive) in the first `size` bytes of one file.

    A segment opened as sealed takes its bounds from its name and its successor's; its indexes are read when
    they are first needed.
    """

    __slots__ = (
        "_directory",
        "_files",
        "_first_timestamp",
        "_index_interval_bytes",
        "_indexes",
        "_loaded",
        "_stem",
        "_tail_ends",
        "_tail_last_offsets",
        "_tail_offset",
        "_tail_position",
        "_unindexed_bytes",
        "base_offset",
        "end_offset",
        "max_timestamp",
        "max_timestamp_offset",
        "name",
        "size",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self._files = files
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._first_timestamp: int | None = None
        self.base_offset = base_offset
        self._stem = f"{directory}/{base_offset:020d}"
        self.name = self._stem + LOG_SUFFIX
        self.clear()

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: int, index_interval_bytes: int) -> Segment:
        """Create a new, empty segment with its file."""
        segment = cls(files, directory, base_offset, index_interval_bytes)
        files.append(segment.name, b"")
        return segment

    def emptied_at(self, base_offset: int) -> Segment:
        """Create a new, empty segment of the same log."""
        return Segment.create(self._files, self._directory, base_offset, self._index_interval_bytes)

    def successor(self) -> Segment:
        """An empty segment of the same name in memory, to be filled with what compaction leaves of this one."""
        return Segment(self._files, self._directory, self.base_offset, self._index_interval_bytes)

    @classmethod
    def sealed(
        cls, files: Files, directory: str, base_offset: int, end_offset: int, index_interval_bytes: int
    ) -> Segment:
        """Open an existing segment that is known to end at `end_offset`."""
        segment = cls(files, directory, base_offset, index_interval_bytes)
        segment.size = files.size(segment.name)
        segment.end_offset = end_offset
        segment._loaded = False
        return segment

    def copy(self, files: Files) -> Segment:
        """A copy of the segment on another disk."""
        twin = Segment.__new__(Segment)
        for slot in self.__slots__:
            setattr(twin, slot, getattr(self, slot))
        twin._files = files
        twin._indexes = self._indexes.copy()
        twin._tail_ends = self._tail_ends[:]
        twin._tail_last_offsets = self._tail_last_offsets[:]
        return twin

    @property
    def first_timestamp(self) -> int:
        """The latest timestamp of the first batch; -1 if there is none."""
        if self._first_timestamp is None:
            if not self.size:
                return -1
            self._first_timestamp = self.header_at(0).max_timestamp
        return self._first_timestamp

    # --- writing -------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Drop all batches from memory; the file is unchanged."""
        self.size = 0
        self.end_offset = self.base_offset
        self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset
        self._loaded = True
        self._indexes = Indexes()
        self._unindexed_bytes = 0
        self._first_timestamp = None
        self._start_tail(0, self.base_offset)

    def _start_tail(self, position: int, offset: int) -> None:
        self._tail_position = position
        self._tail_offset = offset
        self._tail_ends = array("q")
        self._tail_last_offsets = array("q")

    def add(self, last_offset: int, size: int, max_timestamp: int) -> None:
        """Record a batch whose bytes are, or are about to be, the file's next `size` bytes."""
        position = self.size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._unindexed_bytes > self._index_interval_bytes:
            self._unindexed_bytes = 0
            self._indexes.add(last_offset, position, self.max_timestamp, self.max_timestamp_offset)
        self._unindexed_bytes += size
        self.size = position = position + size
        self.end_offset = last_offset + 1
        ends = self._tail_ends
        ends.append(position)
        self._tail_last_offsets.append(last_offset)
        if len(ends) >= 2 * TAIL_BATCHES:
            self._tail_position = ends[TAIL_BATCHES - 1]
            self._tail_offset = self._tail_last_offsets[TAIL_BATCHES - 1] + 1
            del ends[:TAIL_BATCHES], self._tail_last_offsets[:TAIL_BATCHES]

    def has_indexes(self, names: Container[str]) -> bool:
        """Whether both index files are among these names of its directory."""
        return all(f"{self.base_offset:020d}{suffix}" in names for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))

    def write_indexes(self) -> None:
        """Rewrite both index files durably."""
        self.load()
        if self.size:
            self._indexes.add_time(self.max_timestamp, self.max_timestamp_offset)
        self._indexes.write(self._files, self._stem, self.base_offset)

    def forget_tail(self) -> None:
        """Keep only the sparse indexes, once nothing will be added any more."""
        self._start_tail(self.size, self.end_offset)

    def truncate(self, position: int) -> None:
        """Truncate the file at `position`, where a batch begins."""
        self.load()
        self._files.truncate(self.name, position)
        self._indexes.truncate(position)
        self._walk_in(position)

    def delete(self) -> None:
        """Delete the files, the `.log` file last."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            self._files.delete(self._stem + suffix)

    # --- opening -------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Load a sealed segment's indexes and scan the batches after their last entry; later calls do nothing."""
        if self._loaded:
            return
        expected_end = self.end_offset
        self.open_tail()
        if self.end_offset != expected_end:
            raise CorruptLog(
                f"expected {self.name} to end at offset {expected_end}, found {self.end_offset};"
                " restore it from another replica",
                self.name,
            )

    def open_tail(self) -> None:
        """Determine the segment's end from its indexes and the batches after their last entry.

        Raises `CorruptLog` if the file does not end with a whole batch.
        """
        size = self._files.size(self.name)
        self.clear()
        self._indexes = Indexes.read(self._files, self._stem, self.base_offset, size)
        self._walk_in(size)

    def _entry_holds(self, entry: int) -> bool:
        """Whether the batch that an index entry refers to is at its position."""
        data = self._files.read(self.name, self._indexes.positions[entry], _WALK.size)
        if len(data) < _WALK.size:
            return False
        base_offset, _, magic, last_offset_delta, _ = _WALK.unpack(data)
        return bool(magic == MAGIC and base_offset + last_offset_delta == self._indexes.offsets[entry])

    def _rebuild_indexes(self) -> None:
        """Discard damaged indexes and rebuild them from the log file."""
        size = self.size
        self.clear()
        self._walk_in(size)

    def _walk_in(self, size: int) -> None:
        """Rebuild the state from the index entries and the batches after the last one, up to `size`.

        The last entry must hold: the tail begins there, and what a damaged entry says of it would hide batches.
        """
        if self._indexes.offsets and not self._entry_holds(len(self._indexes.offsets) - 1):
            self._indexes = Indexes()
        indexes = self._indexes
        if indexes.positions:
            position, offset = indexes.positions[-1], indexes.offsets[-1]
        else:
            position, offset = 0, self.base_offset
        if indexes.timestamps:
            self.max_timestamp, self.max_timestamp_offset = indexes.timestamps[-1], indexes.time_offsets[-1]
        else:
            self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        self._unindexed_bytes = 0
        self._start_tail(position, offset)
        self.size = position
        self.end_offset = self.base_offset
        self._loaded = True
        for batch in self._walk(position, size, _SCAN_BYTES):
            self.add(batch.last_offset, batch.size, batch.max_timestamp)

    def _walk(self, position: int, end: int, chunk_bytes: int = _LOOKUP_BYTES) -> Iterator[FilePosition]:
        """All batches from `position`, where one begins, to `end`, where one ends."""
        chunk = b""
        chunk_position = position
        while position < end:
            at = position - chunk_position
            if at + _WALK.size > len(chunk):
                chunk = self._files.read(self.name, position, min(chunk_bytes, end - position))
                chunk_position, at = position, 0
            if len(chunk) < _WALK.size:
                raise self._corrupt(position)
            base_offset, length, magic, last_offset_delta, max_timestamp = _WALK.unpack_from(chunk, at)
            size = length + PREFIX_BYTES
            if magic != MAGIC or size < HEADER_BYTES or size > end - position or last_offset_delta < 0:
                raise self._corrupt(position)
            yield FilePosition(position, size, base_offset + last_offset_delta, max_timestamp)
            position += size

    def _corrupt(self, position: int) -> CorruptLog:
        return CorruptLog(
            f"expected a record batch at position {position} of {self.name}, found something else;"
            " restart without the clean-shutdown file to recover what is valid",
            self.name,
        )

    # --- reading -------------------------------------------------------------------------------------------------

    def locate(self, offset: int) -> FilePosition:
        """The batch that contains `offset`, which must be in this segment."""
        self.load()
        if offset >= self._tail_offset and self._tail_ends:
            found = bisect_left(self._tail_last_offsets, offset)
            end = self._tail_ends[found]
            position = self._tail_ends[found - 1] if found else self._tail_position
            return FilePosition(position, end - position, self._tail_last_offsets[found], -1)
        indexed = self._indexes.floor(offset)
        if indexed >= 0 and not self._entry_holds(indexed):
            self._rebuild_indexes()
            return self.locate(offset)
        position = self._indexes.positions[indexed] if indexed >= 0 else 0
        for batch in self._walk(position, self.size):
            if batch.last_offset >= offset:
                return batch
        raise self._corrupt(position)

    def span(self, offset: int, max_bytes: int, upto: int, minimum_one: bool) -> tuple[int, int]:
        """(position, size) of whole batches from the one that contains `offset`, all of whose offsets are below
        `upto`, and which together do not exceed `max_bytes` unless `minimum_one` asks for the first in any case.
        """
        first = self.locate(offset)
        start = first.position
        if first.last_offset >= upto or (first.size > max_bytes and not minimum_one):
            return start, 0
        limit = start + max_bytes
        if first.size >= max_bytes:
            return start, first.size
        if limit >= self.size and upto >= self.end_offset:
            return start, self.size - start
        within = min(bisect_right(self._tail_ends, limit), bisect_left(self._tail_last_offsets, upto))
        if within:
            return start, max(self._tail_ends[within - 1], start + first.size) - start
        indexed = self._indexes.floor_of_span(limit, upto)
        end = start + first.size
        if indexed >= 0:
            if not self._entry_holds(indexed):
                self._rebuild_indexes()
                return self.span(offset, max_bytes, upto, minimum_one)
            end = max(end, self._indexes.positions[indexed])
        for batch in self._walk(end, self.size):
            if batch.position + batch.size > limit or batch.last_offset >= upto:
                break
            end = batch.position + batch.size
        return start, end - start

    def headers(self, offset: int, upto: int) -> Iterator[BatchHeader]:
        """Headers of the batches that begin at or after `offset` and before `upto`."""
        self.load()
        offset = max(offset, self.base_offset)
        if offset >= self.end_offset:
            return
        position = self.locate(offset).position
        chunk = b""
        chunk_position = position
        while position < self.size:
            at = position - chunk_position
            if at + HEADER_BYTES > len(chunk):
                chunk = self._files.read(self.name, position, _SCAN_BYTES)
                chunk_position, at = position, 0
            try:
                header = read_header(chunk, at)
            except MalformedBatch:
                raise self._corrupt(position) from None
            if header.base_offset >= upto:
                return
            if header.base_offset >= offset:
                yield header
            position += header.size

    def first_at_or_after(self, timestamp: int) -> FilePosition | None:
        """The first batch with a record of that timestamp or a later one."""
        self.load()
        if timestamp > self.max_timestamp:
            return None
        indexed = self._indexes.floor_of_time(timestamp)
        if indexed >= 0 and not self._entry_holds(indexed):
            self._rebuild_indexes()
            return self.first_at_or_after(timestamp)
        position = self._indexes.positions[indexed] if indexed >= 0 else 0
        for batch in self._walk(position, self.size, _SCAN_BYTES):
            if batch.max_timestamp >= timestamp:
                return batch
        return None

    def header_at(self, position: int) -> BatchHeader:
        """Header of the batch that begins at a position."""
        try:
            return read_header(self.read(position, HEADER_BYTES))
        except MalformedBatch:
            raise self._corrupt(position) from None

    def read(self, position: int, size: int) -> bytes:
        """Bytes of the file."""
        return self._files.read(self.name, position, size)
