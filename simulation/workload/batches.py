"""Encodes the batches of simulated clients: numbers as values, one record each, compressed or not, with keys or not.

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

KEYS = (b"k", b"key", b"short" * 5, b"long" * 10 + b"a", b"long" * 10 + b"b")
"""The keys of a compacted topic: a cleaner may know short ones by themselves, and longer ones by a digest."""

_TOMBSTONE_EVERY, _HEADER_EVERY = 7, 3

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
    """A batch of values of eight bytes; if `keyed`, each has a key (`key_of`), some have a header, and some no value.

    If it is compressed or `keyed`, each record is a millisecond later than the one before, from `first_ms` on, and
    `padding_bytes` zeros follow the last value.
    """
    bodies = [value.to_bytes(8, "big") for value in values]
    if compression == "none" and not keyed:
        return encode_batch(((None, body) for body in bodies), 0, -1, first_ms, *producer)
    bodies[-1] += bytes(padding_bytes)
    if keyed:
        records = b"".join(_keyed_record(number, *one) for number, one in enumerate(zip(values, bodies, strict=True)))
    else:
        records = b"".join(_record(number, None, body) for number, body in enumerate(bodies))
    codec = CODECS.index(compression)
    packed = _packed(codec, records)
    last = len(values) - 1
    checked = _CHECKED.pack(codec, last, first_ms, first_ms + last, *producer, len(values)) + packed
    length = CHECKSUMMED_FROM - PREFIX_BYTES + len(checked)
    return struct.pack(">qiibI", 0, length, -1, MAGIC, crc32c(checked)) + checked


def key_of(value: int) -> bytes:
    """The key of a value; two that follow each other may have the same."""
    return KEYS[value // 2 % len(KEYS)]


def _keyed_record(number: int, value: int, body: bytes) -> bytes:
    headers = ((b"header", b"%d" % value),) if value % _HEADER_EVERY == 0 else ()
    return _record(number, key_of(value), None if value % _TOMBSTONE_EVERY == 0 else body, headers)


def _record(number: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
    """Record `number` of a batch, that many milliseconds after the first."""
    named = b"".join(_field(name) + _field(what) for name, what in headers)
    body = b"\0" + _signed(number) + _signed(number) + _field(key) + _field(value) + _signed(len(headers)) + named
    return _signed(len(body)) + body


def _field(data: bytes | None) -> bytes:
    return _signed(-1) if data is None else _signed(len(data)) + data


def _signed(number: int) -> bytes:
    return _unsigned((number << 1) ^ (number >> 63))


def _unsigned(number: int) -> bytes:
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*digits, number))


def _packed(codec: int, data: bytes) -> bytes:
    if codec == SNAPPY:
        return _snappy(data)
    return _gzip(data) if codec == GZIP else data


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
