"""Rewrites single batches without the records that compaction removes; offsets, epochs and producers stay.

A tombstone (a record without value) removes its key for good once readers have had `delete.retention.ms` to see it. The
compaction that first meets it writes the time from which on it may go into the batch (KIP-534): as base timestamp, to
which the timestamps of the batch's records are relative, with a flag among the attributes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from broker.core.log.compression import compress
from broker.core.records import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    BatchHeader,
    MalformedBatch,
    check_crc,
    read_varint,
    unfolded,
    varint,
    with_records,
)

RECORDS_MAX = 100_000
"""Larger batches are refused in a compacted topic, and kept as they are where there is one: reading takes too long."""

_KEY_BYTES = 32
_NO_TIMESTAMP = -1


class StoredRecord(NamedTuple):
    """A record as it is stored; `data` has the bytes from its attributes on, `rest` those after its timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    is_tombstone: bool
    data: bytes
    rest: bytes


class Limits(NamedTuple):
    """What a compaction knows: the last offset of each key between the start of its uncompacted part and `end`.

    `now_ms` is the time of day; tombstones go `delete_retention_ms` after a compaction has first met them, but not
    if `tombstones_stay`.
    """

    latest: Mapping[bytes, int]
    end: int
    now_ms: int
    delete_retention_ms: int
    tombstones_stay: bool = False


def fingerprint(key: bytes) -> bytes:
    """A short key itself, or the digest of a longer one: so much memory takes a key."""
    return key if len(key) < _KEY_BYTES else hashlib.blake2b(key, digest_size=_KEY_BYTES).digest()


def stored_records(batch: bytes, header: BatchHeader) -> list[StoredRecord]:
    """The records of a whole batch. Raises `MalformedBatch`, also for offsets that do not ascend within the batch."""
    if not check_crc(batch, 0, header.size):
        raise MalformedBatch("expected a sound batch, found a wrong checksum")
    if header.records_count > RECORDS_MAX:
        raise MalformedBatch(f"expected at most {RECORDS_MAX} records, found {header.records_count}")
    body = unfolded(batch)
    records = []
    at = 0
    offset_before = -1
    for _ in range(header.records_count):
        try:
            length, start = read_varint(body, at)
            at = start + length
            delta_ms, rest = read_varint(body, start + 1)
            offset, key_at = read_varint(body, rest)
            key, value_at = _field(body, key_at)
            value_bytes, end = read_varint(body, value_at)
        except IndexError:
            raise MalformedBatch(f"expected a record at byte {at} of the records, found their end") from None
        if length < 0 or not end + max(value_bytes, 0) <= at <= len(body):
            raise MalformedBatch(f"expected a record up to byte {at} of the records, found another length")
        if not offset_before < offset <= header.last_offset_delta:
            raise MalformedBatch(f"expected offset {offset_before + 1} or a later one in a batch, found {offset}")
        offset_before = offset
        timestamp = header.max_timestamp if header.has_log_append_time else header.base_timestamp + delta_ms
        records.append(
            StoredRecord(header.base_offset + offset, timestamp, key, value_bytes < 0, body[start:at], body[rest:at])
        )
    if at != len(body):
        raise MalformedBatch(f"expected the end of the records at byte {at}, found {len(body) - at} bytes more")
    return records


def without_keys(batch: bytes, header: BatchHeader) -> tuple[int, ...] | None:
    """The records without a key, by their place in a producer's batch; None if the records cannot be read."""
    try:
        records = stored_records(batch, header)
    except MalformedBatch:
        return None
    if any(record.offset != header.base_offset + place for place, record in enumerate(records)):
        return None
    return tuple(place for place, record in enumerate(records) if record.key is None)


def latest_in(batch: bytes, header: BatchHeader) -> Iterator[tuple[bytes, int]]:
    """Key (as `fingerprint`) and offset of each record with a key; nothing of a batch that cannot be read."""
    if header.is_control:
        return
    try:
        records = stored_records(batch, header)
    except MalformedBatch:
        return
    for record in records:
        if record.key is not None:
            yield fingerprint(record.key), record.offset


def without_obsolete(batch: bytes, header: BatchHeader, limits: Limits) -> bytes | None:
    """The batch without the records that a later one of the same key replaces, and without tombstones that may go.

    None if no record is left. Records without a key stay. Raises `MalformedBatch` if the records cannot be read.
    """
    if header.is_control or header.base_offset >= limits.end:
        return batch
    records = stored_records(batch, header)
    kept = [record for record in records if not _is_obsolete(record, header, limits)]
    if not kept:
        return None
    marks = header.delete_horizon_ms is None and any(one.is_tombstone and one.key is not None for one in kept)
    if len(kept) == len(records) and not marks:
        return batch
    return _rewritten(header, kept, limits.now_ms + limits.delete_retention_ms if marks else None)


def emptied(header: BatchHeader) -> bytes:
    """The batch without any record, but with its producer's sequence numbers."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
    return with_records(
        header._replace(
            attributes=attributes, base_timestamp=_NO_TIMESTAMP, max_timestamp=_NO_TIMESTAMP, records_count=0
        ),
        b"",
    )


def _is_obsolete(record: StoredRecord, header: BatchHeader, limits: Limits) -> bool:
    if record.key is None:
        return False
    if limits.latest.get(fingerprint(record.key), -1) > record.offset:
        return True
    if not record.is_tombstone or limits.tombstones_stay:
        return False
    horizon_ms = header.delete_horizon_ms
    return horizon_ms is not None and horizon_ms <= limits.now_ms


def _rewritten(header: BatchHeader, records: Iterable[StoredRecord], horizon_ms: int | None) -> bytes:
    """The batch with these of its records; with a horizon, their timestamps become relative to it."""
    body = bytearray()
    count = 0
    max_timestamp = _NO_TIMESTAMP
    for record in records:
        data = record.data
        if horizon_ms is not None:
            data = data[:1] + varint(record.timestamp - horizon_ms) + record.rest
        body += varint(len(data))
        body += data
        count += 1
        max_timestamp = max(max_timestamp, record.timestamp)
    header = header._replace(records_count=count, max_timestamp=max_timestamp)
    if horizon_ms is not None:
        header = header._replace(attributes=header.attributes | DELETE_HORIZON_FLAG, base_timestamp=horizon_ms)
    return with_records(header, compress(header.codec, bytes(body)))


def _field(body: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(body, at)
    if size < 0:
        return None, at
    return body[at : at + size], at + size
