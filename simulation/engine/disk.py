"""Simulates a disk: files with a page cache, and what a crash leaves of them (`Files` of the broker's core).

Fault model (ST-2 … ST-5): a process crash loses nothing; a power failure keeps what was synced of every file, and of
the rest whatever its mode says; a sync covers what was written before it was asked for, and nothing later; small files
that were put in place atomically are durable, and so may be ahead of the data; a lost disk is empty. A failing fsync
reports an error and loses what it should have written. Directories, renames and deletions are durable at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from broker.core.log.segments.segment import LOG_SUFFIX
from broker.core.metadata.records import METADATA_DIRECTORY
from broker.core.ports.files import StorageError
from broker.core.records import MalformedBatch, iterate_headers
from simulation.engine.choices import Stream

PAGE_BYTES = 4096
_CHECKED_FROM = 17
"""Bytes of a batch before its checksum and what it covers."""


class Survival(IntEnum):
    """What is left of un-synced bytes after a power failure, simplest first."""

    EVERYTHING = 0
    NOTHING = 1
    PREFIX = 2
    TORN = 3
    SCATTERED = 4


class _File:
    __slots__ = ("data", "durable")

    def __init__(self, data: bytes | bytearray = b"", durable: bytes | None = None) -> None:
        self.data = bytearray(data)
        self.durable = durable  # None: never synced


class Sync:
    """A sync that was asked for: it covers the bytes that the file had then."""

    __slots__ = ("_file", "_size")

    def __init__(self, file: _File) -> None:
        self._file = file
        self._size = len(file.data)

    def end(self) -> None:
        """The sync is done: what it covers is durable."""
        if self._file.durable is None or len(self._file.durable) < self._size:
            self._file.durable = bytes(self._file.data[: self._size])


class SimulatedDisk:
    """One node's disk. `failing` makes every write fail, as a disk does that is full or broken.

    `tears_next_append_at`, if given, lets the next append to a replica's log fail after so many bytes.
    """

    __slots__ = ("failing", "files", "tears_next_append_at")

    def __init__(self) -> None:
        self.files: dict[str, _File] = {}
        self.failing = False
        self.tears_next_append_at: int | None = None

    # --- Files -------------------------------------------------------------------------------------------------------

    def list(self, directory: str) -> list[str]:
        """See `Files.list`."""
        prefix = f"{directory}/" if directory else ""
        return sorted({name[len(prefix) :].split("/", 1)[0] for name in self.files if name.startswith(prefix)})

    def size(self, name: str) -> int:
        """See `Files.size`."""
        file = self.files.get(name)
        return len(file.data) if file is not None else 0

    def read(self, name: str, position: int, size: int) -> bytes:
        """See `Files.read`."""
        file = self.files.get(name)
        return bytes(file.data[position : position + size]) if file is not None else b""

    def append(self, name: str, data: bytes) -> None:
        """See `Files.append`."""
        self._check(name)
        file = self.files.get(name)
        if file is None:
            file = self.files[name] = _File()
        if self.tears_next_append_at is not None and data and _is_replicas_log(name):
            file.data += data[: self.tears_next_append_at]
            self.tears_next_append_at = None
            raise StorageError(f"{name}: EIO", name)
        file.data += data

    def truncate(self, name: str, size: int) -> None:
        """See `Files.truncate`. A cut is durable at once, so that only appended bytes can be in doubt.

        A sync that it overtakes proves nothing.
        """
        self._check(name)
        file = self.files[name]
        self.files[name] = _File(file.data[:size], None if file.durable is None else file.durable[:size])

    def replace(self, name: str, data: bytes) -> None:
        """See `Files.replace`."""
        self._check(name)
        self.files[name] = _File(data, bytes(data))

    def rename(self, name: str, new_name: str) -> None:
        """See `Files.rename`."""
        self._check(name)
        for old in [old for old in self.files if old == name or old.startswith(f"{name}/")]:
            self.files[new_name + old[len(name) :]] = self.files.pop(old)

    def delete(self, name: str) -> None:
        """See `Files.delete`."""
        for old in [old for old in self.files if old == name or old.startswith(f"{name}/")]:
            del self.files[old]

    def sync(self, name: str) -> None:
        """See `Files.sync`."""
        self._check(name)
        sync = self.begin_sync(name)
        if sync is not None:
            sync.end()

    def begin_sync(self, name: str) -> Sync | None:
        """A sync of the file's present bytes, to be ended later; None if there is no such file."""
        file = self.files.get(name)
        return None if file is None else Sync(file)

    def end_sync(self, name: str, sync: Sync | None) -> None:
        """The disk has done a sync that `begin_sync` began, or has failed meanwhile."""
        self._check(name)
        if sync is not None:
            sync.end()

    def _check(self, name: str) -> None:
        if self.failing:
            raise StorageError(f"{name}: EIO", name)

    # --- faults ------------------------------------------------------------------------------------------------------

    def lose_power(self, survival: Survival, stream: Stream) -> int:
        """Keep what the mode says; returns how many bytes were lost."""
        lost = 0
        if survival is Survival.EVERYTHING:
            return 0
        for name in sorted(self.files):
            file = self.files[name]
            durable = b"" if file.durable is None else file.durable
            if len(durable) == len(file.data):
                continue
            kept = _survivors(bytes(file.data), durable, survival, stream)
            lost += len(file.data) - len(kept)
            if not kept and file.durable is None:
                del self.files[name]
            else:
                self.files[name] = _File(kept, kept)
        return lost

    def lose(self) -> int:
        """Erase everything (ST-4); returns how many bytes were lost."""
        lost = sum(len(file.data) for file in self.files.values())
        self.files.clear()
        return lost

    def flip_unsynced_bit(self, stream: Stream) -> str:
        """Flip one bit that was not synced, as may happen when a machine loses power while it writes (ST-7).

        The bit is one that a checksum covers: a wrong base offset or leader epoch could not be detected. Returns the
        file's name, "" if all batches are synced.
        """
        logs = [name for name in self.files if name.endswith(LOG_SUFFIX)]
        for name in sorted(logs, key=lambda name: (not _is_replicas_log(name), name)):
            file = self.files[name]
            synced = 0 if file.durable is None else len(file.durable)
            batches = ((at, size) for at, size in _batches(file.data) if at + size > synced)
            batch = next(batches, None)
            if batch is not None:
                first, size = batch
                start = max(synced, first + _CHECKED_FROM)
                self.flip_bit(name, 8 * start + stream.draw("bit", 8 * (first + size - start)))
                return name
        return ""

    def flip_bit(self, name: str, position: int) -> None:
        """Flip one bit of a file, in the page cache and on the disk."""
        file = self.files[name]
        file.data[position // 8] ^= 1 << (position % 8)
        if file.durable is not None:
            file.durable = bytes(file.data[: len(file.durable)])

    def copy(self) -> SimulatedDisk:
        """An independent disk with the same contents."""
        twin = SimulatedDisk()
        twin.failing = self.failing
        twin.tears_next_append_at = self.tears_next_append_at
        twin.files = {name: _File(bytes(file.data), file.durable) for name, file in self.files.items()}
        return twin


def _is_replicas_log(name: str) -> bool:
    """Whether a file is a segment of a partition that holds records of clients."""
    return name.endswith(LOG_SUFFIX) and not name.startswith(f"{METADATA_DIRECTORY}/")


def _survivors(data: bytes, durable: bytes, survival: Survival, stream: Stream) -> bytes:
    unsynced = len(data) - len(durable)
    match survival:
        case Survival.NOTHING:
            return durable
        case Survival.PREFIX:
            return data[: len(durable) + stream.draw("bytes kept", unsynced + 1)]
        case Survival.TORN:
            kept = stream.draw("bytes kept", unsynced + 1)
            zeros = stream.draw("zeros after them", unsynced - kept + 1)
            return data[: len(durable) + kept] + bytes(zeros)
        case _:
            pages = bytearray(data)
            for start in range(len(durable), len(data), PAGE_BYTES):
                end = min(len(data), start + PAGE_BYTES - start % PAGE_BYTES)
                if stream.draw("page lost", 2):
                    pages[start:end] = bytes(end - start)
            return bytes(pages)


def _batches(data: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Position and size of each batch of a file of records, up to what a torn append or a lost page has left."""
    try:
        for position, header in iterate_headers(data):
            yield position, header.size
    except MalformedBatch:
        return
