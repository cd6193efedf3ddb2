"""Opens a log: trusts its files after a clean stop, otherwise reads it from the recovery point on (ST-6)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from broker.core.log.compaction.swapping import finish_swaps
from broker.core.log.epoch_cache import EpochCache
from broker.core.log.producer_state import ProducerStates, delete_snapshots_below
from broker.core.log.segments.indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from broker.core.log.segments.segment import LOG_SUFFIX, CorruptLog, Segment
from broker.core.ports.files import Files
from broker.core.records import CHECKSUMMED_FROM, CONTROL_FLAG, HEADER, HEADER_BYTES, MAGIC, PREFIX_BYTES

_CHUNK_BYTES = 1 << 20


class Recovery(NamedTuple):
    """Work done to open a log: bytes read and checked, bytes cut off, and why ("" if nothing was wrong).

    `indexed_segments`: how many segments that were rolled got new indexes.
    """

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    reason: str = ""
    indexed_segments: int = 0


class Opened(NamedTuple):
    """The parts of a log, ready for use, and the log start offset as it was given, or a later one in the files."""

    segments: list[Segment]
    epochs: EpochCache
    producers: ProducerStates
    recovery: Recovery
    start_offset: int


def open_parts(
    files: Files,
    directory: str,
    index_interval_bytes: int,
    start_offset: int,
    clean: bool,
    recovery_point: int,
) -> Opened:
    """Open or create the log of a directory. `recovery_point` is used only if the stop was not `clean`.

    A log that is damaged in spite of a clean stop is recovered from its start.
    """
    finish_swaps(files, directory)
    segments = _list_segments(files, directory, start_offset, index_interval_bytes)
    delete_snapshots_below(files, directory, segments[0].base_offset)
    if clean:
        try:
            return _open_clean(files, directory, segments)
        except CorruptLog:
            segments = _list_segments(files, directory, start_offset, index_interval_bytes)
            recovery_point = 0
    return _recover(files, directory, segments, start_offset, recovery_point)


def restore_producers(
    files: Files, directory: str, producers: ProducerStates, segments: Sequence[Segment], end_offset: int
) -> None:
    """Rebuild the producer state up to `end_offset` from the nearest snapshot and the batches after it."""
    snapshot = producers.roll_back(files, directory, end_offset)
    offset = 0 if snapshot is None else snapshot
    for segment in segments:
        for header in segment.headers(offset, end_offset):
            producers.update(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.base_offset,
                header.last_offset,
                header.is_control,
            )


def _list_segments(files: Files, directory: str, start_offset: int, index_interval_bytes: int) -> list[Segment]:
    names = files.list(directory)
    stems = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        if dot + suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and stem not in stems:
            files.delete(f"{directory}/{name}")
    bases = sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())
    if not bases:
        return [Segment.create(files, directory, start_offset, index_interval_bytes)]
    segments = [
        Segment.sealed(files, directory, base, end, index_interval_bytes)
        for base, end in zip(bases, bases[1:], strict=False)
    ]
    return [*segments, Segment(files, directory, bases[-1], index_interval_bytes)]


def _open_clean(files: Files, directory: str, segments: list[Segment]) -> Opened:
    segments[-1].open_tail()
    epochs = _load_epochs(files, directory, segments)
    if _has_lost_its_head(segments, epochs):
        raise CorruptLog(f"expected an earlier segment than {segments[0].name}", directory)
    if epochs is None:
        epochs = EpochCache(files, directory)
        epochs.replace(
            (header.leader_epoch, header.base_offset)
            for segment in segments
            for header in segment.headers(segment.base_offset, segment.end_offset)
        )
    producers = ProducerStates()
    restore_producers(files, directory, producers, segments, segments[-1].end_offset)
    return Opened(segments, epochs, producers, Recovery(), _start_offset(segments, epochs.entries))


def _recover(files: Files, directory: str, segments: list[Segment], start_offset: int, recovery_point: int) -> Opened:
    epochs = _load_epochs(files, directory, segments)
    if epochs is not None and _has_lost_its_head(segments, epochs):
        return _start_over(files, directory, segments, epochs)
    first = 0 if epochs is None else _first_untrusted(segments, recovery_point)
    scan_offset = segments[first].base_offset
    entries = [] if epochs is None else [entry for entry in epochs.entries if entry[1] < scan_offset]
    producers = ProducerStates()
    restore_producers(files, directory, producers, segments[:first], scan_offset)
    scanned = truncated = 0
    reason = ""
    kept = first
    for segment in segments[first:]:
        size = files.size(segment.name)
        if kept > first and segment.base_offset != segments[kept - 1].end_offset:
            reason = f"{segment.name}: expected offset {segments[kept - 1].end_offset} to come next"
            break
        if kept > first:
            producers.write_snapshot(files, directory, segment.base_offset)
        reason = _scan(files, segment, size, entries, producers)
        scanned += size
        kept += 1
        if reason:
            truncated += size - segment.size
            segment.truncate(segment.size)
            files.sync(segment.name)  # else a power failure may bring it back, below what is synced later (ST-6)
            break
    for segment in reversed(segments[kept:]):
        truncated += files.size(segment.name)
        segment.delete()
    del segments[kept:]
    names = files.list(directory)  # a power failure may have taken an index below the recovery point as well
    indexed = [one for at, one in enumerate(segments[:-1]) if at >= first or not one.has_indexes(names)]
    for segment in indexed:
        segment.write_indexes()
    if epochs is None:
        epochs = EpochCache(files, directory)
    start_offset = max(start_offset, _start_offset(segments, epochs.entries))
    remembered = epochs.epoch_at(start_offset)
    if remembered >= 0 and segments[-1].end_offset <= start_offset:  # UR-12: nothing is left, or all was deleted
        entries = [(remembered, start_offset)]
    epochs.replace(entries)
    recovery = Recovery(scanned, truncated, reason, len(indexed))
    return Opened(segments, epochs, producers, recovery, start_offset)


def _load_epochs(files: Files, directory: str, segments: Sequence[Segment]) -> EpochCache | None:
    """The epoch cache; None if it is unusable, or empty although there are records."""
    epochs = EpochCache.load(files, directory)
    if epochs is not None and not epochs.entries and any(files.size(segment.name) for segment in segments):
        return None
    return epochs


def _has_lost_its_head(segments: Sequence[Segment], epochs: EpochCache | None) -> bool:
    """Whether the epoch cache has entries below the first segment; entries are removed before segments are deleted."""
    return epochs is not None and bool(epochs.entries) and epochs.entries[0][1] < segments[0].base_offset


def _start_over(files: Files, directory: str, segments: list[Segment], epochs: EpochCache) -> Opened:
    """The first segment was lost but not a later one: the rest has no beginning, so drop it."""
    start_offset = epochs.entries[0][1]
    reason = f"{segments[0].name}: expected offset {start_offset} to come first"
    truncated = sum(files.size(segment.name) for segment in segments)
    empty = segments[0].emptied_at(start_offset)
    for segment in reversed(segments):
        segment.delete()
    epochs.replace(epochs.entries[:1])
    producers = ProducerStates()
    producers.roll_back(files, directory, -1)
    return Opened([empty], epochs, producers, Recovery(0, truncated, reason), start_offset)


def _start_offset(segments: Sequence[Segment], entries: Sequence[tuple[int, int]]) -> int:
    """The epoch cache is durable at once, the log-start checkpoint is not: the cache may be newer."""
    first_known = entries[0][1] if entries else 0
    return max(segments[0].base_offset, min(first_known, segments[-1].end_offset))


def _first_untrusted(segments: list[Segment], recovery_point: int) -> int:
    """The segment that contains the recovery point, or an earlier one that is not complete."""
    last = max(0, bisect_right([segment.base_offset for segment in segments], recovery_point) - 1)
    for index, segment in enumerate(segments[:last]):
        try:
            segment.load()
        except CorruptLog:
            return index
    return last


def _scan(files: Files, segment: Segment, size: int, entries: list[tuple[int, int]], producers: ProducerStates) -> str:
    """Read a segment and add its valid batches; returns what is wrong with the first invalid one, "" if none is."""
    segment.clear()
    expected_offset = segment.base_offset
    last_epoch = entries[-1][0] if entries else -1
    chunk = memoryview(b"")
    position = chunk_position = 0
    while position < size:
        at = position - chunk_position
        if at + HEADER_BYTES > len(chunk):
            chunk = memoryview(files.read(segment.name, position, _CHUNK_BYTES))
            chunk_position, at = position, 0
            if len(chunk) < HEADER_BYTES:
                return f"{segment.name}: torn batch header at position {position}"
        (
            base_offset,
            length,
            epoch,
            magic,
            checksum,
            attributes,
            delta,
            _,
            max_timestamp,
            producer,
            producer_epoch,
            sequence,
            _,
        ) = HEADER.unpack_from(chunk, at)
        batch_size = length + PREFIX_BYTES
        if magic != MAGIC or batch_size < HEADER_BYTES or delta < 0:
            return f"{segment.name}: no record batch at position {position}"
        if batch_size > size - position:
            return f"{segment.name}: torn batch at position {position}"
        if at + batch_size > len(chunk):
            chunk = memoryview(files.read(segment.name, position, max(_CHUNK_BYTES, batch_size)))
            chunk_position, at = position, 0
        if crc32c(chunk[at + CHECKSUMMED_FROM : at + batch_size]) != checksum:
            return f"{segment.name}: wrong checksum of the batch at position {position}"
        if base_offset != expected_offset or epoch < last_epoch:
            return (
                f"{segment.name}: expected offset {expected_offset} of epoch {last_epoch} or later"
                f" at position {position}, found offset {base_offset} of epoch {epoch}"
            )
        last_offset = base_offset + delta
        if epoch != last_epoch:
            entries.append((epoch, base_offset))
            last_epoch = epoch
        if producer >= 0:
            producers.update(
                producer, producer_epoch, sequence, base_offset, last_offset, bool(attributes & CONTROL_FLAG)
            )
        segment.add(last_offset, batch_size, max_timestamp)
        expected_offset = last_offset + 1
        position += batch_size
    return ""
