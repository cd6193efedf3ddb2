"""A node's disk as faults see it: changes to files of a dead node, and disk trouble that the mechanism supports.

One of the changes restores a part of the unsynced bytes after a power loss. Losing all of them is not the only possible
outcome: real disks keep some sectors. Any subset of the appended bytes may be restored, because a disk might have kept
it; synced data is never changed.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from common.atomic_files import sync_directory
from harness.environments.base import NodePlan
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.storage.page_cache import PageCache
from harness.environments.storage.sparse import copy_tree
from harness.store.journal import Journal
from nemesis.capabilities.cluster import NodeError
from nemesis.capabilities.disks import Survival, Trouble

_COPY = "disk.copy"


class NodeDisk:
    """Implements `nemesis.capabilities.disks.Disk`."""

    def __init__(self, plan: NodePlan, mechanism: PageCache, journal: Journal, is_alive: Callable[[], bool]) -> None:
        self._plan = plan
        self._mechanism = mechanism
        self._journal = journal
        self._is_alive = is_alive
        self.trouble: Trouble | None = None
        """The current trouble."""
        self._to_mend = False  # trouble was requested, whether or not it took effect

    def files(self) -> Mapping[str, int]:
        """Sizes of all files, by name."""
        with self._failing("look at"):
            root = self._mechanism.view(self._plan)
            return {
                str(path.relative_to(root)): path.stat().st_size
                for path in sorted(root.rglob("*"))
                if path.is_file() and not path.is_symlink()
            }

    def flip_bit(self, name: str, bit: int) -> None:
        """Flip one bit of a file."""
        with self._changing("flip a bit of") as root:
            descriptor = os.open(root / name, os.O_RDWR | os.O_CLOEXEC)
            try:
                byte = os.pread(descriptor, 1, bit // 8)[0]
                os.pwrite(descriptor, bytes([byte ^ 1 << bit % 8]), bit // 8)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def truncate(self, name: str, size: int) -> None:
        """Truncate a file."""
        with self._changing("truncate a file of") as root:
            descriptor = os.open(root / name, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.ftruncate(descriptor, size)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def remove(self, name: str) -> None:
        """Remove a file."""
        with self._changing("remove a file of") as root:
            (root / name).unlink()
            sync_directory((root / name).parent)

    def wipe(self) -> int:
        """Remove all files; returns their size in bytes."""
        size = sum(self.files().values())
        with self._changing("wipe") as root:
            _empty(root)
        return size

    def keep_copy(self) -> int:
        """Copy all files to a directory that the node does not see; returns their size in bytes."""
        with self._failing("copy"):
            copy = self._plan.directory / _COPY
            shutil.rmtree(copy, ignore_errors=True)
            copy_tree(self._mechanism.view(self._plan), copy)
            return sum(path.stat().st_size for path in copy.rglob("*") if path.is_file())

    def go_back_to_copy(self) -> int:
        """Replace all files by the copy; returns by how many bytes they shrank."""
        before = sum(self.files().values())
        with self._changing("roll back") as root:
            _empty(root)
            copy = self._plan.directory / _COPY
            _copy_durably(copy, root)
            shutil.rmtree(copy)
        return before - sum(self.files().values())

    def make_trouble(self, trouble: Trouble, delay_ms: int = 0) -> None:
        """Make the disk fail from now on."""
        with self._failing("trouble"):
            self._journal.record("disk-trouble", node=self._plan.node_id, trouble=trouble)
            self._to_mend = True
            self._mechanism.make_trouble(self._plan, trouble, delay_ms)
            self.trouble = trouble

    def end_trouble(self) -> None:
        """Make it work again. Does nothing to a disk that never had trouble."""
        if not self._to_mend:
            return
        with self._failing("mend"):
            self._mechanism.end_trouble(self._plan)
            self.trouble = None
            self._to_mend = False

    def met_trouble(self) -> int:
        """How many requests the current trouble has affected."""
        with self._failing("ask"):
            return self._mechanism.met_trouble(self._plan)

    @contextmanager
    def _changing(self, what: str) -> Iterator[Path]:
        if self._is_alive():
            raise NodeError(f"expected node {self._plan.node_id} to have been killed, found it running")
        self._journal.record("disk-changed", node=self._plan.node_id, what=what)
        with self._failing(what):
            yield self._mechanism.view(self._plan)
            self._mechanism.changed_behind(self._plan)

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except (HelperRefused, OSError, shutil.Error) as error:
            raise NodeError(f"expected to {what} the disk of node {self._plan.node_id}, found: {error}") from error


def _empty(root: Path) -> None:
    """Remove everything below a directory, durably, from the leaves up."""
    for entry in root.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            _empty(entry)
            entry.rmdir()
        else:
            entry.unlink()
    sync_directory(root)


def _copy_durably(source: Path, target: Path) -> None:
    for entry in sorted(source.iterdir()):
        if entry.is_dir():
            (target / entry.name).mkdir()
            _copy_durably(entry, target / entry.name)
        else:
            with (target / entry.name).open("wb") as file:
                file.write(entry.read_bytes())
                file.flush()
                os.fsync(file.fileno())
    sync_directory(target)


SECTOR_BYTES = 512


def file_contents(directory: Path) -> Mapping[str, bytes]:
    """All regular files below a directory, read through the page cache."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def restore_survivors(directory: Path, before: Mapping[str, bytes], survival: Survival, seed: int) -> int:
    """Write back, durably, the surviving part of the lost tails; returns its size in bytes.

    Files whose name was lost stay lost, and so do overwritten bytes.
    """
    draws = random.Random(seed)  # noqa: S311 - chaos, not secrets
    survived = 0
    for name, data in before.items():
        path = directory / name
        if not path.is_file():
            continue
        durable = path.read_bytes()
        if len(durable) < len(data) and data.startswith(durable):
            tail = _surviving(data[len(durable) :], len(durable), survival, draws)
            survived += sum(byte != 0 for byte in tail) if survival == "torn" else len(tail) * (survival == "prefix")
            _append(path, tail)
    return survived


def _surviving(tail: bytes, start: int, survival: Survival, draws: random.Random) -> bytes:
    if survival == "prefix":
        return tail[: draws.randrange(len(tail) + 1)]
    if survival == "zeros":
        return bytes(len(tail))
    if survival == "torn":
        kept = bytearray(len(tail))
        position = 0
        while position < len(tail):
            end = min(len(tail), position + SECTOR_BYTES - (start + position) % SECTOR_BYTES)
            if draws.random() < 0.5:
                kept[position:end] = tail[position:end]
            position = end
        return bytes(kept)
    return b""


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
