"""What faults need of a node's disk: to look at files, to change them behind the node's back, and to have it fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

Survival = Literal[
    "nothing",  # of what was not synced
    "prefix",  # the beginning of each file's tail, to a byte that was drawn
    "torn",  # some sectors of each tail; the others read as zeros
    "zeros",  # none of it, but the sizes: the tails read as zeros
]
"""What a loss of power leaves of the bytes that were appended and not synced. All of it is legal for a disk."""


@dataclass(frozen=True)
class PageCacheLoss:
    """What a lossy unclean shutdown took, over all files of one node."""

    mechanism: str  # "ext4", "fuse", "page-cache"
    lost_bytes: int
    files: Mapping[str, tuple[int, int]]  # name -> (bytes before, bytes after), only files that changed
    survived_bytes: int = 0  # of those that were not synced


Trouble = Literal[
    "full",  # no room: writing and creating fail (ENOSPC)
    "read-error",  # EIO
    "write-error",
    "fsync-error",
    "error",  # all three
    "fsync-lies",  # fsync succeeds, and makes nothing durable
    "fsync-fails-then-lies",  # the first fails, and takes the bytes for clean, as Linux does; later ones find them so
    "slow-fsync",
    "slow",  # everything
    "stall",  # nothing comes back until the trouble is over
]


class Disk(Protocol):
    """One node's disk. Errors are `NodeError`. What changes files is for a dead node's disk, and is durable."""

    def files(self) -> Mapping[str, int]:
        """Sizes of all files, by name."""
        ...

    def flip_bit(self, name: str, bit: int) -> None:
        """Turn one bit of a file."""
        ...

    def truncate(self, name: str, size: int) -> None:
        """Cut a file."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file."""
        ...

    def wipe(self) -> int:
        """Remove everything, as when a new disk is put in; returns how many bytes that were."""
        ...

    def keep_copy(self) -> int:
        """Copy everything to where the node does not see it; returns how many bytes. The node must stand still."""
        ...

    def go_back_to_copy(self) -> int:
        """Put the copy in the place of what is there; returns by how many bytes there is less."""
        ...

    def make_trouble(self, trouble: Trouble, delay_ms: int = 0) -> None:
        """Have the disk fail from now on. `delay_ms` is for the slow kinds."""
        ...

    def end_trouble(self) -> None:
        """Have it work again. Safe when it does."""
        ...

    def met_trouble(self) -> int:
        """How many requests have met with the trouble that holds."""
        ...
