"""Presents several log directories as one `Files` tree; a name's prefix selects the directory.

Every access to a directory that could not be opened raises its error, from which the core learns of the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from broker.core.ports.files import Files, StorageError, directory_of, name_in

T = TypeVar("T")


class JoinedFiles:
    """Joins several `broker.core.ports.files.Files`: the first for plain names, the others by a prefix of the name."""

    def __init__(self, directories: Sequence[Files | StorageError]) -> None:
        """Join directories in the order of `log.dirs`; an error takes the place of one that could not be opened."""
        self._directories = directories

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""
        return self._do(directory if "/" in directory else f"{directory}/", lambda files, name: files.list(name))

    def size(self, name: str) -> int:
        """Bytes in a file; 0 if there is none."""
        return self._do(name, lambda files, inner: files.size(inner))

    def read(self, name: str, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`."""
        return self._do(name, lambda files, inner: files.read(inner, position, size))

    def append(self, name: str, data: bytes) -> None:
        """Append to a file."""
        self._do(name, lambda files, inner: files.append(inner, data))

    def truncate(self, name: str, size: int) -> None:
        """Truncate a file to `size` bytes."""
        self._do(name, lambda files, inner: files.truncate(inner, size))

    def replace(self, name: str, data: bytes) -> None:
        """Write a whole small file atomically and durably."""
        self._do(name, lambda files, inner: files.replace(inner, data))

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file or directory within its log directory."""
        prefix = name_in(directory_of(name), "")
        if directory_of(new_name) != directory_of(name):
            raise StorageError(f"expected {new_name} to be in the log directory of {name}: nothing moves between", name)
        self._do(name, lambda files, inner: files.rename(inner, new_name.removeprefix(prefix)))

    def delete(self, name: str) -> None:
        """Delete a file or a directory with all its contents."""
        self._do(name, lambda files, inner: files.delete(inner))

    def sync(self, name: str) -> None:
        """Block until a file's bytes are on the disk; may be called from another thread."""
        self._do(name, lambda files, inner: files.sync(inner))

    def _do(self, name: str, work: Callable[[Files, str], T]) -> T:
        """Run an action in the directory of a name; errors get the prefixed name."""
        index = directory_of(name)
        files = self._directories[index]
        if isinstance(files, StorageError):
            raise StorageError(str(files), name)
        try:
            return work(files, name.removeprefix(name_in(index, "")).rstrip("/"))
        except StorageError as error:
            raise StorageError(str(error), name) from error
