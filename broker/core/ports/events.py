"""A node's inputs (events) and outputs (effects).

A node is driven by `node.handle(now_ms, event) -> list[Effect]`, one event at a time. Its host (`broker.shell` on a
real machine, the simulator otherwise) delivers the events and executes the effects in their order.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from broker.core.messages import AnyRequest, AnyResponse
from broker.core.ports.coordination import CoordinationEffect, CoordinationEvent
from broker.core.ports.marks import Mark

# --- events ----------------------------------------------------------------------------------------------------------


class Started(NamedTuple):
    """The first event of a node: its logs are open, and it may send requests.

    `wall_clock_ms` is the time of day at this event's `now_ms`, in milliseconds since 1970. From then on
    it advances with the monotonic clock: a clock change while the node runs deletes nothing.
    """

    wall_clock_ms: int


class RequestReceived(NamedTuple):
    """A request arrived on an accepted connection. `request_id` identifies it in the `Reply`.

    `listener` is the name of the one that received it; only a combined node needs it. `client_host` is the address of
    the client as Kafka writes it, "/127.0.0.1".
    """

    request_id: int
    connection: int
    request: AnyRequest
    api_version: int = 0
    client_id: str = ""
    listener: str = ""
    client_host: str = ""


class ResponseReceived(NamedTuple):
    """The response to a `Send`."""

    request_id: int
    response: AnyResponse


class RequestFailed(NamedTuple):
    """A `Send` will get no response: not connected, connection lost, timed out, or malformed."""

    request_id: int
    reason: str


class Disconnected(NamedTuple):
    """An accepted connection is closed; its open requests need no reply."""

    connection: int


class TimerFired(NamedTuple):
    key: Hashable


class FlushDone(NamedTuple):
    """A `Flush` has ended; `error` None means that the bytes are on the disk."""

    token: Hashable
    error: str | None = None


class StopRequested(NamedTuple):
    """The operator requests a controlled shutdown."""


Event = (
    Started
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | Disconnected
    | TimerFired
    | FlushDone
    | StopRequested
    | CoordinationEvent
)

# --- effects ---------------------------------------------------------------------------------------------------------


CONTROLLER_CHANNELS = frozenset({"control", "metadata", "quorum", "quorum-fetch"})
"""Channels to a node's controller listener; all others lead to its broker listener."""


class Send(NamedTuple):
    """Send a request to a node. Requests of one channel to one node share a connection and are answered in order."""

    request_id: int
    to: int
    request: AnyRequest
    channel: str
    timeout_ms: int


class Reply(NamedTuple):
    """Answer a request. A `response` of None completes it without an answer (acks=0)."""

    request_id: int
    response: AnyResponse | None


class CloseConnection(NamedTuple):
    """Close an accepted connection."""

    connection: int


class SetTimer(NamedTuple):
    """Fire `TimerFired(key)` at `at_ms`; replaces an earlier timer of the same key."""

    key: Hashable
    at_ms: int


class CancelTimer(NamedTuple):
    key: Hashable


class Flush(NamedTuple):
    """fsync these files, in this order, then deliver `FlushDone(token)`. The node continues meanwhile."""

    token: Hashable
    files: tuple[str, ...]


class LogEntry(NamedTuple):
    """A line for the node's log."""

    level: str  # "debug", "info", "warning", "error"
    text: str


class Exit(NamedTuple):
    """The node stops; status 0 after a controlled shutdown."""

    status: int
    reason: str


Effect = Send | Reply | CloseConnection | SetTimer | CancelTimer | Flush | LogEntry | Mark | Exit | CoordinationEffect
