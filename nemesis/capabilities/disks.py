"""The interface by which faults use a node's disk: list files, change them while the node is dead, make it fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

Survival = Literal[
    "nothing",  # of what was not synced
    "prefix",  # the beginning of each file's tail, up to a drawn byte
    "torn",  # some sectors of each tail; the others read as zeros
    "zeros",  # only the sizes: the tails read as zeros
]
"""What survives a power failure of the bytes that were appended and not synced. All of it is legal for a disk."""


@dataclass(frozen=True)
class PageCacheLoss:
    """What one node lost in an unclean shutdown, over all files."""

    mechanism: str  # "ext4", "fuse", "page-cache"
    lost_bytes: int
    files: Mapping[str, tuple[int, int]]  # name -> (bytes before, bytes after), only files that changed
    survived_bytes: int = 0  # of those that were not synced


Trouble = Literal[
    "full",  # writing and creating fail (ENOSPC)
    "read-error",  # EIO
    "write-error",
    "fsync-error",
    "error",  # all three
    "fsync-lies",  # fsync succeeds, and makes nothing durable
    "fsync-fails-then-lies",  # the first fails and marks the pages clean, as Linux does; later ones succeed
    "slow-fsync",
    "slow",  # everything
    "stall",  # no request returns until the trouble is over
]


class BreakableDisk(Protocol):
    """One node's disk. Errors are `NodeError`. Methods that change files need a dead node; changes are durable."""

    def files(self) -> Mapping[str, int]:
        """Return the sizes of all files, by name."""
        ...

    def flip_bit(self, name: str, bit: int) -> None:
        """Flip one bit of a file."""
        ...

    def truncate(self, name: str, size: int) -> None:
        """Truncate a file."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file."""
        ...

    def wipe(self) -> int:
        """Remove all files, like a replacement disk; returns how many bytes they had."""
        ...

    def keep_copy(self) -> int:
        """Copy all files to a place outside the node; returns how many bytes. The node must be paused or dead."""
        ...

    def go_back_to_copy(self) -> int:
        """Replace all files with the copy; returns by how many bytes they shrank."""
        ...

    def make_trouble(self, trouble: Trouble, delay_ms: int = 0) -> None:
        """Make the disk fail from now on. `delay_ms` is for the slow kinds."""
        ...

    def end_trouble(self) -> None:
        """Make it work normally. Safe when it does."""
        ...

    def met_trouble(self) -> int:
        """How many requests the present trouble has affected."""
        ...
