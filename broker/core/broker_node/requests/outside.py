"""Refuses group protocols that the broker does not have, with the error of a Kafka broker that has them switched off.

A request is served only to be refused if a client library waits silently when ApiVersions does not list it (librdkafka,
for these two). For everything else that the broker lacks, the libraries raise a clear error by themselves, at once;
answered with Kafka's error codes, some of them would wait, or go on.
"""

from __future__ import annotations

from broker.core.messages.errors import ErrorCode
from broker.core.messages.outside import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OutsideRequest,
    OutsideResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

_ONLY_CLASSIC = "this broker serves the classic group protocol only: set group.protocol=classic"
_NO_SHARE_GROUPS = "this broker has no share groups: use a consumer group"


def refuse(request: OutsideRequest) -> OutsideResponse:
    """The refusal of a request: UNSUPPORTED_VERSION, which is fatal to clients."""
    match request:
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(ErrorCode.UNSUPPORTED_VERSION, _ONLY_CLASSIC)
        case ShareGroupHeartbeatRequest():
            return ShareGroupHeartbeatResponse(ErrorCode.UNSUPPORTED_VERSION, _NO_SHARE_GROUPS)
