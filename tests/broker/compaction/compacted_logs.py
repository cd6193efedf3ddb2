"""Logs with keys for the tests of compaction, and what a reader must still find in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.core.configuration.settings import UNLIMITED
from broker.core.log.compaction.cleaning import Cleaning, Progress
from broker.core.log.compaction.policy import Compaction
from broker.core.log.log import Log, LogConfig
from broker.core.records import Record, decode_records, encode_batch, iterate_headers
from tests.support.memory_files import MemoryFiles

DELETE_RETENTION_MS = 1000
COMPACTION = Compaction(0.0, 0, UNLIMITED, DELETE_RETENTION_MS)
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, compaction=COMPACTION)


class Written(NamedTuple):
    """A record as it was appended, and when a compaction first met it as a tombstone."""

    key: bytes
    value: bytes | None


def batch(*records: tuple[bytes | None, bytes | None], producer: int = -1, sequence: int = -1, at_ms: int = 0) -> bytes:
    return encode_batch(records, 0, 0, at_ms, producer, 0 if producer >= 0 else -1, sequence)


def records_of(log: Log) -> dict[int, Record]:
    """All records of a log by offset; its batches must follow one another without a gap."""
    found = {}
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 300, log.end_offset)
        assert data, f"nothing at {offset} of a log up to {log.end_offset}"
        for position, header in iterate_headers(data):
            assert header.base_offset == offset or header.base_offset <= offset == log.start_offset
            offset = header.last_offset + 1
            for record in decode_records(data, position):
                if record.offset >= log.start_offset:
                    found[record.offset] = record
    return found


def compact(
    files: MemoryFiles,
    log: Log,
    bound: int | None = None,
    now_ms: int = 0,
    keys_max: int = 1000,
    between: Callable[[], None] = lambda: None,
) -> Progress:
    """Compact a log to the end; `between` is called before each step."""
    segments = log.closed_segments(log.flushed_offset if bound is None else bound)
    if not segments:
        return Progress.DONE
    cleaning = Cleaning(files, log, segments, now_ms, keys_max)
    progress = Progress.MORE
    while progress in (Progress.MORE, Progress.SYNC):
        between()
        if progress is Progress.SYNC:
            files.sync(cleaning.unsynced)
            progress = cleaning.synced()
        else:
            progress = cleaning.step()
    return progress


def last_values(written: Mapping[int, Written]) -> dict[bytes, bytes]:
    """What a reader of everything ends up with: the last value of each key that is not deleted."""
    values: dict[bytes, bytes] = {}
    for _, (key, value) in sorted(written.items()):
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    return values


def check(log: Log, written: Mapping[int, Written], bound: int) -> None:
    """A log holds of what was written what it must: only replaced records and old tombstones below `bound` are gone.

    A log that ends before `bound` may also lack what is replaced after its end.
    """
    found = records_of(log)
    last: dict[bytes, int] = {}
    for offset, (key, _) in sorted(written.items()):
        if offset < bound:
            last[key] = offset
    for offset, (key, value) in written.items():
        if not log.start_offset <= offset < log.end_offset:
            continue
        if offset in found:
            assert (found[offset].key, found[offset].value) == (key, value)
            continue
        assert offset < bound, f"{offset} is gone, and only what is below {bound} may be compacted"
        assert last[key] > offset or value is None, f"the last record of {key!r} at {offset} is gone"
    assert found.keys() <= written.keys()
    if log.end_offset >= bound:
        kept = {offset: Written(one.key or b"", one.value) for offset, one in found.items()}
        all_of_it = {at: one for at, one in written.items() if log.start_offset <= at < log.end_offset}
        assert last_values(kept) == last_values(all_of_it)
