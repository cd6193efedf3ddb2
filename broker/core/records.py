"""Record batches of format 2 (KIP-98), the unit of produce requests, logs and fetch responses.

```
 0 base offset       i64 ┐ outside the checksum: the log rewrites
 8 length            i32 │ base offset and leader epoch in place
12 leader epoch      i32 │
16 magic = 2         i8  │
17 crc               u32 ┘
21 attributes        i16 ┐ checksummed (CRC-32C) up to the end of the batch
23 last offset delta i32 │
27 base timestamp    i64 │
35 max timestamp     i64 │
43 producer id       i64 │
51 producer epoch    i16 │
53 base sequence     i32 │
57 records count     i32 │
61 records               ┘
```

Offsets and sizes in bytes, timestamps in milliseconds. For any input, nothing here raises but `MalformedBatch`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from broker.core.log.compression import DECOMPRESSED_BYTES_MAX, CompressionError, UnknownCodec, decompress

HEADER_BYTES = 61
PREFIX_BYTES = 12
"""Base offset and length, which the length does not count."""
CHECKSUMMED_FROM = 21
MAGIC = 2

NO_PRODUCER = -1

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40
"""The base timestamp is the time from which on compaction may remove the batch's tombstones (KIP-534)."""

Buffer = bytes | bytearray | memoryview

HEADER = struct.Struct(">qiibIhiqqqhii")
"""The header's fields as in the picture above."""

_UNCHECKED = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhii")
_PREFIX = struct.Struct(">qii")
_EPOCH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")


class MalformedBatch(Exception):
    """Bytes that are not a record batch of format 2; the message says where and why."""


class UnsupportedCompression(MalformedBatch):
    """The records are compressed with a codec whose library this broker does not have."""


class BatchHeader(NamedTuple):
    """A batch's header without its records. `size` counts all of its bytes."""

    base_offset: int
    size: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record (inclusive)."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Producer sequence number of the last record; numbers wrap from 2^31 - 1 to 0."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def is_control(self) -> bool:
        """Whether it holds control records (leader change, transaction markers) and not a client's records."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the tombstones of the batch may go; None while no compaction has set it (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def is_filler(self) -> bool:
        """Whether it only stands for offsets whose records compaction has removed."""
        return not self.records_count and self.producer_id < 0

    @property
    def has_log_append_time(self) -> bool:
        """Whether all its records carry `max_timestamp`, set by the broker."""
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def codec(self) -> int:
        """Number of the compression codec, see `CODECS`."""
        return self.attributes & COMPRESSION_MASK


class Record(NamedTuple):
    """One record, with its absolute offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Header of the batch at `position`. The batch itself may reach beyond the end of the buffer."""
    if len(buffer) - position < HEADER_BYTES:
        raise MalformedBatch(
            f"expected a batch header of {HEADER_BYTES} bytes at {position}, found {len(buffer) - position}"
        )
    (
        base_offset,
        length,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    ) = HEADER.unpack_from(buffer, position)
    if magic != MAGIC or length < HEADER_BYTES - PREFIX_BYTES or base_offset < 0 or last_offset_delta < 0:
        raise MalformedBatch(
            f"expected a batch of format {MAGIC} at {position}, found format {magic}, length {length},"
            f" base offset {base_offset}, last offset delta {last_offset_delta}"
        )
    return BatchHeader(
        base_offset,
        length + PREFIX_BYTES,
        leader_epoch,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    )


def base_offset_of(records: Buffer) -> int:
    """The offset that the first batch claims to begin at; the buffer must hold a header."""
    offset: int = _OFFSET.unpack_from(records)[0]
    return offset


def iterate_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch from `position` on; an incomplete last one is skipped."""
    end = len(buffer)
    while end - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        if header.size > end - position:
            return
        yield position, header
        position += header.size


def end_without_records(buffer: Buffer) -> int | None:
    """The offset after these batches if none of them holds a record; None if one does, or there is none to read."""
    end = None
    try:
        for _, header in iterate_headers(buffer):
            if header.records_count:
                return None
            end = header.last_offset + 1
    except MalformedBatch:
        return None
    return end


def check_crc(buffer: Buffer, position: int, size: int) -> bool:
    """Whether the checksum of the batch of `size` bytes at `position` is right."""
    expected: int = _UNCHECKED.unpack_from(buffer, position)[4]
    return bool(crc32c(memoryview(buffer)[position + CHECKSUMMED_FROM : position + size]) == expected)


def stamp(buffer: bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch of a batch in place; the checksum does not cover them."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + PREFIX_BYTES, leader_epoch)


def stamped(records: Buffer, base_offset: int, leader_epoch: int) -> bytes:
    """Copy of a single batch with another base offset and leader epoch."""
    view = memoryview(records)
    return b"".join((_PREFIX.pack(base_offset, len(view) - PREFIX_BYTES, leader_epoch), view[16:]))


def headers_of(records: Buffer) -> list[BatchHeader]:
    """Headers of one or more batches, which must be whole."""
    headers = [header for _, header in iterate_headers(records)]
    size = sum(header.size for header in headers)
    if not headers or size != len(records):
        raise MalformedBatch(f"expected whole batches in {len(records)} bytes, found {len(headers)} of {size} bytes")
    return headers


def stamped_all(records: Buffer, headers: Iterable[BatchHeader], base_offset: int, leader_epoch: int) -> bytes:
    """Copy of batches with consecutive offsets from `base_offset` and another leader epoch."""
    data = bytearray(records)
    position = 0
    for header in headers:
        stamp(data, position, base_offset, leader_epoch)
        position += header.size
        base_offset += header.last_offset_delta + 1
    return bytes(data)


# --- records ---------------------------------------------------------------------------------------------------------


def encode_batch(
    records: Iterable[tuple[bytes | None, bytes | None]],
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    control: bool = False,
) -> bytes:
    """One uncompressed batch of (key, value) pairs, all with the same timestamp. It needs at least one record."""
    body = bytearray()
    count = 0
    for key, value in records:
        record = b"".join((b"\0\0", varint(count), _field(key), _field(value), b"\0"))
        body += varint(len(record))
        body += record
        count += 1
    if not count:
        raise ValueError("expected at least one record for a batch, found none")
    attributes = CONTROL_FLAG if control else 0
    times = (timestamp_ms, timestamp_ms)
    fields = (attributes, count - 1, *times, producer_id, producer_epoch, base_sequence, count)
    return _sealed(base_offset, leader_epoch, _CHECKED.pack(*fields) + body)


def filler(base_offset: int, last_offset: int, leader_epoch: int) -> bytes:
    """A batch without records in place of all from `base_offset` to `last_offset` (inclusive)."""
    checked = _CHECKED.pack(0, last_offset - base_offset, -1, -1, NO_PRODUCER, -1, -1, 0)
    return _sealed(base_offset, leader_epoch, checked)


def with_records(header: BatchHeader, body: bytes) -> bytes:
    """A batch of this header, whose size and checksum are computed, and of records as they are stored."""
    fields = (header.attributes, header.last_offset_delta, header.base_timestamp, header.max_timestamp)
    producer = (header.producer_id, header.producer_epoch, header.base_sequence, header.records_count)
    return _sealed(header.base_offset, header.leader_epoch, _CHECKED.pack(*fields, *producer) + body)


def _sealed(base_offset: int, leader_epoch: int, checked: bytes) -> bytes:
    length = CHECKSUMMED_FROM - PREFIX_BYTES + len(checked)
    return _UNCHECKED.pack(base_offset, length, leader_epoch, MAGIC, crc32c(checked)) + checked


def decode_records(
    batch: Buffer, position: int = 0, unfolded_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """Records of the batch at `position`, whose checksum the caller has checked. Record headers are skipped.

    A compressed batch that unfolds to more than `unfolded_bytes_max` counts as malformed.
    """
    header = read_header(batch, position)
    return decode_unfolded(_unfolded(batch, position, header, unfolded_bytes_max), header)


def unfolded(batch: Buffer, position: int = 0, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The uncompressed records of the batch at `position`, after its header. Raises `MalformedBatch`."""
    return _unfolded(batch, position, read_header(batch, position), bytes_max)


def _unfolded(batch: Buffer, position: int, header: BatchHeader, bytes_max: int) -> bytes:
    if header.size > len(batch) - position:
        raise MalformedBatch(f"expected a batch of {header.size} bytes at {position}, found {len(batch) - position}")
    return uncompressed(batch[position + HEADER_BYTES : position + header.size], header, bytes_max)


def decode_unfolded(body: bytes, header: BatchHeader) -> Iterator[Record]:
    """The records of a batch by its header and what `unfolded` returns."""
    at = 0
    for _ in range(header.records_count):
        try:
            length, at = read_varint(body, at)
            end = at + length
            timestamp_delta, at = read_varint(body, at + 1)
            offset_delta, at = read_varint(body, at)
            key, at = _read_field(body, at)
            value, at = _read_field(body, at)
        except IndexError:
            raise MalformedBatch(f"expected a record at byte {at} of the records, found their end") from None
        if length < 0 or not at <= end <= len(body):
            raise MalformedBatch(f"expected a record up to byte {end} of the records, found one up to byte {at}")
        timestamp = header.max_timestamp if header.has_log_append_time else header.base_timestamp + timestamp_delta
        yield Record(header.base_offset + offset_delta, timestamp, key, value)
        at = end


def uncompressed(body: Buffer, header: BatchHeader, unfolded_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The records of a batch as its codec gives them back. Raises `MalformedBatch`."""
    if not header.codec:
        return bytes(body)
    try:
        return decompress(header.codec, bytes(body), unfolded_bytes_max)
    except CompressionError as error:
        malformed = UnsupportedCompression if isinstance(error, UnknownCodec) else MalformedBatch
        raise malformed(str(error)) from None


def _zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL_VARINTS = tuple(_zigzag(number) for number in range(1024))


def varint(number: int) -> bytes:
    """A signed number in as few bytes as it takes."""
    return _SMALL_VARINTS[number] if 0 <= number < 1024 else _zigzag(number)


def _field(data: bytes | None) -> bytes:
    return b"\1" if data is None else varint(len(data)) + data


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The signed number at `at` and where it ends. Raises `IndexError` at the end of the data, `MalformedBatch`."""
    shift = number = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise MalformedBatch(f"expected a number of at most ten bytes before byte {at}, found a longer one")


def _read_field(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:
        return None, at
    if length > len(data) - at:
        raise MalformedBatch(f"expected a field of {length} bytes at byte {at}, found {len(data) - at}")
    return data[at : at + length], at + length
