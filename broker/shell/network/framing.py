"""Splits a byte stream into Kafka's frames."""

from __future__ import annotations

from broker.shell.codec.errors import DecodeError

_LENGTH_BYTES = 4


class FrameBuffer:
    """Received bytes that are not yet returned as frames."""

    def __init__(self, size_max: int) -> None:
        """Reject frames of more than `size_max` bytes."""
        self._size_max = size_max
        self._buffer = bytearray()
        self._start = 0

    def __len__(self) -> int:
        return len(self._buffer) - self._start

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def take(self) -> bytes | None:
        """Return the next frame without its length, or None if it is incomplete.

        Raises `DecodeError` for an invalid length, before anything of that size is stored.
        """
        if len(self) < _LENGTH_BYTES:
            return None
        begin = self._start + _LENGTH_BYTES
        size = int.from_bytes(self._buffer[self._start : begin], signed=True)
        if not 0 <= size <= self._size_max:
            raise DecodeError(f"expected a frame of 0 to {self._size_max} bytes, found one of {size}")
        if len(self._buffer) < begin + size:
            return None
        frame = bytes(memoryview(self._buffer)[begin : begin + size])
        self._start = begin + size
        return frame
