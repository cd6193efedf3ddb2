"""The segments of one log, oldest first; batches are appended to the last."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from broker.core.log.segments.segment import Segment
from broker.core.ports.files import Files


class Segments:
    """At least one segment, but while a log is emptied; each begins where the one before ends.

    The attributes are for reading only.
    """

    __slots__ = ("all", "base_offsets", "last")

    all: list[Segment]
    base_offsets: tuple[int, ...]
    """Where each begins."""
    last: Segment

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.all = list(segments)
        self.base_offsets = tuple([segment.base_offset for segment in segments])
        self.last = self.all[-1]

    def copy(self, files: Files) -> Segments:
        """The same on another disk."""
        return Segments([segment.copy(files) for segment in self.all])

    @property
    def size_bytes(self) -> int:
        """Bytes of all of them."""
        return sum(segment.size for segment in self.all)

    def of(self, offset: int) -> Segment:
        """The segment in whose range an offset is; the last one for offsets above all."""
        if offset >= self.last.base_offset:
            return self.last
        return self.all[self.index_of(offset)]

    def index_of(self, offset: int) -> int:
        """The place of `of(offset)`."""
        return max(0, bisect_right(self.base_offsets, offset) - 1)

    def closed(self, bound: int) -> list[Segment]:
        """Those to which nothing is appended any more and that end at or before offset `bound`."""
        return [segment for segment in self.all[:-1] if segment.end_offset <= bound]

    def has(self, segments: Sequence[Segment]) -> bool:
        """Whether these are among them, next to one another."""
        first = self.index_of(segments[0].base_offset)
        return self.all[first : first + len(segments)] == list(segments)

    def unflushed_files(self, flushed: int, upto: int) -> tuple[str, ...]:
        """Files with batches from offset `flushed` up to `upto` (exclusive), oldest first."""
        if self.last.base_offset <= flushed < upto:
            return (self.last.name,)
        return tuple(
            segment.name
            for segment in self.all
            if segment.end_offset > flushed and segment.size and segment.base_offset < upto
        )

    def files_at(self, offset: int) -> tuple[str, ...]:
        """The files that contain an offset or end there, oldest first."""
        return tuple(segment.name for segment in self.all if segment.base_offset <= offset <= segment.end_offset)

    def append(self, segment: Segment) -> None:
        """Let another segment be the last."""
        self.last = segment
        self.all.append(segment)
        self.base_offsets = (*self.base_offsets, segment.base_offset)

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put one in the place of some that cover the same offsets; the files are the caller's."""
        first = self.index_of(old[0].base_offset)
        following = first + len(old)
        self.all[first:following] = [new]
        self.base_offsets = (*self.base_offsets[:first], new.base_offset, *self.base_offsets[following:])

    def delete_below(self, offset: int) -> bool:
        """Delete the segments whose offsets are all below `offset`, with their files; whether there were any."""
        obsolete = self.index_of(offset)
        for segment in self.all[:obsolete]:
            segment.delete()
        del self.all[:obsolete]
        self.base_offsets = self.base_offsets[obsolete:]
        return obsolete > 0

    def delete_after(self, kept: Segment) -> None:
        """Delete the segments behind one, with their files, the last first."""
        self._delete_from(self.index_of(kept.base_offset) + 1)
        self.last = kept

    def restart_with(self, files: Files, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        """Delete all segments, the last first, and begin an empty one."""
        self._delete_from(0)
        self.append(Segment.create(files, directory, base_offset, index_interval_bytes))

    def _delete_from(self, first: int) -> None:
        for segment in reversed(self.all[first:]):
            segment.delete()
        del self.all[first:]
        self.base_offsets = self.base_offsets[:first]
