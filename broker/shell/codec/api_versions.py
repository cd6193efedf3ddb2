"""Codec of ApiVersions (18), versions 0 to 4, which the server answers without asking the node.

An unknown version gets the response of version 0 with UNSUPPORTED_VERSION and the list, from which
the client learns which version to use (KIP-511).
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from broker.core.messages.errors import ErrorCode
from broker.shell.codec import mapping, wire
from broker.shell.codec.apis import AnyCodec
from broker.shell.codec.frames import RequestHeader, raw_response_frame
from broker.shell.codec.wire import DecodeError, guarded

API_KEY = 18
_VERSIONS = (0, 4)
_FLEXIBLE = 3
_REQUEST_BYTES_MAX = 1 << 16


def answer(header: RequestHeader, frame: bytes, position: int, apis: Iterable[AnyCodec]) -> bytes:
    """Answer an ApiVersions request with the version ranges of `apis`, those of its listener."""
    ranges = sorted([(API_KEY, *_VERSIONS), *((codec.api_key, *codec.versions) for codec in apis)])
    version, error = header.api_version, ErrorCode.NONE
    if len(frame) > _REQUEST_BYTES_MAX:
        raise DecodeError(f"expected an ApiVersions request of at most {_REQUEST_BYTES_MAX} bytes, found {len(frame)}")
    if _VERSIONS[0] <= version <= _VERSIONS[1]:
        with guarded(f"an ApiVersions request of version {version}"):
            if version >= _FLEXIBLE:
                position = wire.skip_tags(frame, position)
            mapping.decode_message(ApiVersionsRequest, frame, position, version)
    else:
        version, error = 0, ErrorCode.UNSUPPORTED_VERSION
    keys = [
        ApiVersionsResponse.ApiVersion(version=version, api_key=key, min_version=low, max_version=high)
        for key, low, high in ranges
    ]
    body = mapping.encode_message(ApiVersionsResponse, version, error_code=int(error), api_keys=keys)
    return raw_response_frame(header.correlation_id, body)
