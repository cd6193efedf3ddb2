"""Codec of what the broker serves only to refuse it.

ConsumerGroupHeartbeat (68), versions 0 and 1, and ShareGroupHeartbeat (76), version 1.
"""

from __future__ import annotations

from broker.core.messages.outside import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from broker.shell.codec.mapping import define, mapped, message, record

CONSUMER_GROUP_HEARTBEAT = mapped(
    (0, 1),
    message(define("groups", "ConsumerGroupHeartbeatRequest"), record(ConsumerGroupHeartbeatRequest)),
    message(define("groups", "ConsumerGroupHeartbeatResponse"), record(ConsumerGroupHeartbeatResponse)),
)

SHARE_GROUP_HEARTBEAT = mapped(
    (1, 1),
    message(define("groups", "ShareGroupHeartbeatRequest"), record(ShareGroupHeartbeatRequest)),
    message(define("groups", "ShareGroupHeartbeatResponse"), record(ShareGroupHeartbeatResponse)),
)
