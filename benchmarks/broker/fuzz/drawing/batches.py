"""Draws record batches: sound ones, contradictory ones, of transactions, of control, and compression bombs."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable
from functools import cache

import cramjam
from crc32c import crc32c

from broker.core.log.compression import CODECS

BOMB_BYTES = 1 << 28
"""What a bomb of records unfolds to, at most; the batch itself is below the largest that a broker accepts."""

_ACCEPTED_BYTES = 1_000_000
_PREFIX_BYTES = 12
_CHECKED_FROM = 21
_TRANSACTIONAL, _CONTROL, _LOG_APPEND_TIME = 0x10, 0x20, 0x08
_CHUNK = 1 << 20

BOMB_KINDS = ("zeros", "records")


def drawn(draw: random.Random) -> bytes:
    """The records of one partition in a produce request, of any kind but a bomb."""
    count = draw.choice((1, 1, 2, 10))
    body = b"".join(_record(number, draw) for number in range(count))
    fields = {"count": count, "last": count - 1, "attributes": 0}
    kind = draw.choice(("sound", "sound", "fields", "attributes", "crc", "cut", "two", "old", "records", "empty"))
    if kind == "fields":
        name = draw.choice(("count", "last", "base", "producer", "epoch", "sequence", "first", "max"))
        fields[name] = draw.choice((-1, -2, 0, 1, 7, 0x7FFF, 0x7FFFFFFF, -0x80000000))
        fields[name] = max(-0x8000, min(0x7FFF, fields[name])) if name == "epoch" else fields[name]
    elif kind == "attributes":
        choices = (_TRANSACTIONAL, _CONTROL, _TRANSACTIONAL | _CONTROL, _LOG_APPEND_TIME, 1, 2, 3, 4, 5, 7, 0x7F, -1)
        fields["attributes"] = draw.choice(choices)
    elif kind == "records":
        body = draw.choice((draw.randbytes(60), b"\x00" * 60, b"\xff" * 60, _record(0, draw, delta=1 << 66), body[:-3]))
    data = bytearray(batch(body, **fields))
    if kind == "crc":
        data[17 + draw.randrange(4)] ^= 0xFF
    elif kind == "cut":
        del data[draw.randrange(len(data)) :]
    elif kind == "two":
        data *= 2
    elif kind == "old":
        data[16] = draw.choice((0, 1, 3, 0x7F, 0xFF))
    return b"" if kind == "empty" else bytes(data)


@cache
def bomb(codec: int, kind: str) -> bytes:
    """A batch that unfolds to as much as fits: zeros, or tens of millions of smallest records.

    Many records, whose last is the only one of a late time, are what a search by time has to read to its end.
    """
    size = BOMB_BYTES if CODECS[codec] in ("gzip", "zstd") else _ACCEPTED_BYTES * (20 if codec == 2 else 240)
    record = b"\x0c\0\0\0\1\1\0"  # no key, no value
    unit = bytes(_CHUNK) if kind == "zeros" else record * (_CHUNK // len(record))
    while True:
        units = max(1, size // len(unit))
        compressed = _compressed(codec, unit, units)
        if len(compressed) <= _ACCEPTED_BYTES or units == 1:
            break
        size = size * _ACCEPTED_BYTES // len(compressed) * 9 // 10
    count = min(0x7FFFFFFF, units * (len(unit) // len(record)))
    return batch(compressed, count=count, last=count - 1, attributes=codec, first=1_000, max=2_000)


def batch(
    body: bytes,
    *,
    count: int,
    last: int,
    attributes: int = 0,
    base: int = 0,
    first: int = 1_000,
    max: int = 1_000,  # noqa: A002
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    """A batch of format 2 with a right checksum, whatever its fields say."""
    checked = struct.pack(">hiqqqhii", attributes, last, first, max, producer, epoch, sequence, count) + body
    length = _CHECKED_FROM - _PREFIX_BYTES + len(checked)
    return struct.pack(">qiibI", base, length, 0, 2, crc32c(checked)) + checked


def _record(number: int, draw: random.Random, delta: int | None = None) -> bytes:
    extreme = (1 << 62, -(1 << 63), 1 << 40)
    time_delta = draw.choice(extreme) if draw.random() < 0.1 else number if delta is None else delta
    offset_delta = draw.choice(extreme) if draw.random() < 0.05 else number
    inner = b"\0" + _zigzag(time_delta) + _zigzag(offset_delta) + _zigzag(-1) + _zigzag(4) + b"fuzz" + b"\0"
    return _zigzag(len(inner)) + inner


def _zigzag(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _compressed(codec: int, unit: bytes, units: int) -> bytes:
    """`units` times the same bytes."""
    name = CODECS[codec]
    if name == "gzip":  # whole members one after the other would be shorter to make, but unfold to one only
        return _streamed_gzip(unit, units)
    whole: dict[str, Callable[[bytes], object]] = {
        "snappy": cramjam.snappy.compress_raw,
        "lz4": cramjam.lz4.compress,
        "zstd": cramjam.zstd.compress,
    }
    if name == "zstd":
        frame = bytes(whole[name](unit * 64))  # type: ignore[arg-type]
        return frame * max(1, units // 64)
    return bytes(whole[name](unit * units))  # type: ignore[arg-type]


def _streamed_gzip(unit: bytes, units: int) -> bytes:
    from io import BytesIO

    out = BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6, mtime=0) as file:
        for _ in range(units):
            file.write(unit)
    return out.getvalue()
