"""Simulates a page cache in user space: real files with a ledger of what was synced, to simulate power failures.

A killed process loses nothing that it wrote: the kernel has it. A machine that loses power keeps only what was
synced. To turn the former into the latter, `LedgerFiles` records how much of each file is durable, and
`lose_unsynced`, run on the directory of a dead node, truncates every file to that size.

The ledger maps inode numbers to durable sizes, so that renaming needs no entry. It lies outside the data and holds one
slot of 16 bytes per file. A slot never crosses a page, so that a kill does not tear it, and it is written in the order
that makes a kill between ledger and file harmless: before a truncation, after a sync, a replacement or a deletion.

Limits: directory entries and renames count as durable at once, as does `replace`. Files that others put into the
directory count as durable in whole; so does the name of an empty file if the kill came between its creation and its
entry in the ledger.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from broker.core.ports.files import StorageError
from broker.shell.files.fsyncs import Fsyncs
from broker.shell.files.posix_files import ASIDE_SUFFIX, OPEN_FILES_MAX, PosixFiles, files_under

NEVER_SYNCED = -1
"""Durable size of a file whose name would not survive either."""

_SLOT = struct.Struct("<Qq")  # inode number, durable size; inode number 0: a free slot
_FREE = 0


class LedgerFiles(PosixFiles):
    """`PosixFiles` that keep a ledger; by default it is the file `<root>.ledger`.

    Nothing is recorded per append. A new ledger counts everything in `root` as durable.
    """

    def __init__(
        self,
        root: Path,
        ledger: Path | None = None,
        open_files_max: int = OPEN_FILES_MAX,
        fsyncs: Fsyncs | None = None,
    ) -> None:
        super().__init__(root, open_files_max, fsyncs)
        self._lock = threading.Lock()
        self._syncing: list[_Syncing] = []
        with self._failing("read the ledger of", ""):
            self._ledger = _Ledger(ledger or ledger_of(root), root)

    def close(self) -> None:
        """Close all file descriptors. Unsynced data remains unsynced."""
        super().close()
        self._ledger.close()

    def _after_create(self, descriptor: int) -> None:
        with self._lock:
            self._ledger.record(os.fstat(descriptor).st_ino, NEVER_SYNCED)

    def _before_truncate(self, descriptor: int, size: int) -> None:
        with self._lock:
            inode = os.fstat(descriptor).st_ino
            self._cut_short(inode, size)
            self._ledger.record(inode, min(size, self._ledger.durable(inode)))

    def _after_remove(self, inodes: Sequence[int]) -> None:
        with self._lock:
            for inode in inodes:
                self._cut_short(inode, NEVER_SYNCED)
                self._ledger.free(inode)

    def _sync_descriptor(self, descriptor: int) -> None:
        with self._lock:
            status = os.fstat(descriptor)
            syncing = _Syncing(status.st_ino, status.st_size)
            self._syncing.append(syncing)
        try:
            super()._sync_descriptor(descriptor)
        finally:
            with self._lock:
                self._syncing.remove(syncing)
        with self._lock:
            durable = self._ledger.durable(syncing.inode)
            if syncing.size > durable:
                self._ledger.record(syncing.inode, syncing.size)

    def _cut_short(self, inode: int, size: int) -> None:
        """A running sync proves nothing about what is written after a truncation."""
        for syncing in self._syncing:
            if syncing.inode == inode:
                syncing.size = min(syncing.size, size)


def ledger_of(root: Path) -> Path:
    """The default path of a directory's ledger."""
    return root.with_name(root.name + ".ledger")


def lose_unsynced(
    root: Path, ledger: Path | None = None, keep: Callable[[str, int, int], int] | None = None
) -> dict[str, tuple[int, int]]:
    """Simulate a power failure on the directory of a dead node; returns (before, after) sizes of files that lost data.

    Every file is cut to its durable size, or, for a partial loss, to what `keep(name, durable size, size)` chooses
    between the two. A file that was never synced and keeps nothing is deleted.
    """
    path = ledger or ledger_of(root)
    slots = _read_slots(path)
    if slots is None:
        raise StorageError(f"expected the ledger of a node at {path}, found none; start the node with `page-cache`")
    lost: dict[str, tuple[int, int]] = {}
    for file in files_under(root):
        status = file.stat()
        size = status.st_size
        durable = slots.get(status.st_ino, size)
        name = file.relative_to(root).as_posix()
        kept = min(size, max(durable, 0))
        if keep is not None:
            kept = min(size, max(kept, keep(name, kept, size)))
        if durable == NEVER_SYNCED and not kept:
            file.unlink()
        elif kept < size:
            os.truncate(file, kept)
        else:
            continue
        lost[name] = (size, kept)
    _write_slots(path, {file.stat().st_ino: file.stat().st_size for file in files_under(root)})
    return lost


class _Syncing:
    """A running sync: once it is done, the first `size` bytes are durable."""

    __slots__ = ("inode", "size")

    def __init__(self, inode: int, size: int) -> None:
        self.inode = inode
        self.size = size


class _Ledger:
    """The ledger's file and its slots."""

    def __init__(self, path: Path, root: Path) -> None:
        known = _read_slots(path)
        self._durable: dict[int, int] = {}
        for file in files_under(root):
            status = file.stat()
            size = status.st_size
            self._durable[status.st_ino] = min(size, known.get(status.st_ino, size)) if known is not None else size
        _write_slots(path, self._durable)
        self._slots = {inode: slot for slot, inode in enumerate(self._durable)}
        self._free_slots: list[int] = []
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def durable(self, inode: int) -> int:
        return self._durable.get(inode, NEVER_SYNCED)

    def record(self, inode: int, durable: int) -> None:
        slot = self._slots.get(inode)
        if slot is None:
            slot = self._free_slots.pop() if self._free_slots else len(self._slots)
            self._slots[inode] = slot
        self._durable[inode] = durable
        os.pwrite(self._descriptor, _SLOT.pack(inode, durable), slot * _SLOT.size)

    def free(self, inode: int) -> None:
        slot = self._slots.pop(inode, None)
        if slot is not None:
            del self._durable[inode]
            self._free_slots.append(slot)
            os.pwrite(self._descriptor, _SLOT.pack(_FREE, 0), slot * _SLOT.size)

    def close(self) -> None:
        os.close(self._descriptor)


def _read_slots(path: Path) -> dict[int, int] | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    whole = data[: len(data) - len(data) % _SLOT.size]
    return {inode: durable for inode, durable in _SLOT.iter_unpack(whole) if inode != _FREE}


def _write_slots(path: Path, slots: Mapping[int, int]) -> None:
    aside = path.with_name(path.name + ASIDE_SUFFIX)
    aside.write_bytes(b"".join(_SLOT.pack(inode, durable) for inode, durable in slots.items()))
    aside.replace(path)
