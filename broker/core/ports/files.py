"""The node's disk as an interface: a directory tree with a page cache and an explicit flush.

The real one is `broker.shell.files.posix_files`; the simulator has its own, which decides at a crash what survives.
Names are relative paths with `/`. All calls but `sync` work on the page cache and are immediate. What is not synced
may be lost, whole or in part, when the machine (not merely the process) dies.

A node may have several log directories, each of which can fail alone. Names in the first have no prefix; names in
the others begin with the directory's index in `log.dirs`, as in `1/orders-0/leader-epoch-checkpoint`. So a node with
one directory, and code that handles only one, uses plain names.
"""

from __future__ import annotations

from typing import Protocol


class StorageError(Exception):
    """The disk failed: I/O error, full disk. The log directory of `name` must be considered failed (TR-6, ST-7)."""

    def __init__(self, text: str, name: str = "") -> None:
        """`text` is for the operator; `name` is the file or directory whose access failed."""
        super().__init__(text)
        self.name = name


def name_in(directory: int, name: str) -> str:
    """The name of a file in a log directory, given its index in `log.dirs`, from 0."""
    return f"{directory}/{name}" if directory else name


def directory_of(name: str) -> int:
    """The index in `log.dirs` of the log directory that contains a name."""
    first, slash, _ = name.partition("/")
    return int(first) if slash and first.isdigit() else 0


class Files(Protocol):
    """A directory tree. Every method raises `StorageError` when the disk fails."""

    def list(self, directory: str) -> list[str]:
        """Names (not paths) in a directory, sorted; empty if there is none."""
        ...

    def size(self, name: str) -> int:
        """Bytes in a file; 0 if there is none."""
        ...

    def read(self, name: str, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer at the end of the file, none if there is no file."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Append to a file; creates it, with its directories, if there is none."""
        ...

    def truncate(self, name: str, size: int) -> None:
        """Truncate a file to `size` bytes. Until the next sync what was cut off may come back."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write a whole small file atomically and durably (write aside, sync, rename, sync directory)."""
        ...

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file or directory, durably."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file or a directory with all its contents, durably; does nothing if there is none.

        If the machine dies meanwhile, any of the contents may be left.
        """
        ...

    def sync(self, name: str) -> None:
        """Block until a file's bytes, its size and the names on its path are on the disk."""
        ...
