"""Connections to other nodes: one per node and channel, opened when there is something to send.

Every `Send` ends in a `ResponseReceived` or a `RequestFailed`, within its timeout. A request that finds
no connection waits for the next attempt, which comes after a short, growing pause; if that fails, so do
all that wait for it. Responses come in order, so a late one closes the connection and fails
everything behind it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import cast

from broker.core.configuration.settings import Address
from broker.core.ports.events import Event, RequestFailed, ResponseReceived, Send
from broker.shell.codec.apis import AnyCodec, codec_of
from broker.shell.codec.frames import FrameBuffer, read_response, request_frame
from broker.shell.codec.wire import DecodeError
from broker.shell.network import sockets
from broker.shell.observability.traffic import PEERS, Traffic

LOG = logging.getLogger(__name__)

CONNECT_S_MAX = 1.0
"""Timeout of one attempt to connect. TCP's own retries take seconds: too slow after a healed partition."""

BACKOFF_S_MIN = 0.02
BACKOFF_S_MAX = 0.5

AddressOf = Callable[[int, str], Address | None]
"""The address of a node on a channel; None if unknown."""


class Outgoing:
    """A sent or queued request."""

    def __init__(self, send: Send, codec: AnyCodec, correlation_id: int) -> None:
        self.send = send
        self.correlation_id = correlation_id
        self.codec = codec
        self.version = codec.own_version(send.request)
        self.timer: asyncio.TimerHandle | None = None

    def settle(self) -> None:
        """Cancel the timeout: the request has its response, or will have none."""
        if self.timer is not None:
            self.timer.cancel()


class Link(asyncio.Protocol):
    """The connection to one node on one channel, open or not."""

    def __init__(self, peers: Peers, node_id: int, channel: str) -> None:
        self._peers = peers
        self._loop = peers.loop
        self._node_id = node_id
        self._channel = channel
        self._waiting: deque[Outgoing] = deque()
        self._sent: deque[Outgoing] = deque()
        self._transport: asyncio.Transport | None = None
        self._incoming = FrameBuffer(peers.frame_bytes_max)
        self._connecting: asyncio.Task[None] | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._lost_because = "connection lost"
        self._last_correlation_id = 0

    def send(self, send: Send, codec: AnyCodec) -> None:
        """Send now, or as soon as there is a connection."""
        self._last_correlation_id = (self._last_correlation_id + 1) & 0x7FFFFFFF
        outgoing = Outgoing(send, codec, self._last_correlation_id)
        outgoing.timer = self._loop.call_later(send.timeout_ms / 1000, self._late, outgoing)
        if self._transport is not None and not self._transport.is_closing():
            self._write(outgoing)
            return
        self._waiting.append(outgoing)
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())
            self._connecting.add_done_callback(self._connect_ended)

    def close(self) -> None:
        """Drop the connection and its requests."""
        if self._connecting is not None:
            self._connecting.cancel()
        for outgoing in (*self._waiting, *self._sent):
            outgoing.settle()
        self._waiting.clear()
        self._sent.clear()
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio protocol -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the queued requests."""
        sockets.configure(transport, to_peer=True)
        self._transport = cast("asyncio.Transport", transport)
        self._incoming = FrameBuffer(self._peers.frame_bytes_max)
        self._lost_because = "connection lost"
        waiting, self._waiting = self._waiting, deque()
        for outgoing in waiting:
            self._write(outgoing)

    def data_received(self, data: bytes) -> None:
        """Match responses with requests in order."""
        self._peers.traffic.bytes_in[PEERS] += len(data)
        self._incoming.feed(data)
        try:
            while (frame := self._incoming.take()) is not None:
                self._answered(frame)
        except DecodeError as error:
            self._give_up(f"answer not understood: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all outstanding requests."""
        self._transport = None
        self._back_off()
        sent, self._sent = self._sent, deque()
        self._fail(sent, self._lost_because if exc is None else f"{self._lost_because}: {exc}")

    # --- implementation -----------------------------------------------------------------------------------

    def _write(self, outgoing: Outgoing) -> None:
        assert self._transport is not None, "written to only while connected"
        self._sent.append(outgoing)
        name = self._peers.client_id
        request = outgoing.send.request
        frame = request_frame(outgoing.codec, outgoing.version, outgoing.correlation_id, name, request)
        self._peers.traffic.bytes_out[PEERS] += len(frame)
        self._transport.write(frame)

    def _answered(self, frame: bytes) -> None:
        if not self._sent:
            raise DecodeError("no request is waiting for it")
        first = self._sent[0]
        request = first.send.request
        response = read_response(first.codec, first.version, first.correlation_id, frame, request)
        self._sent.popleft().settle()
        self._failures = 0
        self._peers.deliver(ResponseReceived(first.send.request_id, response))

    async def _connect(self) -> None:
        await asyncio.sleep(self._retry_at - self._loop.time())
        address = self._peers.address_of(self._node_id, self._channel)
        if address is None:
            self._unreachable("its address is not known")
            return
        host, port = address
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await self._loop.create_connection(lambda: self, host, port)
        except OSError as error:  # TimeoutError is one of them
            self._unreachable(f"{host}:{port}: {error or 'no answer'}")

    def _connect_ended(self, task: asyncio.Task[None]) -> None:
        if self._connecting is task:
            self._connecting = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "connecting failed", "exception": error})

    def _unreachable(self, reason: str) -> None:
        self._back_off()
        # A request that the node sends while handling this failure must start a new attempt.
        self._connecting = None
        waiting, self._waiting = self._waiting, deque()
        self._fail(waiting, f"no connection to node {self._node_id} ({self._channel}): {reason}")

    def _back_off(self) -> None:
        pause = min(BACKOFF_S_MIN * 2.0 ** min(self._failures, 10), BACKOFF_S_MAX)
        self._failures += 1
        self._retry_at = self._loop.time() + pause

    def _late(self, outgoing: Outgoing) -> None:
        reason = f"no answer from node {self._node_id} ({self._channel}) in {outgoing.send.timeout_ms} ms"
        if outgoing in self._waiting:
            self._waiting.remove(outgoing)
            self._fail([outgoing], reason)
        else:
            self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        self._lost_because = reason
        sent, self._sent = self._sent, deque()
        if self._transport is not None:
            self._transport.abort()
        self._fail(sent, reason)

    def _fail(self, requests: deque[Outgoing] | list[Outgoing], reason: str) -> None:
        for outgoing in requests:
            outgoing.settle()
            LOG.debug("request %d failed: %s", outgoing.send.request_id, reason)
        for outgoing in requests:
            self._peers.deliver(RequestFailed(outgoing.send.request_id, reason))


class Peers:
    """All connections of a node to its peers."""

    def __init__(
        self,
        deliver: Callable[[Event], None],
        address_of: AddressOf,
        client_id: str,
        frame_bytes_max: int,
        traffic: Traffic | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.deliver = deliver
        self.address_of = address_of
        self.client_id = client_id
        self.traffic = Traffic() if traffic is None else traffic
        self.frame_bytes_max = frame_bytes_max
        self._links: dict[tuple[int, str], Link] = {}

    def send(self, send: Send) -> None:
        """Execute a `Send`. A request that cannot be encoded fails like one that cannot be delivered."""
        codec = codec_of(send.request)
        if codec is None:
            reason = f"no listener serves {type(send.request).__name__}"
            LOG.error("request %d to node %d failed: %s", send.request_id, send.to, reason)
            self.deliver(RequestFailed(send.request_id, reason))
            return
        key = (send.to, send.channel)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link(self, send.to, send.channel)
        link.send(send, codec)

    def close(self) -> None:
        """Drop all connections."""
        for link in self._links.values():
            link.close()
