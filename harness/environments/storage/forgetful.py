"""A directory tree that tracks what was synced, and can undo everything else.

Changes go directly to the tree, so that reads need no translation. An undo log covers unsynced changes: for files
their durable size and the durable bytes that were overwritten, for names a list of what was created, removed and
renamed. This is strict POSIX: `fsync` of a file makes its bytes durable, not its name; that takes an `fsync` of the
directory. (ext4 and XFS happen to do more, and so hide such mistakes.)

Descriptors of files and directories are kept open meanwhile, so that undoing does not depend on their later names. Not
safe to use from several threads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.environments.storage.disks import losses, read_states


@dataclass
class _Unsynced:
    """The state of a file when it was last synced."""

    descriptor: int
    size: int
    overwritten: list[tuple[int, bytes]] = field(default_factory=list)  # (position, durable bytes), oldest first

    def take_back(self) -> None:
        os.ftruncate(self.descriptor, self.size)
        for position, data in reversed(self.overwritten):
            os.pwrite(self.descriptor, data, position)


@dataclass(frozen=True)
class _DirectoryEntry:
    """A name in a directory, identified by inode, since the directory can be renamed."""

    descriptor: int
    directory: int  # inode
    name: str


@dataclass(frozen=True)
class _NameChange:
    entries: tuple[_DirectoryEntry, ...]
    take_back: Callable[[], None]
    forget: Callable[[], None]


class ForgetfulTree:
    """The tree below `root`; `graveyard`, an empty directory on the same file system, holds what was removed."""

    def __init__(self, root: Path, graveyard: Path) -> None:
        self.root = root
        self._graveyard = graveyard
        self._graves = 0
        self._files: dict[int, _Unsynced] = {}
        self._names: list[_NameChange] = []

    # --- files -------------------------------------------------------------------------------------------------------

    def create(self, path: str, mode: int) -> int:
        """Make a new file; returns its descriptor."""
        descriptor = os.open(self._real(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        self._created(path)
        return descriptor

    def write(self, descriptor: int, data: bytes, position: int) -> int:
        """Write, not yet durably."""
        unsynced = self._unsynced(descriptor)
        if position < unsynced.size:
            self._save(unsynced, position, position + len(data))
        return os.pwrite(descriptor, data, position)

    def truncate(self, descriptor: int, size: int) -> None:
        """Set a file's size, not yet durably."""
        unsynced = self._unsynced(descriptor)
        self._save(unsynced, size, unsynced.size)
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Make a file's bytes and size durable."""
        unsynced = self._files.pop(os.fstat(descriptor).st_ino, None)
        if unsynced is not None:
            os.close(unsynced.descriptor)

    def _unsynced(self, descriptor: int) -> _Unsynced:
        status = os.fstat(descriptor)
        unsynced = self._files.get(status.st_ino)
        if unsynced is None:
            unsynced = self._files[status.st_ino] = _Unsynced(os.dup(descriptor), status.st_size)
        return unsynced

    @staticmethod
    def _save(unsynced: _Unsynced, start: int, end: int) -> None:
        """Save the durable bytes in a range that is about to change; bytes already truncated were saved before."""
        if data := os.pread(unsynced.descriptor, max(0, min(end, unsynced.size) - start), start):
            unsynced.overwritten.append((start, data))

    # --- names -------------------------------------------------------------------------------------------------------

    def make_directory(self, path: str, mode: int) -> None:
        """Make a directory."""
        os.mkdir(self._real(path), mode)  # noqa: PTH102 - modes as the caller gave them
        self._created(path)

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory."""
        entry = self._entry(path)
        grave = self._bury(self._real(path))
        self._names.append(
            _NameChange(
                (entry,),
                take_back=lambda: os.rename(grave, entry.name, dst_dir_fd=entry.descriptor),
                forget=lambda: _delete(grave),
            )
        )

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing what has the new name."""
        if os.path.lexists(self._real(new)):
            self.remove(new)
        source, target = self._entry(old), self._entry(new)
        os.rename(self._real(old), self._real(new))  # noqa: PTH104
        self._names.append(
            _NameChange(
                (source, target),
                take_back=lambda: os.rename(
                    target.name, source.name, src_dir_fd=target.descriptor, dst_dir_fd=source.descriptor
                ),
                forget=_nothing,
            )
        )

    def sync_directory(self, descriptor: int) -> None:
        """Make the names in a directory durable."""
        directory = os.fstat(descriptor).st_ino
        kept = []
        for change in self._names:
            if any(entry.directory == directory for entry in change.entries):
                change.forget()
                _close(change)
            else:
                kept.append(change)
        self._names = kept

    def _created(self, path: str) -> None:
        entry = self._entry(path)

        def take_back() -> None:
            try:
                os.unlink(entry.name, dir_fd=entry.descriptor)
            except IsADirectoryError:
                shutil.rmtree(entry.name, dir_fd=entry.descriptor)

        self._names.append(_NameChange((entry,), take_back, forget=_nothing))

    def _bury(self, real: str) -> str:
        self._graves += 1
        grave = str(self._graveyard / str(self._graves))
        os.rename(real, grave)  # noqa: PTH104
        return grave

    def _entry(self, path: str) -> _DirectoryEntry:
        parent, name = os.path.split(self._real(path))
        descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return _DirectoryEntry(descriptor, os.fstat(descriptor).st_ino, name)

    def _real(self, path: str) -> str:
        return f"{self.root}{path}"

    # --- crash -------------------------------------------------------------------------------------------------------

    def crash(self) -> tuple[int, dict[str, tuple[int, int]]]:
        """Undo unsynced changes; returns bytes lost and the files that changed (size before, after)."""
        before = read_states(self.root)
        for change in reversed(self._names):
            with contextlib.suppress(FileNotFoundError):  # it was removed by an earlier undo step
                change.take_back()
            _close(change)
        for unsynced in self._files.values():
            unsynced.take_back()
            os.close(unsynced.descriptor)
        self._names.clear()
        self._files.clear()
        return losses(before, read_states(self.root))


def _nothing() -> None:
    """Nothing to delete."""


def _close(change: _NameChange) -> None:
    for entry in change.entries:
        os.close(entry.descriptor)


def _delete(grave: str) -> None:
    try:
        os.unlink(grave)  # noqa: PTH108
    except IsADirectoryError:
        os.rmdir(grave)  # noqa: PTH106
