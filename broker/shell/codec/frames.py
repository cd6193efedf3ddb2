"""Kafka's frames: int32 length, header, body; cuts a byte stream into them.

A request's header has api key, version, correlation id, client id, and tagged fields in flexible
versions. A response's has the correlation id, and tagged fields in flexible versions, but never for
ApiVersions, whose reader cannot know the version yet (KIP-511).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from broker.core.messages import AnyRequest, AnyResponse
from broker.shell.codec import wire
from broker.shell.codec.base import Codec
from broker.shell.codec.validation import check_request
from broker.shell.codec.wire import INT32, NO_TAGS, DecodeError, Parts, guarded

_HEAD = struct.Struct(">hhi")  # api key, api version, correlation id
_CLIENT_ID_AT = _HEAD.size


class RequestHeader(NamedTuple):
    """The part of a request that every API shares."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str


def read_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """Read the header of a request without its tagged fields, which only the API's codec expects."""
    with guarded("a request header"):
        api_key, api_version, correlation_id = _HEAD.unpack_from(frame)
        # The client id has the non-compact string type in all versions, so that any broker can read it.
        client_id, position = wire.read_nullable_string(frame, _CLIENT_ID_AT, flexible=False)
    return RequestHeader(api_key, api_version, correlation_id, client_id or ""), position


def read_request(
    codec: Codec[AnyRequest, AnyResponse], header: RequestHeader, frame: bytes, position: int
) -> AnyRequest:
    """Read the body of a request; `position` is the one after the client id."""
    version = header.api_version
    if not codec.serves(version):
        low, high = codec.versions
        raise DecodeError(f"{codec.name} version {version} is not served, only {low} to {high}")
    if len(frame) > codec.request_bytes_max:
        found = f"found one of {len(frame)}"
        raise DecodeError(f"expected a {codec.name} request of at most {codec.request_bytes_max} bytes, {found}")
    with guarded(f"a {codec.name} request of version {version}"):
        if codec.flexible(version):
            position = wire.skip_tags(frame, position)
        request = codec.decode_request(frame, position, version)
        check_request(request)
        return request


def request_frame(
    codec: Codec[AnyRequest, AnyResponse],
    version: int,
    correlation_id: int,
    client_id: str,
    request: AnyRequest,
) -> bytes:
    """Write a request to another node."""
    head = _HEAD.pack(codec.api_key, version, correlation_id) + wire.nullable_string(client_id, flexible=False)
    tail = NO_TAGS if codec.flexible(version) else b""
    return _framed(head + tail, codec.encode_request(request, version))


def response_frame(
    codec: Codec[AnyRequest, AnyResponse], version: int, correlation_id: int, response: AnyResponse
) -> bytes:
    """Encode the response to a request of that version."""
    head = INT32.pack(correlation_id)
    tail = NO_TAGS if codec.flexible(version) else b""
    return _framed(head + tail, codec.encode_response(response, version))


def read_response(
    codec: Codec[AnyRequest, AnyResponse],
    version: int,
    correlation_id: int,
    frame: bytes,
    request: AnyRequest,
) -> AnyResponse:
    """Decode the response to a request that was sent with `correlation_id`."""
    with guarded(f"a {codec.name} response of version {version}"):
        (found,) = INT32.unpack_from(frame)
        if found != correlation_id:
            raise DecodeError(f"expected the response to request {correlation_id}, found the one to {found}")
        position = wire.skip_tags(frame, 4) if codec.flexible(version) else 4
        response = codec.decode_response(frame, position, version)
    return response if codec.name_topics is None else codec.name_topics(response, request)


def _framed(head: bytes, body: Parts) -> bytes:
    size = len(head) + sum(map(len, body))
    return b"".join((INT32.pack(size), head, *body))


def raw_response_frame(correlation_id: int, body: Parts) -> bytes:
    """Write a response whose header has no tagged fields, whatever its body has (ApiVersions)."""
    return _framed(INT32.pack(correlation_id), body)


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

    def clear(self) -> None:
        """Forget all bytes."""
        self._buffer, self._start = bytearray(), 0

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
        if self._start == len(self._buffer):  # an idle connection should not hold the memory of its largest frame
            self.clear()
        return frame
