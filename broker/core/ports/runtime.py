"""A node's runtime state: the current time, effects to emit, open requests."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from broker.core.messages import AnyRequest, AnyResponse
from broker.core.ports.events import (
    CancelTimer,
    CloseConnection,
    Effect,
    Event,
    LogEntry,
    Reply,
    RequestReceived,
    Send,
    SetTimer,
)
from broker.core.ports.marks import Mark


class NotServed(Exception):
    """A request that this kind of node does not serve; the text says which."""


class OpenRequest(NamedTuple):
    """A request that this node sent and that has no response yet. `purpose` selects the handler of the response."""

    purpose: str
    request: AnyRequest
    to: int
    context: Hashable = None


@dataclass(slots=True)
class Runtime:
    """The node's interface to its host. All times are the host's monotonic milliseconds, except `wall_clock_ms`."""

    now_ms: int = 0
    wall_clock_ahead_ms: int = 0
    effects: list[Effect] = field(default_factory=list)
    open_requests: dict[int, OpenRequest] = field(default_factory=dict)
    next_request_id: int = 1

    @property
    def wall_clock_ms(self) -> int:
        """The time of day in milliseconds since 1970, derived from the host's clock at the node's start."""
        return self.now_ms + self.wall_clock_ahead_ms

    def set_wall_clock(self, wall_clock_ms: int) -> None:
        """Set the time of day at `now_ms`."""
        self.wall_clock_ahead_ms = wall_clock_ms - self.now_ms

    def send(
        self,
        to: int,
        request: AnyRequest,
        *,
        channel: str,
        timeout_ms: int,
        purpose: str,
        context: Hashable = None,
    ) -> int:
        """Send a request and record its purpose."""
        request_id = self.next_request_id
        self.next_request_id += 1
        self.open_requests[request_id] = OpenRequest(purpose, request, to, context)
        self.effects.append(Send(request_id, to, request, channel, timeout_ms))
        return request_id

    def reply(self, request_id: int, response: AnyResponse | None) -> None:
        """Answer a request that this node received."""
        self.effects.append(Reply(request_id, response))

    def refuse(self, connection: int, reason: str) -> None:
        """Close a connection that sent a request which cannot be answered."""
        self.log("warning", f"closing connection {connection}: {reason}")
        self.effects.append(CloseConnection(connection))

    def set_timer(self, key: Hashable, after_ms: int) -> None:
        """Fire `key` in `after_ms`, replacing an earlier timer of that key."""
        self.effects.append(SetTimer(key, self.now_ms + after_ms))

    def cancel_timer(self, key: Hashable) -> None:
        """Cancel the timer `key`."""
        self.effects.append(CancelTimer(key))

    def log(self, level: str, text: str) -> None:
        """Write a line to the node's log."""
        self.effects.append(LogEntry(level, text))

    def mark(self, mark: Mark) -> None:
        """Emit a mark declared with `sometimes`."""
        self.effects.append(mark)

    def take_effects(self) -> list[Effect]:
        """Return the collected effects, and clear them."""
        effects, self.effects = self.effects, []
        return effects


class Node(Protocol):
    """A broker or a controller."""

    def handle(self, now_ms: int, event: Event) -> list[Effect]:
        """Handle one event."""
        ...

    def after_error(self, event: RequestReceived) -> list[Effect] | None:
        """The effects instead of those of a request whose handling raised an error; None if the node must end."""
        ...

    def describe(self) -> dict[str, object]:
        """The node's state, for the admin endpoint."""
        ...

    def read_log(self, topic: str, partition: int, offset: int, limit: int) -> dict[str, object]:
        """Records of a replica's log, for the admin endpoint. Raises KeyError if there is no such replica."""
        ...

    def broker_address(self, node_id: int) -> tuple[str, int] | None:
        """Where a broker's inter-broker listener is, by the metadata."""
        ...

    def is_ready(self) -> bool:
        """Whether it serves."""
        ...
