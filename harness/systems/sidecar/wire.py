"""One connection to one broker, with kafka-python's messages: no bootstrap, no retries, no other broker."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from common.security import PLAIN_TEXT, Security, SecurityError
from harness.systems.sidecar.secured import encrypted, log_in

Untyped = Any
"""A message of kafka-python, which has no types."""

CLIENT_ID = "harrow-sidecar"
_FEATURES_VERSION = 3
"""The version of ApiVersions from which on a response has features."""

_FRAME_BYTES_MAX = 64 << 20


class NodeSilent(Exception):
    """The node gave no answer, or not one to the request. The message says what was found."""


class BrokerConnection:
    """Connects on the first request, and again after any error."""

    def __init__(self, address: tuple[str, int], timeout_s: float, security: Security = PLAIN_TEXT) -> None:
        """`security`: how to connect. Raises `SecurityError` for its certificates."""
        self._address = address
        self._security = security
        self._context = self._security.ssl_context()
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._requests = 0

    def ask(self, request: Untyped, answer: Untyped, *, at_most: int | None = None) -> Untyped:
        """Send a request in the latest version that both sides know, up to `at_most`. Raises `NodeSilent`."""
        with self._errors_as_silence(request):
            self._connect()
            return self._exchange(request, answer, self._version(request, at_most))

    def supports(self, request: Untyped) -> bool:
        """Whether the broker supports this message. Raises `NodeSilent`."""
        with self._errors_as_silence(ApiVersionsRequest):
            self._connect()
        return request.API_KEY in self._versions

    def version_of(self, request: Untyped, at_most: int) -> int:
        """The latest version up to `at_most` that both sides know; -1 if there is none. Raises `NodeSilent`."""
        with self._errors_as_silence(ApiVersionsRequest):
            self._connect()
        low, high = self._versions.get(request.API_KEY, (0, -1))
        return version if (version := min(high, int(request.max_version), at_most)) >= low else -1

    def finalized_features(self) -> Mapping[str, int] | None:
        """The finalized levels of features (KIP-584); None if the broker tells of none. Raises `NodeSilent`."""
        with self._errors_as_silence(ApiVersionsRequest):
            self._connect()
            _, high = self._versions.get(ApiVersionsRequest.API_KEY, (0, 0))
            if high < _FEATURES_VERSION:
                return None
            request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
            response = self._exchange(request, ApiVersionsResponse, _FEATURES_VERSION)
            return {feature.name: feature.max_version_level for feature in response.finalized_features or ()}

    @contextmanager
    def _errors_as_silence(self, request: Untyped) -> Iterator[None]:
        """Convert all errors to `NodeSilent`: a broker may send anything, and the decoder may fail in any way."""
        try:
            yield
        except (
            OSError,
            ValueError,
            IndexError,
            KeyError,
            TypeError,
            AttributeError,
            struct.error,
            SecurityError,
        ) as error:
            self.close()
            raise NodeSilent(f"{request.name}: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Disconnect; the next request connects again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        if self._socket is not None:
            return
        host = self._address[0]
        self._socket = socket.create_connection(self._address, self._timeout_s)
        self._socket = encrypted(self._socket, self._security, self._context, host)
        response = self._exchange(ApiVersionsRequest(), ApiVersionsResponse, 0)
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        log_in(self._security, self._exchange, host)

    def _version(self, request: Untyped, at_most: int | None) -> int:
        low, high = self._versions.get(request.API_KEY, (0, -1))
        version = min(high, int(request.max_version), high if at_most is None else at_most)
        if version < low:
            raise ValueError(f"the broker knows versions {low} to {high}")
        return version

    def _exchange(self, request: Untyped, answer: Untyped, version: int) -> Untyped:
        assert self._socket is not None
        self._requests += 1
        request.API_VERSION = version
        request.with_header(correlation_id=self._requests, client_id=CLIENT_ID)
        self._socket.sendall(request.encode(header=True, framed=True))
        size = int.from_bytes(self._receive(4), "big")
        if not 4 <= size <= _FRAME_BYTES_MAX:
            raise ValueError(f"a frame of {size} bytes")
        frame = self._receive(size)
        if int.from_bytes(frame[:4], "big") != self._requests:
            raise ValueError("the answer to another question")
        return answer.decode(frame, version=version, header=True)

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        received = bytearray()
        while len(received) < size:
            data = self._socket.recv(size - len(received))
            if not data:
                raise ConnectionError("the connection was closed")
            received += data
        return bytes(received)
