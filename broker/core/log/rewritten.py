"""The file that protects a truncated log from a recovery point that is out of date.

A recovery point says "all below me is on the disk". After a truncation the offsets above the cut are written anew, so
that an older recovery point promises too much. Kafka rewrites the checkpoint of the whole directory at each truncation;
here the log notes in its own directory from where on it may have been rewritten, and up to where an old recovery point
may claim otherwise, until it has been flushed beyond that.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.core.files import Files

FILE_NAME = "rewritten-range"


class Rewritten(NamedTuple):
    """Offsets from `start` to `end` (exclusive) that no recovery point may be trusted about."""

    start: int
    end: int


def read_rewritten(files: Files, directory: str) -> Rewritten | None:
    """The range noted, None if there is none; garbage means that nothing can be trusted."""
    name = f"{directory}/{FILE_NAME}"
    data = files.read(name, 0, files.size(name))
    if not data and FILE_NAME not in files.list(directory):
        return None
    try:
        start, end = (int(word) for word in data.decode().split())
    except ValueError:
        return Rewritten(0, 1 << 62)
    return Rewritten(start, end)


def write_rewritten(files: Files, directory: str, rewritten: Rewritten) -> None:
    """Note the range durably; it must be done before the truncation."""
    files.replace(f"{directory}/{FILE_NAME}", f"{rewritten.start} {rewritten.end}\n".encode())


def delete_rewritten(files: Files, directory: str) -> None:
    """The log is on the disk beyond the end of the range."""
    files.delete(f"{directory}/{FILE_NAME}")
