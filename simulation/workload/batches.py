"""Encodes the batches of simulated clients: numbers as values, one record each, compressed or not.

Compression is written out here, byte by byte, so that a seed means the same under every version of a library: snappy
without any match, and gzip for batches that are to unfold to a lot, which only directed schedules send.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crc32c import crc32c

from broker.core.log.compression import CODECS
from broker.core.records import CHECKSUMMED_FROM, MAGIC, NO_PRODUCER, PREFIX_BYTES, encode_batch

COMPRESSIONS = ("none", "snappy")
"""What the producers of a simulation may use."""

KEYS = 5
"""How many keys there are in a compacted topic."""

SNAPPY, GZIP = CODECS.index("snappy"), CODECS.index("gzip")

_CHECKED = struct.Struct(">hiqqqhii")
_LITERAL_BYTES_MAX = 60
_GZIP_WBITS = 31


class Producer(NamedTuple):
    """The idempotent producer of a batch, and the sequence number of its first record."""

    producer_id: int = NO_PRODUCER
    epoch: int = -1
    sequence: int = -1


def encode_values(
    values: Sequence[int],
    producer: Producer,
    *,
    compression: str = "none",
    first_ms: int = 0,
    padding_bytes: int = 0,
    keyed: bool = False,
) -> bytes:
    """A batch of values of eight bytes; if `keyed`, and not compressed, each has one of a few keys.

    If it is compressed, each record is a millisecond later than the one before, from `first_ms` on, and `padding_bytes`
    zeros follow the last value.
    """
    bodies = [value.to_bytes(8, "big") for value in values]
    if compression == "none":
        keys = (bytes((value % KEYS,)) if keyed else None for value in values)
        return encode_batch(zip(keys, bodies, strict=True), 0, -1, first_ms, *producer)
    bodies[-1] += bytes(padding_bytes)
    records = b"".join(_record(number, body) for number, body in enumerate(bodies))
    codec = CODECS.index(compression)
    packed = _snappy(records) if codec == SNAPPY else _gzip(records)
    last = len(values) - 1
    checked = _CHECKED.pack(codec, last, first_ms, first_ms + last, *producer, len(values)) + packed
    length = CHECKSUMMED_FROM - PREFIX_BYTES + len(checked)
    return struct.pack(">qiibI", 0, length, -1, MAGIC, crc32c(checked)) + checked


def _record(number: int, value: bytes) -> bytes:
    """Record `number` of a batch, that many milliseconds after the first; without key and headers."""
    body = b"\0" + _signed(number) + _signed(number) + _signed(-1) + _signed(len(value)) + value + _signed(0)
    return _signed(len(body)) + body


def _signed(number: int) -> bytes:
    return _unsigned((number << 1) ^ (number >> 63))


def _unsigned(number: int) -> bytes:
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*digits, number))


def _snappy(data: bytes) -> bytes:
    """A snappy block of literals only."""
    return _unsigned(len(data)) + b"".join(_literals(data))


def _literals(data: bytes) -> Iterable[bytes]:
    for at in range(0, len(data), _LITERAL_BYTES_MAX):
        piece = data[at : at + _LITERAL_BYTES_MAX]
        yield bytes(((len(piece) - 1) << 2,)) + piece


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP_WBITS)
    return packer.compress(data) + packer.flush()
