"""Disks that can lose their page cache, in the supervisor: ext4 on a loop device, shut down as by a power cut.

The order is the only safe one: the processes are dead, the file system is shut down without flushing even its
journal, it is unmounted, and mounted again, which runs the journal's recovery. Synced data is there; unsynced data is
gone unless ext4 had written it by itself (it commits its journal every five seconds, and at any sync).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from common.atomic_files import sync_directory
from harness.environments.machine.kernel import linux
from harness.environments.machine.kernel.process_identity import wait_until
from harness.environments.storage.sparse import copy_tree

_BLOCK_BYTES = 4096
_UNMOUNT_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class FileState:
    """A file's contents at one moment: its size and a checksum of each block."""

    size: int
    blocks: tuple[int, ...]


def read_states(directory: Path) -> dict[str, FileState]:
    """All regular files below a directory, read through the page cache."""
    found = {}
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            blocks = []
            with path.open("rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    blocks.append(zlib.crc32(block))
            found[str(path.relative_to(directory))] = FileState(path.stat().st_size, tuple(blocks))
    return found


def losses(before: Mapping[str, FileState], after: Mapping[str, FileState]) -> tuple[int, dict[str, tuple[int, int]]]:
    """The total of lost bytes, and the size before and after of each file that changed.

    A file that shrank lost the difference; a block whose contents were reverted lost its length.
    """
    lost = 0
    changed = {}
    nothing = FileState(0, ())
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, nothing), after.get(name, nothing)
        if (old, name in before) == (new, name in after):
            continue
        changed[name] = (old.size, new.size)
        common = min(old.size, new.size) // _BLOCK_BYTES
        reverted = sum(a != b for a, b in zip(old.blocks[:common], new.blocks[:common], strict=True))
        lost += max(0, old.size - new.size) + reverted * _BLOCK_BYTES
    return lost, changed


class _Device(NamedTuple):
    image: Path
    path: str
    descriptor: int  # keeps it attached


class Disks:
    """Mounted images. The kernel frees a loop device when neither this process nor a mount holds it."""

    def __init__(self) -> None:
        self._devices: dict[Path, _Device] = {}
        self._ballast: dict[Path, int] = {}  # nameless files that fill a disk

    def attach(self, image: Path, mount_point: Path) -> str:
        """Mount an image; returns the loop device."""
        self._mount(image, mount_point)
        _remove_lost_and_found(mount_point)
        return self._devices[mount_point].path

    def _mount(self, image: Path, mount_point: Path) -> None:
        device, descriptor = linux.attach_loop_device(image)
        try:
            linux.mount(device, mount_point, "ext4")
        except OSError:
            os.close(descriptor)
            raise
        self._devices[mount_point] = _Device(image, device, descriptor)

    def crash(self, mount_point: Path) -> dict[str, object]:
        """Lose unsynced data. No process may have a file open there."""
        self.make_room(mount_point)
        before = read_states(mount_point)
        linux.shut_down_file_system(mount_point)
        unmount_when_idle(mount_point)
        # On a new device: a mount namespace created meanwhile keeps the dead file system alive, and mounting the same
        # device again would return that one. Committed journal data goes to the image first.
        dead = self._devices.pop(mount_point)
        os.fsync(dead.descriptor)
        os.close(dead.descriptor)
        self._mount(dead.image, mount_point)
        lost_bytes, files = losses(before, read_states(mount_point))
        return {"lost_bytes": lost_bytes, "files": files}

    def fill(self, mount_point: Path) -> None:
        """Fill all free space with an unnamed file, which the node does not see."""
        self.make_room(mount_point)
        descriptor = os.open(mount_point, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        self._ballast[mount_point] = descriptor
        position, size = 0, 1 << 40
        while size >= _BLOCK_BYTES:  # free space is fragmented, and part of it is reserved
            try:
                os.posix_fallocate(descriptor, position, size)
                position += size
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EFBIG):
                    raise
                size //= 2

    def make_room(self, mount_point: Path) -> None:
        """Free the space that `fill` took. Safe when it did not."""
        if (descriptor := self._ballast.pop(mount_point, None)) is not None:
            os.close(descriptor)

    def detach(self, mount_point: Path, copy: Path) -> None:
        """Copy the disk's files to a directory that outlives it, then unmount it."""
        with contextlib.suppress(shutil.Error):  # a file that cannot be copied must not prevent the unmount
            copy_tree(mount_point, copy)
        self.make_room(mount_point)
        unmount_when_idle(mount_point)
        os.close(self._devices.pop(mount_point).descriptor)


def _remove_lost_and_found(mount_point: Path) -> None:
    """Remove `lost+found`, durably: brokers take every directory among their logs for a partition."""
    (mount_point / "lost+found").rmdir()
    sync_directory(mount_point)


def unmount_when_idle(mount_point: Path) -> None:
    """Unmount, waiting for recently killed processes to release the disk."""

    def unmounted() -> bool:
        try:
            linux.unmount(mount_point)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    if not wait_until(unmounted, _UNMOUNT_TIMEOUT_S):
        raise OSError(errno.EBUSY, "expected no process to use the disk, found one that does", str(mount_point))
