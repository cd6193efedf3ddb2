"""The node's disk, as a narrow port: one directory tree with a page cache and a clear flush boundary.

The real one is `broker.shell.posix_files`; the simulator has its own, which decides at a crash what survives. Names are
relative paths with `/`. All calls but `sync` work on the page cache and are immediate. What is not synced may be lost,
whole or in part, when the machine (not merely the process) dies.
"""

from __future__ import annotations

from typing import Protocol


class StorageError(Exception):
    """The disk refused: I/O error, full disk. The log directory must be considered failed (TR-6, ST-7)."""


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
        """Add to the end of a file, which is created, with its directories, if there is none."""
        ...

    def truncate(self, name: str, size: int) -> None:
        """Cut a file to `size` bytes."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Put a whole small file in place, atomically and durably (write aside, sync, rename, sync directory)."""
        ...

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file or directory."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file or a directory with all that is in it; nothing happens if there is none."""
        ...

    def sync(self, name: str) -> None:
        """Block until a file's bytes are on the disk."""
        ...
