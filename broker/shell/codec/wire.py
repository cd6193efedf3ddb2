"""Kafka's primitive types, for the hand-written codecs (Produce, Fetch, FetchSnapshot), and the error of all codecs.

Readers take the whole frame and a position and return the value and the position after it. A length that
points outside the frame raises `DecodeError`; a number cut short raises `IndexError` or `struct.error`,
which `guarded` turns into one.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager


class DecodeError(Exception):
    """The bytes are not a message of a served API; the connection's remaining bytes cannot be trusted."""


Parts = list[bytes]
"""A message in pieces, so that large records are copied only once, into the frame."""

ELEMENTS_MAX = 10_000
"""How many elements an array of a request may have, and tagged fields a structure: more would take too long."""

NO_TAGS = b"\x00"
ZERO_UUID = bytes(16)

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")

_MALFORMED: tuple[type[Exception], ...] = (
    struct.error,
    IndexError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    KeyError,
    OverflowError,
)


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Convert any error of a decoder into a `DecodeError` that names `what` was being read."""
    try:
        yield
    except DecodeError as error:
        raise DecodeError(f"{what} is malformed: {error}") from error
    except _MALFORMED as error:
        raise DecodeError(f"{what} is malformed ({type(error).__name__}: {error})") from error


def read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read up to five bytes, seven bits each, lowest first."""
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
    raise DecodeError("a variable-length number has more than five bytes")


def unsigned_varint(value: int) -> bytes:
    """Invert `read_unsigned_varint`."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _slice(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if size < 0 or end > len(data):
        raise DecodeError(f"a field of {size} bytes does not fit into the {len(data) - position} that are left")
    return data[position:end], end


def read_nullable_string(data: bytes, position: int, flexible: bool) -> tuple[str | None, int]:
    """Read a string or null."""
    if flexible:
        size, position = read_unsigned_varint(data, position)
        size -= 1
    else:
        size = INT16.unpack_from(data, position)[0]
        position += 2
    if size == -1:
        return None, position
    text, position = _slice(data, position, size)
    return text.decode(), position


def read_string(data: bytes, position: int, flexible: bool) -> tuple[str, int]:
    """Read a string that may not be null."""
    text, position = read_nullable_string(data, position, flexible)
    if text is None:
        raise DecodeError("a string is null that must not be")
    return text, position


def read_records(data: bytes, position: int, flexible: bool) -> tuple[bytes, int]:
    """Read record batches; null counts as empty."""
    if flexible:
        size, position = read_unsigned_varint(data, position)
        size -= 1
    else:
        size = INT32.unpack_from(data, position)[0]
        position += 4
    if size == -1:
        return b"", position
    return _slice(data, position, size)


def read_array_size(data: bytes, position: int, flexible: bool) -> tuple[int, int]:
    """Read the number of elements that follow; null counts as none."""
    if flexible:
        size, position = read_unsigned_varint(data, position)
        return max(size - 1, 0), position
    size = INT32.unpack_from(data, position)[0]
    if size < -1:
        raise DecodeError(f"an array of {size} elements")
    return max(size, 0), position + 4


def read_topic_id(data: bytes, position: int) -> tuple[str, int]:
    """Read a topic id as text, "" for the all-zero one, which means unknown."""
    raw, position = _slice(data, position, 16)
    return ("" if raw == ZERO_UUID else str(uuid.UUID(bytes=raw))), position


def read_tags(data: bytes, position: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Locate each tagged field: tag → (start, end). Unknown tags are ignored (KIP-482)."""
    count, position = read_unsigned_varint(data, position)
    if count > ELEMENTS_MAX:
        raise DecodeError(f"expected at most {ELEMENTS_MAX} tagged fields, found {count}")
    fields = {}
    for _ in range(count):
        tag, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        if position + size > len(data):
            raise DecodeError(f"tagged field {tag} of {size} bytes ends outside the frame")
        fields[tag] = (position, position + size)
        position += size
    return fields, position


def skip_tags(data: bytes, position: int) -> int:
    """Skip tagged fields."""
    if data[position] == 0:
        return position + 1
    return read_tags(data, position)[1]


def nullable_string(text: str | None, flexible: bool) -> bytes:
    """Invert `read_nullable_string`."""
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    raw = text.encode()
    return (unsigned_varint(len(raw) + 1) if flexible else INT16.pack(len(raw))) + raw


def records_size(records: bytes, flexible: bool) -> bytes:
    """Write the length that goes before record batches."""
    return unsigned_varint(len(records) + 1) if flexible else INT32.pack(len(records))


def array_size(count: int, flexible: bool) -> bytes:
    """Write the count that goes before an array's elements."""
    return unsigned_varint(count + 1) if flexible else INT32.pack(count)


def topic_id_bytes(topic_id: str) -> bytes:
    """Invert `read_topic_id`."""
    return uuid.UUID(topic_id).bytes if topic_id else ZERO_UUID


def tags(fields: list[tuple[int, bytes]]) -> bytes:
    """Write tagged fields, in ascending order of their tags."""
    out = [unsigned_varint(len(fields))]
    for tag, value in fields:
        out += (unsigned_varint(tag), unsigned_varint(len(value)), value)
    return b"".join(out)
