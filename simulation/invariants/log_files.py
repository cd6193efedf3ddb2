"""Checks that the files of a replica's log are those that its broker works with (P-44), and its indexes true (P-49).

A start knows nothing but the files: of a segment without a file it does not know where the log goes on, of epochs that
were not written down not where it begins, and it takes a snapshot of producers that a cut has left behind for theirs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from broker.core.log.epoch_cache import EpochCache
from broker.core.log.producer_state import snapshots_among
from broker.core.log.segments.indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from broker.core.log.segments.segment import LOG_SUFFIX
from broker.core.ports.files import directory_of
from broker.core.records import iterate_headers
from broker.core.replica.state import Replica
from simulation.engine.disk import SimulatedDisk
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge


def check(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """P-44, when a replica has changed: of its directory, if the segments, the cuts or the epochs are others."""
    log = replica.log
    shape = log.segment_offsets, log.truncations, log.start_offset, log.epochs.entries
    if mirror.found is replica and shape == mirror.shape:
        return
    disk = known.cluster.machines[mirror.holder].disk
    if disk.is_failing(log.directory):
        mirror.shape = ()  # what it has not written yet it will never write; or the fault ends, and it goes on
        return
    mirror.found, mirror.shape = replica, shape
    for what in _differences(disk, replica):
        known.fail(ghost, "P-44", f"broker {mirror.holder}: {what}")
    for base in log.segment_offsets[:-1]:
        size = disk.size(f"{log.directory}/{base:020d}{LOG_SUFFIX}")
        if mirror.indexed.get(base) != (log, size):
            mirror.indexed[base] = log, size
            stem = f"{log.directory}/{base:020d}"
            for what in _wrong_entries(disk, stem, base, may_lack_indexes=mirror.was_compacted):
                known.fail(ghost, "P-49", f"broker {mirror.holder}: {what}")


def closed(known: Knowledge, broker: BrokerMirror, disk: SimulatedDisk) -> None:
    """P-49 when a broker has ended cleanly: of the last segments, too, whose indexes it writes then (BL-8)."""
    for key, mirror in broker.mirrors.items():
        log, ghost = mirror.log, known.ghost_held(broker, *key)
        if log is None or ghost is None or directory_of(log.directory) in broker.failed_directories:
            continue
        base = log.segment_offsets[-1]
        for what in _wrong_entries(disk, f"{log.directory}/{base:020d}", base, may_lack_indexes=True):
            known.fail(ghost, "P-49", f"broker {mirror.holder}: {what}")


def _differences(disk: SimulatedDisk, replica: Replica) -> Iterator[str]:
    log = replica.log
    segments = {f"{offset:020d}" for offset in log.segment_offsets}
    names = disk.list(log.directory)
    files = _stems(names, LOG_SUFFIX)
    if files != segments:
        yield f"its log has segments at {sorted(segments)}, and files of {sorted(files)}"
    indexes = [
        stem + suffix for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) for stem in _stems(names, suffix) - segments
    ]
    for name in sorted(indexes):
        yield f"there is {name}, and no segment of that name"
    first, end = log.segment_offsets[0], log.end_offset
    strays = [offset for offset in snapshots_among(names) if not first <= offset <= end]
    if strays:
        yield f"there are snapshots of producers at {strays}; the segments of its log go from {first} to {end}"
    entries = log.epochs.entries
    written = EpochCache.load(disk, log.directory)
    in_file = () if written is None else written.entries
    # an epoch that begins at the end of the log is written down with its first record
    if in_file != entries and not (entries and entries[-1][1] >= log.end_offset):
        yield f"its epochs (epoch, start) are {list(entries)}, and {list(in_file)} in the file"


def _stems(names: Sequence[str], suffix: str) -> set[str]:
    """The names of the files with a suffix, without it."""
    size = len(suffix)
    return {name[:-size] for name in names if name[-size:] == suffix}


def _wrong_entries(disk: SimulatedDisk, stem: str, base: int, *, may_lack_indexes: bool) -> Iterator[str]:
    """P-49, of a segment to which nothing is appended any more: entries of its indexes that are not so in its batches.

    An entry has the last offset of a batch and its position; one of the time index the largest time of all batches up
    to one, and the last offset of the first that has it. A crash may leave a segment without indexes that compaction
    has put in place of others.
    """
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        if not may_lack_indexes and stem + suffix not in disk.files:
            yield f"{stem}{suffix} is not there"
    data = disk.read(stem + LOG_SUFFIX, 0, disk.size(stem + LOG_SUFFIX))
    positions: dict[int, int] = {}
    times: dict[int, int] = {}
    largest = -1
    for at, header in iterate_headers(data):
        positions[header.last_offset] = at
        if header.max_timestamp > largest:
            largest = times[header.last_offset] = header.max_timestamp
    for relative, position in _entries(disk, stem + INDEX_SUFFIX, ">ii"):
        if positions.get(base + relative) != position:
            yield f"{stem}{INDEX_SUFFIX} has a batch that ends with {base + relative} at {position}; it is not there"
    for timestamp, relative in _entries(disk, stem + TIME_INDEX_SUFFIX, ">qi"):
        if times.get(base + relative) != timestamp and timestamp >= 0:
            yield (
                f"{stem}{TIME_INDEX_SUFFIX} has {timestamp} ms for the largest time up to {base + relative}; by its "
                f"batches it grows at {times}"
            )


def _entries(disk: SimulatedDisk, name: str, layout: str) -> Iterator[tuple[int, int]]:
    entry = struct.Struct(layout)
    data = disk.read(name, 0, disk.size(name))
    yield from entry.iter_unpack(data[: len(data) - len(data) % entry.size])
