"""Codec of ApiVersions (18), versions 0 to 4, which the server answers without asking the node.

An unknown version gets the response of version 0 with UNSUPPORTED_VERSION and the list, from which
the client learns which version to use (KIP-511).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from broker.core.messages.errors import ErrorCode
from broker.core.rules.features import Feature
from broker.shell.codec import mapping, wire
from broker.shell.codec.apis import AnyCodec
from broker.shell.codec.frames import RequestHeader, raw_response_frame
from broker.shell.codec.wire import DecodeError, guarded

API_KEY = 18
_VERSIONS = (0, 4)
_FLEXIBLE = 3
"""Features begin in this version, too."""

_FEATURES_FROM_ZERO = 4
"""Before this version a feature whose lowest level is 0 is left out: older clients refuse it (KAFKA-17011)."""

_FEATURES_EPOCH = 0
"""Features are settings: they do not change while the node runs."""
_REQUEST_BYTES_MAX = 1 << 16


def answer(
    header: RequestHeader, frame: bytes, position: int, apis: Iterable[AnyCodec], features: Sequence[Feature] = ()
) -> bytes:
    """Answer an ApiVersions request with the version ranges of `apis`, those of its listener, and the features."""
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
    told = _features(features, version) if version >= _FLEXIBLE else {}
    body = mapping.encode_message(ApiVersionsResponse, version, error_code=int(error), api_keys=keys, **told)
    return raw_response_frame(header.correlation_id, body)


def _features(features: Sequence[Feature], version: int) -> dict[str, object]:
    supported, finalized = ApiVersionsResponse.SupportedFeatureKey, ApiVersionsResponse.FinalizedFeatureKey
    return {
        "supported_features": [
            supported(version=version, name=each.name, min_version=each.lowest, max_version=each.highest)
            for each in features
            if each.lowest > 0 or version >= _FEATURES_FROM_ZERO
        ],
        "finalized_features_epoch": _FEATURES_EPOCH,
        "finalized_features": [
            finalized(version=version, name=each.name, min_version_level=each.level, max_version_level=each.level)
            for each in features
            if each.level > 0
        ],
    }
