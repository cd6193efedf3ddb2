"""What the records of a run carry: a number that says who wrote it, and proof that it arrived whole.

A value is 8 bytes, the number big-endian, 4 bytes, the CRC-32C of everything else in it, and whatever the workload
has to say besides, which for most is nothing. Kafka's own checksum covers the batch on its way; this one survives
a broker that stores and serves the wrong bytes under a checksum of its own making.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

VALUES_PER_WORKER: Final = 1 << 40
"""Worker w owns the values from w * 2^40; a thousand a second would take it 34 years."""
WORKERS_MAX: Final = 1 << 23
"""Beyond this number of workers the values would not fit into the history's signed 64 bits."""

_NUMBER: Final = struct.Struct(">q")
_VALUE: Final = struct.Struct(">qI")


def encode_value(number: int, body: bytes = b"") -> bytes:
    """Give the payload for a number between 0 and 2^63 - 1, and what else the record is to say."""
    return _VALUE.pack(number, crc32c(body, crc32c(_NUMBER.pack(number)))) + body


def decode_value(payload: bytes | None) -> int | None:
    """Give the number that a payload carries, or None if the payload is not one of ours."""
    if payload is None or len(payload) < _VALUE.size:
        return None
    number, checksum = _VALUE.unpack_from(payload)
    if number < 0 or checksum != crc32c(body_of(payload), crc32c(payload[: _NUMBER.size])):
        return None
    return int(number)


def body_of(payload: bytes) -> bytes:
    """Give what a payload says besides its number; only of one that `decode_value` knows as ours."""
    return payload[_VALUE.size :]


class ValueSource:
    """The values of one worker: unique in the run, increasing, never given twice. Not for several threads."""

    def __init__(self, worker: int, skipped: int = 0) -> None:
        """Give the values of a worker, but for the first so many: those are another source's."""
        if not 0 <= worker < WORKERS_MAX:
            raise ValueError(f"worker number must be between 0 and {WORKERS_MAX - 1}, found {worker}")
        self._next = worker * VALUES_PER_WORKER + skipped

    def take(self, count: int) -> range:
        """Take the next `count` values."""
        taken = range(self._next, self._next + count)
        self._next += count
        return taken
