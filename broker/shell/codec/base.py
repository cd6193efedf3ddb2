"""The codec of one API: four functions between bytes and the core's messages, by version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker.shell.codec.wire import Parts

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True, kw_only=True)
class Codec(Generic[Request, Response]):
    """One API. Decoders take the frame, the position after the header, and the version."""

    api_key: int
    name: str
    versions: tuple[int, int]
    """Lowest and highest served version; nodes use the highest among themselves."""

    flexible_from: int
    """First version with compact types and tagged fields (KIP-482), in the body and in the headers."""

    request_type: type[Request]
    decode_request: Callable[[bytes, int, int], Request]
    encode_request: Callable[[Request, int], Parts]
    decode_response: Callable[[bytes, int, int], Response]
    encode_response: Callable[[Response, int], Parts]

    request_bytes_max: int = 1 << 20
    """A larger request is refused before it is decoded. Only those that carry records need more."""

    version_for: Callable[[Request], int] | None = None
    """Version in which to send a request between nodes, if not always the highest."""

    name_topics: Callable[[Response, Request], Response] | None = None
    """Fill in the topic names of a response that has only ids, from its request."""

    def serves(self, version: int) -> bool:
        """Whether a version is served."""
        return self.versions[0] <= version <= self.versions[1]

    def flexible(self, version: int) -> bool:
        """Whether a version has tagged fields."""
        return version >= self.flexible_from

    def own_version(self, request: Request) -> int:
        """Version in which a node sends this request to another."""
        return self.versions[1] if self.version_for is None else self.version_for(request)
