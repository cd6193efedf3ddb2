"""Reads and writes a segment's sparse offset and time indexes in Kafka's layouts.

`.index` holds (relative offset i32, position i32): the last offset of a batch and where it begins. `.timeindex` holds
(timestamp i64, relative offset i32): the latest timestamp so far, and the last offset of the batch that has it.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from broker.core.ports.files import Files

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"

_INDEX_ENTRY = struct.Struct(">ii")
_TIME_INDEX_ENTRY = struct.Struct(">qi")


class Indexes:
    """Both indexes of one segment, with absolute offsets; all columns ascend."""

    __slots__ = ("offsets", "positions", "time_offsets", "timestamps")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("q")
        self.timestamps = array("q")
        self.time_offsets = array("q")

    def copy(self) -> Indexes:
        """A copy of the entries."""
        twin = Indexes()
        twin.offsets, twin.positions = self.offsets[:], self.positions[:]
        twin.timestamps, twin.time_offsets = self.timestamps[:], self.time_offsets[:]
        return twin

    def add(self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Add a batch, and the latest timestamp of all batches up to it."""
        self.offsets.append(last_offset)
        self.positions.append(position)
        self.add_time(max_timestamp, max_timestamp_offset)

    def add_time(self, timestamp: int, offset: int) -> None:
        """Add the latest timestamp if it is greater than the last entry's."""
        if not self.timestamps or timestamp > self.timestamps[-1]:
            self.timestamps.append(timestamp)
            self.time_offsets.append(offset)

    def floor(self, offset: int) -> int:
        """Number of the last entry of a batch that ends at or before `offset`, -1 if there is none."""
        return bisect_right(self.offsets, offset) - 1

    def floor_of_time(self, timestamp: int) -> int:
        """Number of an entry before which all batches are older than `timestamp`, -1 if there is none."""
        earlier = bisect_left(self.timestamps, timestamp) - 1
        return self.floor(self.time_offsets[earlier]) if earlier >= 0 else -1

    def floor_of_span(self, position: int, upto: int) -> int:
        """Number of the last entry before which all lies before `position` and below offset `upto`; -1 if none."""
        return min(bisect_right(self.positions, position), bisect_right(self.offsets, upto)) - 1

    def truncate(self, position: int) -> None:
        """Drop the entries of batches that begin at `position` or after it."""
        kept = bisect_left(self.positions, position)
        del self.offsets[kept:], self.positions[kept:]
        kept_times = bisect_right(self.time_offsets, self.offsets[-1]) if kept else 0
        del self.timestamps[kept_times:], self.time_offsets[kept_times:]

    def write(self, files: Files, stem: str, base_offset: int) -> None:
        """Rewrite both files durably."""
        entries = zip(self.offsets, self.positions, strict=True)
        times = zip(self.timestamps, self.time_offsets, strict=True)
        files.replace(
            stem + INDEX_SUFFIX,
            b"".join(_INDEX_ENTRY.pack(offset - base_offset, position) for offset, position in entries),
        )
        files.replace(
            stem + TIME_INDEX_SUFFIX,
            b"".join(_TIME_INDEX_ENTRY.pack(timestamp, offset - base_offset) for timestamp, offset in times),
        )

    @classmethod
    def read(cls, files: Files, stem: str, base_offset: int, log_size: int) -> Indexes:
        """Read the two files; empty if they contradict themselves or the size of the log file."""
        indexes = cls()
        for relative, position in _entries(files, stem + INDEX_SUFFIX, _INDEX_ENTRY):
            indexes.offsets.append(base_offset + relative)
            indexes.positions.append(position)
        if not indexes.offsets:
            return indexes
        for timestamp, relative in _entries(files, stem + TIME_INDEX_SUFFIX, _TIME_INDEX_ENTRY):
            if base_offset + relative <= indexes.offsets[-1]:
                indexes.timestamps.append(timestamp)
                indexes.time_offsets.append(base_offset + relative)
        columns = (indexes.offsets, indexes.positions, indexes.timestamps)
        consistent = (
            bool(indexes.timestamps)
            and indexes.positions[0] > 0
            and indexes.positions[-1] < log_size
            and all(a < b for column in columns for a, b in pairwise(column))
        )
        return indexes if consistent else cls()


def _entries(files: Files, name: str, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    data = files.read(name, 0, files.size(name))
    yield from entry.iter_unpack(data[: len(data) - len(data) % entry.size])
