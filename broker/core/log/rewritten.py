"""The file that protects a truncated log from a recovery point that is out of date.

A recovery point says "all below me is on the disk". After a truncation the offsets above the cut are written anew, so
that an older recovery point promises too much. Kafka rewrites the checkpoint of the whole directory at each truncation;
here the log notes in its own directory from where on it may have been rewritten, and up to where an old recovery point
may claim otherwise, until it has been flushed beyond that.
"""

from __future__ import annotations

from broker.core.ports.files import Files

FILE_NAME = "rewritten-range"
_EVERYTHING = (0, 1 << 62)


class RewrittenRange:
    """Offsets of one log, from a start to an end, that no recovery point may be trusted about; often none."""

    __slots__ = ("_files", "_name", "_range")

    def __init__(self, files: Files, directory: str) -> None:
        """Read what was noted; garbage means that nothing can be trusted."""
        self._files = files
        self._name = f"{directory}/{FILE_NAME}"
        self._range: tuple[int, int] | None = None
        if FILE_NAME in files.list(directory):
            self._range = _parse(files.read(self._name, 0, files.size(self._name)))

    def copy(self, files: Files) -> RewrittenRange:
        """The same range over another disk."""
        twin = RewrittenRange.__new__(RewrittenRange)
        twin._files, twin._name, twin._range = files, self._name, self._range
        return twin

    def limit(self, recovery_point: int) -> int:
        """What can be trusted of the recovery point that was checkpointed; no other one will turn up later."""
        if self._range is None:
            return recovery_point
        start, end = self._range
        self._range = (start, min(end, recovery_point))
        return min(recovery_point, start)

    def note(self, start: int, end: int) -> None:
        """Add the offsets from `start` to `end`, durably; it must be done before a truncation."""
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
