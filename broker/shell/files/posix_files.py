"""The node's disk on a POSIX file system.

One thread works on the files; `sync` may be called from another one meanwhile, because it is slow. File descriptors are
kept open, a bounded number of them, so that an append is one `write` and a read one `pread`.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from broker.core.ports.files import StorageError
from broker.shell.files.fsyncs import Fsyncs

OPEN_FILES_MAX = 256
ASIDE_SUFFIX = ".aside"
"""Suffix of the temporary file that `replace` writes before the rename; it is not listed."""


class PosixFiles:
    """`broker.core.ports.files.Files` under one directory, which is created if there is none."""

    def __init__(self, root: Path, open_files_max: int = OPEN_FILES_MAX, fsyncs: Fsyncs | None = None) -> None:
        self._root = root
        self._fsyncs = fsyncs or Fsyncs()
        self._open_files_max = open_files_max
        self._descriptors: dict[str, int] = {}
        self._new_names: dict[Path, dict[str, int]] = {}  # by directory: files whose names are not durable yet
        self._names_created = 0
        self._durable_directories: set[Path] = set()  # whose names are durable
        self._synced_directories: set[Path] = set()  # by this process: one that was killed may have left new names
        self._names_removed = 0
        self._closing = threading.Lock()
        with self._failing("create", ""):
            root.mkdir(parents=True, exist_ok=True)

    # --- Files -----------------------------------------------------------------------------------------------

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted; without leftovers of an interrupted `replace`."""
        with self._failing("list", directory):
            try:
                with os.scandir(self._root / directory) as entries:
                    return sorted(entry.name for entry in entries if not entry.name.endswith(ASIDE_SUFFIX))
            except FileNotFoundError:
                return []

    def size(self, name: str) -> int:
        """Bytes in a file; 0 if there is none."""
        with self._failing("inspect", name):
            try:
                return (self._root / name).stat().st_size
            except FileNotFoundError:
                return 0

    def read(self, name: str, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`."""
        try:
            descriptor = self._descriptor(name)
            data = os.pread(descriptor, size, position)
            if len(data) == size or not data:
                return data
            parts = [data]
            while data and (missing := size - sum(map(len, parts))):
                data = os.pread(descriptor, missing, position + size - missing)
                parts.append(data)
            return b"".join(parts)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self._storage_error("read", name, error) from error

    def append(self, name: str, data: bytes) -> None:
        """Append to a file; if the disk fails, a partly written `data` is removed again."""
        try:
            try:
                descriptor = self._descriptor(name)
            except FileNotFoundError:
                descriptor = self._create(name)
            written = os.write(descriptor, data)
            if written != len(data):
                self._append_rest(descriptor, data, written)
        except OSError as error:
            raise self._storage_error("append to", name, error) from error

    def truncate(self, name: str, size: int) -> None:
        """Truncate a file to `size` bytes."""
        with self._failing("truncate", name):
            descriptor = self._descriptor(name)
            self._before_truncate(descriptor, size)
            os.ftruncate(descriptor, size)

    def replace(self, name: str, data: bytes) -> None:
        """Write a whole small file atomically and durably."""
        with self._failing("replace", name):
            path = self._root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_name(path.name + ASIDE_SUFFIX)
            abandoned = _inodes([aside])
            aside.unlink(missing_ok=True)
            self._after_remove(abandoned)
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                self._after_create(descriptor)
                self._append_rest(descriptor, data, 0)
                self._sync_descriptor(descriptor)
            finally:
                os.close(descriptor)
            self._close(name)
            replaced = _inodes([path])
            aside.replace(path)
            self._after_remove(replaced)
            self._sync_directories(name)

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file or directory, durably."""
        with self._failing("rename", name):
            self._close(name)
            self._close(new_name)
            new_path = self._root / new_name
            new_path.parent.mkdir(parents=True, exist_ok=True)
            replaced = _inodes([new_path])
            (self._root / name).rename(new_path)
            self._after_remove(replaced)
            self._forget_directories()
            self._new_names.pop(self._root / name, None)
            self._new_names.get((self._root / name).parent, {}).pop(name, None)
            self._sync_directories(name)
            self._sync_directories(new_name)

    def delete(self, name: str) -> None:
        """Delete a file or a directory with all its contents, durably."""
        with self._failing("delete", name):
            self._close(name)
            path = self._root / name
            if path.is_dir():
                removed = _inodes(files_under(path))
                shutil.rmtree(path)
                self._forget_directories()
                self._new_names.pop(path, None)
            else:
                removed = _inodes([path])
                path.unlink(missing_ok=True)
            self._after_remove(removed)
            self._sync_directories(name)

    def sync(self, name: str) -> None:
        """Block until a file's bytes, and the names on its path, are on the disk; does nothing if there is no file."""
        with self._failing("sync", name):
            with self._closing:
                cached = self._descriptors.get(name)
                descriptor = -1 if cached is None else os.dup(cached)
            try:
                if descriptor < 0:
                    descriptor = os.open(self._root / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return
            try:
                self._sync_descriptor(descriptor)
            finally:
                os.close(descriptor)
            directory = (self._root / name).parent
            if directory not in self._synced_directories or name in self._new_names.get(directory, {}):
                self._sync_directories(name)

    def close(self) -> None:
        """Close all file descriptors. Unsynced data remains unsynced."""
        self._close("")

    # --- hooks of subclasses that track what is durable ----------------------------------------------------------

    def _after_create(self, descriptor: int) -> None:
        """Called after a file was created."""

    def _before_truncate(self, descriptor: int, size: int) -> None:
        """Called before a file is truncated."""

    def _after_remove(self, inodes: Sequence[int]) -> None:
        """Called after these files were deleted."""

    def _sync_descriptor(self, descriptor: int) -> None:
        """Flush a file's descriptor with fsync."""
        self._fsyncs.sync(descriptor)

    # --- descriptors -----------------------------------------------------------------------------------------

    def _descriptor(self, name: str) -> int:
        """Descriptor of an existing file, open for reading and appending."""
        descriptors = self._descriptors
        descriptor = descriptors.pop(name, -1)
        if descriptor < 0:
            descriptor = os.open(f"{self._root}/{name}", os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            self._make_room()
        descriptors[name] = descriptor
        return descriptor

    def _create(self, name: str) -> int:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o644)
        self._make_room()
        self._descriptors[name] = descriptor
        self._after_create(descriptor)
        self._names_created += 1
        self._new_names.setdefault(path.parent, {})[name] = self._names_created
        return descriptor

    def _make_room(self) -> None:
        while len(self._descriptors) >= self._open_files_max:
            with self._closing:
                os.close(self._descriptors.pop(next(iter(self._descriptors))))

    def _close(self, name: str) -> None:
        with self._closing:
            for cached in [cached for cached in self._descriptors if _is_within(cached, name)]:
                os.close(self._descriptors.pop(cached))

    @staticmethod
    def _append_rest(descriptor: int, data: bytes, written: int) -> None:
        size_before = os.fstat(descriptor).st_size - written
        rest = memoryview(data)[written:]
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            os.ftruncate(descriptor, size_before)
            raise

    def _sync_directories(self, name: str) -> None:
        """Make a change of a directory entry durable, and the names of the directories on its path.

        One sync of a directory does so for all names that are in it by then, so that the many directories that came
        into being together cost one sync of their parent.
        """
        directory = (self._root / name).parent
        inner = None
        while True:
            new_names = dict(self._new_names.get(directory, {}))
            removed_before = self._names_removed
            try:
                directories: list[Path] = [] if inner is None else [one for one in directory.iterdir() if one.is_dir()]
                self._sync_directory(directory)
            except FileNotFoundError:
                return  # deleted meanwhile, with all that was in it
            self._names_are_durable(directory, new_names)
            self._synced_directories.add(directory)
            if self._names_removed == removed_before:
                self._durable_directories.update(directories)
            if directory == self._root or directory in self._durable_directories:
                return
            inner, directory = directory, directory.parent

    def _sync_directory(self, directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._fsyncs.sync(descriptor)
        finally:
            os.close(descriptor)

    def _names_are_durable(self, directory: Path, names: dict[str, int]) -> None:
        """Forget these new names, unless one was created again since."""
        new_names = self._new_names.get(directory, {})
        for name, number in names.items():
            if new_names.get(name) == number:
                del new_names[name]

    def _forget_directories(self) -> None:
        """A directory was removed or renamed: what is created under its name is another one, not durable yet."""
        self._names_removed += 1
        self._durable_directories.clear()
        self._synced_directories.clear()

    # --- errors ----------------------------------------------------------------------------------------------

    @contextmanager
    def _failing(self, operation: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._storage_error(operation, name, error) from error

    def _storage_error(self, operation: str, name: str, error: OSError) -> StorageError:
        code = errno.errorcode.get(error.errno or 0, "unknown error")
        return StorageError(f"cannot {operation} {self._root / name}: {code} ({error.strerror}); check the disk", name)


def _is_within(name: str, ancestor: str) -> bool:
    return not ancestor or name == ancestor or name.startswith(f"{ancestor}/")


def files_under(path: Path) -> list[Path]:
    """All regular files in a directory tree, sorted."""
    return sorted(found for found in path.rglob("*") if found.is_file())


def _inodes(paths: Iterable[Path]) -> list[int]:
    return [path.stat().st_ino for path in paths if path.exists()]
