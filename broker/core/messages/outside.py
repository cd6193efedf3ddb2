"""Requests for group protocols that the broker does not have: they are served only to be refused."""

from __future__ import annotations

from typing import NamedTuple


class ConsumerGroupHeartbeatRequest(NamedTuple):
    """ConsumerGroupHeartbeat (68), KIP-848."""

    group_id: str


class ConsumerGroupHeartbeatResponse(NamedTuple):
    error_code: int
    error_message: str | None = None


class ShareGroupHeartbeatRequest(NamedTuple):
    """ShareGroupHeartbeat (76), KIP-932."""

    group_id: str


class ShareGroupHeartbeatResponse(NamedTuple):
    error_code: int
    error_message: str | None = None


OutsideRequest = ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
OutsideResponse = ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse
