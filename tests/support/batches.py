"""Record batches that our own encoder does not make: compressed ones, and of transactions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from crc32c import crc32c

from broker.core.records import CHECKSUMMED_FROM, HEADER, HEADER_BYTES, MAGIC, PREFIX_BYTES, TRANSACTIONAL_FLAG


def batch_of(timestamps: Sequence[int], value: bytes = b"") -> bytes:
    """A plain batch at offset 0 with a record for each timestamp in milliseconds; the first is the base."""
    body = bytearray()
    for number, timestamp in enumerate(timestamps):
        record = (
            b"\0" + _varint(timestamp - timestamps[0]) + _varint(number) + b"\1" + _varint(len(value)) + value + b"\0"
        )
        body += _varint(len(record)) + record
    count = len(timestamps)
    fields = (0, 0, 0, MAGIC, 0, 0, count - 1, timestamps[0], max(timestamps), -1, -1, -1, count)
    return sealed(HEADER.pack(*fields) + bytes(body))


def _varint(number: int) -> bytes:
    number <<= 1  # zigzag of what is not negative
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def recompressed(batch: bytes, codec: int, compress: Callable[[bytes], bytes]) -> bytes:
    """A plain batch with its records compressed."""
    header = bytearray(batch[:HEADER_BYTES])
    header[22] |= codec
    return sealed(bytes(header) + compress(batch[HEADER_BYTES:]))


def transactional(batch: bytes) -> bytes:
    """A batch that claims to belong to a transaction."""
    changed = bytearray(batch)
    changed[22] |= TRANSACTIONAL_FLAG
    return sealed(bytes(changed))


def sealed(batch: bytes) -> bytes:
    """The batch with its length and checksum put right."""
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 8, len(batch) - PREFIX_BYTES)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[CHECKSUMMED_FROM:])))
    return bytes(changed)
