"""Writes requests by their schemas, with hostile values in places that a seed draws."""

from __future__ import annotations

import random
import struct

from benchmarks.broker.fuzz.drawing import batches
from benchmarks.broker.fuzz.drawing.schemas import Field, Schema, within
from benchmarks.broker.fuzz.drawing.values import Values

_REPEATED = (50, 500, 5_000, 30_000)
"""How often an element is repeated, if it is."""

_BYTES_MAX = 1 << 21
_STRUCTURE_NULL = b"\xff"


class Writer:
    """Writes one request. `hostility` is the probability (0 to 1) of something hostile in each place."""

    def __init__(
        self, draw: random.Random, hostility: float, only: int | None = None, *, of_quorum: bool = False
    ) -> None:
        """`only`: the number of the one hostile place. `of_quorum`: it has one topic with one partition."""
        self._draw = draw
        self._of_quorum = of_quorum
        self._values = Values(draw, hostility, only, of_quorum=of_quorum)

    @property
    def places(self) -> int:
        """In how many places what was written could have been hostile."""
        return self._values.places

    def frame(self, schema: Schema, version: int, correlation_id: int) -> bytes:
        """The frame with its length."""
        flexible = version >= schema.flexible_from
        client_id = self._draw.choice((b"\0\4fuzz", b"\xff\xff", b"\0\0"))
        head = struct.pack(">hhi", schema.api_key, version, correlation_id) + client_id
        if flexible:
            head += self._unknown_tags([]) if self._values.strange() else b"\0"
        body = head + self._structure(schema.fields, version, flexible)
        return struct.pack(">i", len(body)) + body

    def _structure(self, fields: tuple[Field, ...], version: int, flexible: bool) -> bytes:
        parts = []
        tagged = []
        for field in fields:
            if not within(version, field.versions):
                continue
            if flexible and within(version, field.tagged):
                if self._draw.random() < 0.5:
                    tagged.append((field.tag, self._value(field, version, flexible)))
            else:
                parts.append(self._value(field, version, flexible))
        if flexible:
            parts.append(self._unknown_tags(tagged) if self._values.strange() else _tags(tagged))
        return b"".join(parts)

    def _unknown_tags(self, tagged: list[tuple[int, bytes]]) -> bytes:
        """The tagged fields with some that nobody knows, one that is there twice, or one of a wrong size."""
        match self._draw.randrange(4):
            case 0:
                return _tags([*tagged, (self._draw.choice((2, 99, 1 << 20)), self._draw.randbytes(5))])
            case 1:
                return _tags([*tagged, *tagged, (0, b""), (0, b"")])
            case 2:
                return varint(len(tagged) + 1) + b"\x05" + varint(self._draw.choice((1 << 31, 1 << 20, 9)))
            case _:
                return varint(self._draw.choice((1 << 31, 1_000_000, 3)))

    def _value(self, field: Field, version: int, flexible: bool) -> bytes:
        may_be_null = within(version, field.nullable)
        if field.is_array:
            return self._array(field, version, flexible, may_be_null)
        if field.fields:
            if may_be_null and self._draw.random() < 0.3:
                return _STRUCTURE_NULL
            return (b"\1" if may_be_null else b"") + self._structure(field.fields, version, flexible)
        return self._scalar(field, flexible, may_be_null)

    def _scalar(self, field: Field, flexible: bool, may_be_null: bool) -> bytes:
        values = self._values
        null = values.strange() or (may_be_null and self._draw.random() < 0.3)
        match field.kind:
            case "string":
                if null:
                    return b"\0" if flexible else b"\xff\xff"
                text = values.text(field.name).encode()
                if values.strange():
                    text = self._draw.choice((b"\xff\xfe", b"\xc3", b"a" * 33_000))  # no UTF-8, or long
                return _sized(text, flexible, ">h", self._wrong_size())
            case "bytes":
                if null:
                    return b"\0" if flexible else b"\xff\xff\xff\xff"
                return _sized(values.opaque(), flexible, ">i", self._wrong_size())
            case "records":
                if null:
                    return b"\0" if flexible else b"\xff\xff\xff\xff"
                return _sized(batches.drawn(self._draw), flexible, ">i", self._wrong_size())
            case "uuid":
                return values.uuid()
            case "bool":
                return values.boolean()
            case "float64":
                return struct.pack(">d", self._draw.choice((0.0, -1.0, float("inf"), float("nan"))))
            case kind:
                return values.number(field.name, kind)

    def _wrong_size(self) -> int | None:
        """A size to write in place of the right one, seldom."""
        if not (self._values.strange() and self._draw.random() < 0.3):
            return None
        return self._draw.choice((-2, -(1 << 15), (1 << 15) - 1, 5, 1 << 20))

    def _array(self, field: Field, version: int, flexible: bool, may_be_null: bool) -> bytes:
        values = self._values
        if may_be_null and self._draw.random() < 0.2:
            return _count(-1, flexible)
        if values.strange():
            return _count(self._draw.choice((-1, -1, 0, -2, 1_000_000, (1 << 31) - 1)), flexible)
        single = field._replace(is_array=False, nullable=None)
        counts = (1,) if self._of_quorum else (0, 1, 1, 1, 2, 3)
        elements = [self._value(single, version, flexible) for _ in range(self._draw.choice(counts))]
        if elements and values.strange():
            times = self._draw.choice(_REPEATED)
            elements *= max(1, min(times, _BYTES_MAX // max(1, sum(map(len, elements)))))
        return _count(len(elements), flexible) + b"".join(elements)


def varint(value: int) -> bytes:
    """An unsigned number of variable length."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _count(count: int, flexible: bool) -> bytes:
    return varint((count + 1) % (1 << 32)) if flexible else struct.pack(">i", count)


def _sized(data: bytes, flexible: bool, form: str, wrong: int | None) -> bytes:
    size = len(data) if wrong is None else wrong
    if flexible:
        return varint((size + 1) % (1 << 32)) + data
    limit = 0x7FFF if form == ">h" else 0x7FFFFFFF
    return struct.pack(form, max(-limit - 1, min(size, limit))) + data


def _tags(tagged: list[tuple[int, bytes]]) -> bytes:
    return varint(len(tagged)) + b"".join(varint(tag) + varint(len(data)) + data for tag, data in tagged)
