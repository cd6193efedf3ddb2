"""Encodes the values of records: a number unique in the run, a checksum, and an optional body.

A value consists of 8 bytes, the number (big-endian), 4 bytes, the CRC-32C of everything else in it, and the body,
which most workloads leave empty. Kafka's own checksum covers the batch in transit; this one also detects a broker that
stores and serves wrong bytes under a checksum that it computed itself.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from history.processes import NUMBERS_PER_WORKER

VALUES_PER_WORKER: Final = NUMBERS_PER_WORKER
"""Worker w owns the values from w * 2^40; a thousand a second would take it 34 years."""
WORKERS_MAX: Final = 1 << 23
"""Beyond this number of workers the values would not fit into the history's signed 64 bits."""

_NUMBER: Final = struct.Struct(">q")
_VALUE: Final = struct.Struct(">qI")


def encode_value(number: int, body: bytes = b"") -> bytes:
    """Encode a number between 0 and 2^63 - 1 and a body."""
    return _VALUE.pack(number, crc32c(body, crc32c(_NUMBER.pack(number)))) + body


def decode_value(payload: bytes | None) -> int | None:
    """Decode the number of a payload; None if the payload is not one of ours."""
    if payload is None or len(payload) < _VALUE.size:
        return None
    number, checksum = _VALUE.unpack_from(payload)
    if number < 0 or checksum != crc32c(body_of(payload), crc32c(payload[: _NUMBER.size])):
        return None
    return int(number)


def body_of(payload: bytes) -> bytes:
    """Return the body of a payload; only valid for one that `decode_value` accepts."""
    return payload[_VALUE.size :]


class ValueSource:
    """Generates the values of one worker: unique in the run and increasing. Not thread-safe."""

    def __init__(self, worker: int, skipped: int = 0) -> None:
        """Generate the values of a worker, without the first `skipped`: those belong to another source."""
        if not 0 <= worker < WORKERS_MAX:
            raise ValueError(f"worker number must be between 0 and {WORKERS_MAX - 1}, found {worker}")
        self._next = worker * VALUES_PER_WORKER + skipped

    def take(self, count: int) -> range:
        """Take the next `count` values."""
        taken = range(self._next, self._next + count)
        self._next += count
        return taken
