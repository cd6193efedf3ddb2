"""Protects a truncated log from an outdated recovery point.

A recovery point says that everything below it is on the disk. After a truncation the offsets above the cut are
rewritten, so an older recovery point claims too much. Kafka rewrites the directory's checkpoint at each truncation;
here the log stores in its own directory the range that may have been rewritten and that an old recovery point
may wrongly cover, until the log has been flushed beyond it.
"""

from __future__ import annotations

from broker.core.ports.files import Files

FILE_NAME = "rewritten-range"
_EVERYTHING = (0, 1 << 62)


class RewrittenRange:
    """A log's range of offsets for which recovery points cannot be trusted; often empty."""

    __slots__ = ("_files", "_name", "_range")

    def __init__(self, files: Files, directory: str) -> None:
        """Load the stored range; garbage means that no recovery point is trusted."""
        self._files = files
        self._name = f"{directory}/{FILE_NAME}"
        self._range: tuple[int, int] | None = None
        if FILE_NAME in files.list(directory):
            self._range = _parse(files.read(self._name, 0, files.size(self._name)))

    def copy(self, files: Files) -> RewrittenRange:
        """A copy of the range on another disk."""
        twin = RewrittenRange.__new__(RewrittenRange)
        twin._files, twin._name, twin._range = files, self._name, self._range
        return twin

    def limit(self, recovery_point: int) -> int:
        """The trusted part of the checkpointed recovery point; call it once, at opening."""
        if self._range is None:
            return recovery_point
        start, end = self._range
        self._range = (start, min(end, recovery_point))
        return min(recovery_point, start)

    def extend(self, start: int, end: int) -> None:
        """Extend the range by `start` to `end`, durably; must be done before a truncation."""
        if start >= end:
            return
        if self._range is not None:
            start, end = min(start, self._range[0]), max(end, self._range[1])
        self._range = (start, end)
        self._files.replace(self._name, f"{start} {end}\n".encode())

    def forget(self, flushed_offset: int) -> None:
        """Drop the range if the log has been flushed beyond its end."""
        if self._range is not None and flushed_offset >= self._range[1]:
            self._range = None
            self._files.delete(self._name)


def _parse(data: bytes) -> tuple[int, int]:
    try:
        start, end = (int(word) for word in data.decode().split())
    except ValueError:
        return _EVERYTHING
    return start, end
