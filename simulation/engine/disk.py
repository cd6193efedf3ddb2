"""Simulates a disk: files with a page cache, and what a crash leaves of them (`Files` of the broker's core).

Fault model (ST-2 … ST-5): a process crash loses nothing; a power failure keeps what was synced of every file, and of
the rest whatever its mode says; a sync covers what was written before it was asked for, and nothing later; small files
that were put in place atomically are durable, and so may be ahead of the data; a lost disk is empty. A failing fsync
reports an error and loses what it should have written.

The name of a new file is durable once the file was synced: until then a power failure may take it, with all that the
file holds, or leave the file empty. A cut is durable once the file was synced: until then a power failure may bring
back what was cut off, as far as it survives, in place of all that was written since. Renames, deletions and
replacements are durable when they return (`Files`), but not before: a power failure in the middle of one leaves either
the old state or the new, and of a directory that was being deleted any of its files (`InterruptedChange`).

A disk may hold several log directories. A power failure takes all of them; an error, one or all (TR-6, KIP-112).

The indexes of a segment count as mapped into memory, though the broker writes them whole: until the segment was synced
a power failure leaves each of them on its own as it is, as it was before, cut short, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

from broker.core.log.segments.indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from broker.core.log.segments.segment import LOG_SUFFIX
from broker.core.metadata.records import METADATA_DIRECTORY
from broker.core.ports.files import StorageError, directory_of
from broker.core.records import MalformedBatch, iterate_headers
from simulation.engine.choices import Stream

PAGE_BYTES = 4096
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
_CHECKED_FROM = 17
"""Bytes of a batch before its checksum and what it covers."""

_NAME_LOST_OF_4 = 3
"""From this draw of 4 on, a power failure takes a name that was not synced though some of its data were written."""


class PowerFailed(Exception):
    """The power failed in the middle of a change to the disk; the process that made it is gone."""


class Survival(IntEnum):
    """What is left of un-synced bytes after a power failure, simplest first."""

    EVERYTHING = 0
    NOTHING = 1
    PREFIX = 2
    TORN = 3
    SCATTERED = 4


class Loss(NamedTuple):
    """What a power failure took: bytes, names of files that had never been synced; cuts undone, indexes damaged."""

    lost_bytes: int = 0
    names: int = 0
    cuts_undone: int = 0
    indexes: int = 0


class _File:
    __slots__ = ("before_cut", "data", "durable")

    def __init__(
        self, data: bytes | bytearray = b"", durable: bytes | None = None, before_cut: tuple[bytes, bytes] | None = None
    ) -> None:
        self.data = bytearray(data)
        self.durable = durable  # None: never synced, and neither was its name
        self.before_cut = before_cut  # before the first cut that was not synced since: all data, and what was durable


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
        self._file.before_cut = None


class InterruptedChange:
    """An order to the disk: the power fails in the middle of a change that is still to come.

    `changes_before` changes are completed before it. What the interrupted one leaves is drawn from `stream`.
    """

    __slots__ = ("_stream", "changes_before")

    def __init__(self, changes_before: int, stream: Stream) -> None:
        self.changes_before = changes_before
        self._stream = stream

    def strikes(self) -> bool:
        """Count a change; whether it is the one."""
        self.changes_before -= 1
        return self.changes_before < 0

    def leaves_new(self) -> bool:
        """Whether a file is found as the change would have left it, not as it was before."""
        return self._stream.draw("change took effect", 2) == 1


class SimulatedDisk:
    """One node's disk. `failing` makes every write fail, as a disk does that is full or broken.

    `failing_directories` are the log directories, by their index, of which every write and deletion fails; of those in
    `unreadable_directories` every read too. `refused` are those in which something has failed since the node started.
    `tears_next_append_at`, if given, lets the next append to a replica's log fail after so many bytes. `interrupted`,
    if given, lets the power fail in the middle of a change, which raises `PowerFailed`.
    """

    __slots__ = (
        "_fails_now",
        "_tree",
        "failing",
        "failing_directories",
        "files",
        "interrupted",
        "refused",
        "tears_next_append_at",
        "unreadable_directories",
    )

    def __init__(self) -> None:
        self._fails_now = False
        self._tree: dict[str, set[str]] | None = None
        self.files: dict[str, _File] = {}
        self.failing = False
        self.failing_directories: set[int] = set()
        self.unreadable_directories: set[int] = set()
        self.refused: set[int] = set()
        self.interrupted: InterruptedChange | None = None
        self.tears_next_append_at: int | None = None

    # --- Files -------------------------------------------------------------------------------------------------------

    def list(self, directory: str) -> list[str]:
        """See `Files.list`."""
        if self.unreadable_directories:
            self._check_readable(f"{directory}/")
        return sorted(self._directories().get(directory, ()))

    def size(self, name: str) -> int:
        """See `Files.size`."""
        if self.unreadable_directories:
            self._check_readable(name)
        file = self.files.get(name)
        return len(file.data) if file is not None else 0

    def read(self, name: str, position: int, size: int) -> bytes:
        """See `Files.read`."""
        if self.unreadable_directories:
            self._check_readable(name)
        file = self.files.get(name)
        return bytes(file.data[position : position + size]) if file is not None else b""

    def append(self, name: str, data: bytes) -> None:
        """See `Files.append`."""
        self._check(name)
        if self._takes_effect():
            file = self.files.get(name)
            if file is None:
                file = self._put(name, _File())
            if self.tears_next_append_at is not None and data and _is_replicas_log(name):
                file.data += data[: self.tears_next_append_at]
                self.tears_next_append_at = None
                raise self._refusal(name)
            file.data += data
        self._go_on()

    def truncate(self, name: str, size: int) -> None:
        """See `Files.truncate`. A sync that it overtakes proves nothing."""
        self._check(name)
        if self._takes_effect():
            file = self.files[name]
            durable = file.durable
            before_cut = file.before_cut or (bytes(file.data), durable or b"")
            self.files[name] = _File(file.data[:size], None if durable is None else durable[:size], before_cut)
        self._go_on()

    def replace(self, name: str, data: bytes) -> None:
        """See `Files.replace`."""
        self._check(name)
        if self._takes_effect():
            before = self.files.get(name) if name.endswith(_INDEX_SUFFIXES) else None
            self._put(name, _File(data, bytes(data), None if before is None else (bytes(before.data), b"")))
        self._go_on()

    def rename(self, name: str, new_name: str) -> None:
        """See `Files.rename`."""
        self._check(name)
        if self._takes_effect():
            for old in self._under(name):
                self._put(new_name + old[len(name) :], self._take(old))
        self._go_on()

    def delete(self, name: str) -> None:
        """See `Files.delete`."""
        doomed, order = self._under(name), self.interrupted
        if not doomed:
            return
        if self.failing_directories and directory_of(doomed[0]) in self.failing_directories:
            raise self._refusal(name)
        if order is not None and order.strikes():
            doomed = [old for old in doomed if order.leaves_new()]
            self._fails_now = True
        for old in doomed:
            self._take(old)
        self._go_on()

    def sync(self, name: str) -> None:
        """See `Files.sync`."""
        self._check(name)
        sync = self.begin_sync(name)
        if sync is not None:
            if self._takes_effect():
                sync.end()
            self._go_on()

    def _takes_effect(self) -> bool:
        """Whether a change is found on the disk, or in the page cache, later on; `_go_on` must follow."""
        if self.interrupted is None or not self.interrupted.strikes():
            return True
        self._fails_now = True
        return self.interrupted.leaves_new()

    def _go_on(self) -> None:
        """The change is over, unless the power failed meanwhile."""
        if self._fails_now:
            self._fails_now, self.interrupted = False, None
            raise PowerFailed

    def _under(self, name: str) -> Sequence[str]:
        """The file of that name, or all in the directory of that name, sorted."""
        if name in self.files:
            return [name]
        return sorted(self._inside(name))

    def _inside(self, directory: str) -> Iterator[str]:
        for own in self._directories().get(directory, ()):
            name = f"{directory}/{own}"
            if name in self.files:
                yield name
            else:
                yield from self._inside(name)

    def _put(self, name: str, file: _File) -> _File:
        if self._tree is not None and name not in self.files:
            _enter(self._tree, name)
        self.files[name] = file
        return file

    def _take(self, name: str) -> _File:
        if self._tree is not None:
            _leave(self._tree, name)
        return self.files.pop(name)

    def _directories(self) -> Mapping[str, AbstractSet[str]]:
        """Of each directory, "" for the uppermost, the names in it. Made when it is first needed, then kept up."""
        if self._tree is None:
            self._tree = {}
            for name in self.files:
                _enter(self._tree, name)
        return self._tree

    def begin_sync(self, name: str) -> Sync | None:
        """A sync of the file's present bytes, to be ended later; None if there is no such file."""
        file = self.files.get(name)
        return None if file is None else Sync(file)

    def end_sync(self, name: str, sync: Sync | None) -> None:
        """The disk has done a sync that `begin_sync` began, or has failed meanwhile."""
        self._check(name)
        if sync is not None:
            sync.end()

    def is_failing(self, name: str) -> bool:
        """Whether operations on a file, or directory, fail: all of the disk's do, or those of its log directory."""
        return self.failing or (bool(self.failing_directories) and directory_of(name) in self.failing_directories)

    def _check(self, name: str) -> None:
        if self.is_failing(name):
            raise self._refusal(name)

    def _check_readable(self, name: str) -> None:
        if directory_of(name) in self.unreadable_directories:
            raise self._refusal(name)

    def _refusal(self, name: str) -> StorageError:
        self.refused.add(directory_of(name))
        return StorageError(f"{name}: EIO", name)

    # --- faults ------------------------------------------------------------------------------------------------------

    def fail_directory(self, index: int, *, reads: bool) -> None:
        """From now on every write in a log directory fails, and with `reads` every read."""
        self.failing_directories.add(index)
        if reads:
            self.unreadable_directories.add(index)

    def mend_directory(self, index: int) -> None:
        """A log directory works again."""
        self.failing_directories.discard(index)
        self.unreadable_directories.discard(index)

    @contextmanager
    def laid_open(self) -> Iterator[None]:
        """Let whoever looks at the disk from outside read what its node cannot."""
        unreadable, self.unreadable_directories = self.unreadable_directories, set()
        try:
            yield
        finally:
            self.unreadable_directories = unreadable

    def lose_power(self, survival: Survival, stream: Stream, names: Stream) -> Loss:
        """Keep what the mode says. `names` decides about names and cuts that were not synced."""
        if survival is Survival.EVERYTHING:
            return Loss()
        lost = names_lost = cuts_undone = indexes_damaged = 0
        unsynced = {name.removesuffix(LOG_SUFFIX) for name in self.files if self._is_unsynced_segment(name)}
        for name in sorted(self.files):
            file = self.files[name]
            stem, dot, suffix = name.rpartition(".")
            if dot + suffix in _INDEX_SUFFIXES:
                indexes_damaged += stem in unsynced and self._damage_index(name, names)
                continue
            durable = b"" if file.durable is None else file.durable
            kept: bytes | None = bytes(file.data)
            if len(durable) < len(file.data):
                kept = _survivors(bytes(file.data), durable, survival, stream)
            if file.durable is None and _loses_name(bool(file.data), bool(kept), names):
                kept = None
                names_lost += 1
                self._take(name)
            elif file.before_cut is not None and names.draw("cut undone", 2):
                kept = _survivors(*file.before_cut, survival, names)
                cuts_undone += 1
            lost += max(0, len(file.data) - len(kept or b""))
            if kept is not None:
                self.files[name] = _File(kept, kept)
        return Loss(lost, names_lost, cuts_undone, indexes_damaged)

    def unsynced_logs(self) -> Iterator[str]:
        """Names of the files of batches of which a power failure may take bytes."""
        for name, file in self.files.items():
            if name.endswith(LOG_SUFFIX) and len(file.durable or b"") < len(file.data):
                yield name

    def _is_unsynced_segment(self, name: str) -> bool:
        file = self.files[name]
        is_synced = file.durable is not None and len(file.durable) == len(file.data) and file.before_cut is None
        return name.endswith(LOG_SUFFIX) and not is_synced

    def _damage_index(self, name: str, names: Stream) -> bool:
        """Leave an index as it is, as it was, cut short, or not at all; whether it is another one now."""
        file = self.files[name]
        written = bytes(file.data)
        match names.draw("index left", 4):
            case 0:
                return False
            case 1:
                left = file.before_cut[0] if file.before_cut is not None else written
            case 2:
                left = written[: names.draw("bytes of the index", len(written) + 1)]
            case _:
                self._take(name)
                return True
        self.files[name] = _File(left, left)
        return left != written

    def lose(self) -> int:
        """Erase everything (ST-4); returns how many bytes were lost."""
        lost = sum(len(file.data) for file in self.files.values())
        self.files.clear()
        self._tree = None
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
        twin.failing_directories = set(self.failing_directories)
        twin.unreadable_directories = set(self.unreadable_directories)
        twin.refused = set(self.refused)
        twin.tears_next_append_at = self.tears_next_append_at
        twin.files = {name: _File(bytes(file.data), file.durable, file.before_cut) for name, file in self.files.items()}
        return twin


def _enter(tree: dict[str, set[str]], name: str) -> None:
    directory, _, own = name.rpartition("/")
    inside = tree.get(directory)
    if inside is None:
        inside = tree[directory] = set()
        if directory:
            _enter(tree, directory)
    inside.add(own)


def _leave(tree: dict[str, set[str]], name: str) -> None:
    directory, _, own = name.rpartition("/")
    inside = tree[directory]
    inside.remove(own)
    if not inside:
        del tree[directory]
        if directory:
            _leave(tree, directory)


def _is_replicas_log(name: str) -> bool:
    """Whether a file is a segment of a partition that holds records of clients."""
    return name.endswith(LOG_SUFFIX) and not name.startswith(f"{METADATA_DIRECTORY}/")


def _loses_name(had_data: bool, keeps_data: bool, names: Stream) -> bool:
    """Whether a name that was never synced is gone: most likely if nothing else is left of what was in the file."""
    if had_data and not keeps_data:
        return names.draw("empty file left", 2) == 0
    return names.draw("name lost", 4) >= _NAME_LOST_OF_4


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
