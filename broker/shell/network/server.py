"""A node's listeners, and the connections they accept.

A connection has one request in progress at a time: the next frame is decoded only when the node has
replied to the previous one, which gives the order of replies that clients rely on (and the order of
pipelined produce requests). Anything but a request of an API of that listener closes the connection,
with one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, cast

from broker.core.messages import AnyResponse, Listener
from broker.core.ports.events import Disconnected, Event, RequestReceived
from broker.core.rules.features import Feature
from broker.shell.codec import api_versions
from broker.shell.codec.apis import LISTENER_APIS, AnyCodec, Apis
from broker.shell.codec.frames import FrameBuffer, RequestHeader, read_request, read_request_header, response_frame
from broker.shell.codec.wire import DecodeError
from broker.shell.network import sockets
from broker.shell.observability.traffic import Traffic

LOG = logging.getLogger(__name__)

HALF_FRAME_S_MAX = 30.0
"""How long a frame may take to arrive after its first byte."""

_SWEEP_S = 5.0
_CLOSE_S_MAX = 1.0
_READ_AHEAD_BYTES_MAX = 1 << 16
"""Bytes that may wait behind the request in progress before reading pauses."""

_COLLECTED_BYTES_MAX = 1 << 16
"""Responses to pipelined requests are written together up to this size."""

_HELD_FRAMES_MAX = 4
"""All connections together may hold so many times the largest frame, in requests that are not whole and answers that
are not read."""


class RequestInProgress(NamedTuple):
    """A request that the node has not yet replied to."""

    request_id: int
    codec: AnyCodec
    header: RequestHeader


class AcceptedConnection(asyncio.Protocol):
    """One accepted connection."""

    def __init__(self, server: Server, number: int, listener: str) -> None:
        self.number = number
        self.listener = listener
        self._server = server
        self._traffic = server.traffic
        self._apis = server.apis[listener]
        self._incoming = FrameBuffer(server.frame_bytes_max)
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._open: RequestInProgress | None = None
        self._advancing = False
        self._write_paused = False
        self._transport: asyncio.Transport | None = None
        self._client_host = ""
        self._active_at = self._frame_began_at = server.loop.time()

    # --- asyncio protocol -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        self._transport = cast("asyncio.Transport", transport)
        sockets.configure(transport, to_peer=False)
        peer = transport.get_extra_info("peername")
        self._client_host = f"/{peer[0]}" if peer else ""
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        """Add received bytes, process complete frames."""
        self._active_at = self._server.loop.time()
        self._traffic.bytes_in[self.listener] += len(data)
        if not self._incoming:
            self._frame_began_at = self._active_at
        self._incoming.feed(data)
        self._advance()
        if len(self._incoming) > _READ_AHEAD_BYTES_MAX:
            self._server.limit_held_bytes()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the disconnect to the node."""
        LOG.debug("connection %d is gone (%s)", self.number, exc)
        self._transport = None
        request_id = None if self._open is None else self._open.request_id
        self._open = None
        self._server.lost(self.number, request_id)

    @property
    def held_bytes(self) -> int:
        """What is held for it: bytes of a request that is not whole, and of answers that its client has not read."""
        unread = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return len(self._incoming) + unread

    def pause_writing(self) -> None:
        """Pause further requests: the client does not read our responses."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """Resume."""
        self._write_paused = False
        self._advance()

    # --- requests and replies -----------------------------------------------------------------------------

    def reply(self, response: AnyResponse | None) -> None:
        """Answer the request in progress (None: no response) and continue with the next."""
        assert self._open is not None, "only the request in progress is replied to"
        _, codec, header = self._open
        self._open = None
        self._active_at = self._server.loop.time()
        self._traffic.answered(codec.name, response)
        if response is not None:
            try:
                frame = response_frame(codec, header.api_version, header.correlation_id, response)
            except Exception as error:
                self._fail(codec.name, error)
                return
            self._send(frame)
        self._advance()

    def close(self) -> None:
        """Send what is buffered, then close."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        """Close without sending the rest."""
        if self._transport is not None:
            self._transport.abort()

    def drop(self, reason: str) -> None:
        """Close at once, and hold nothing for it any more."""
        self._refuse(reason)
        self._incoming.clear()
        self._outgoing, self._outgoing_bytes = [], 0
        self.abort()

    def sweep(self, now: float, idle_s_max: float) -> None:
        """Close if the peer has stopped in the middle of a frame, or has been idle too long."""
        if self._transport is None or self._open is not None:
            return
        if self._transport.is_closing():
            self._transport.abort()
        elif self._incoming and now - self._frame_began_at > HALF_FRAME_S_MAX:
            self._refuse(f"half a frame has not become a whole one in {HALF_FRAME_S_MAX:.0f} s")
        elif now - self._active_at > idle_s_max:
            LOG.info("closing connection %d: idle for %.0f s", self.number, now - self._active_at)
            self._transport.abort()

    def _advance(self) -> None:
        # A reply during the delivery of a request re-enters here; the loop below then continues.
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._may_take() and (frame := self._incoming.take()) is not None:
                self._frame_began_at = self._server.loop.time()
                self._take(frame)
        except DecodeError as error:
            self._refuse(str(error))
        finally:
            self._advancing = False
        self._flush()
        self._throttle()

    def _may_take(self) -> bool:
        return (
            self._open is None
            and not self._write_paused
            and self._transport is not None
            and not self._transport.is_closing()
        )

    def _take(self, frame: bytes) -> None:
        header, position = read_request_header(frame)
        if header.api_key == api_versions.API_KEY:
            self._traffic.answered("ApiVersions", None)
            self._send(api_versions.answer(header, frame, position, self._apis.values(), self._server.features))
            return
        codec = self._apis.get(header.api_key)
        if codec is None:
            raise DecodeError(f"API {header.api_key} is not served on {self.listener}")
        request = read_request(codec, header, frame, position)
        request_id = self._server.next_request_id(self)
        self._open = RequestInProgress(request_id, codec, header)
        version, client_id = header.api_version, header.client_id
        self._server.deliver(
            RequestReceived(request_id, self.number, request, version, client_id, self.listener, self._client_host)
        )

    def _send(self, frame: bytes) -> None:
        """Collect small responses; write large ones at once, so that a client that does not read them is noticed."""
        self._outgoing.append(frame)
        self._outgoing_bytes += len(frame)
        if self._outgoing_bytes >= _COLLECTED_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        if self._outgoing and self._transport is not None:
            data = b"".join(self._outgoing) if len(self._outgoing) > 1 else self._outgoing[0]
            self._traffic.bytes_out[self.listener] += len(data)
            self._outgoing, self._outgoing_bytes = [], 0
            self._transport.write(data)
            if self._write_paused:
                self._server.limit_held_bytes()

    def _throttle(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        busy = self._open is not None or self._write_paused
        if busy and len(self._incoming) > _READ_AHEAD_BYTES_MAX:
            self._transport.pause_reading()
        elif not busy:
            self._transport.resume_reading()

    def _fail(self, api: str, error: Exception) -> None:
        """A response cannot be written. Nothing that the node keeps depends on it, so only its client is refused."""
        self._traffic.incidents += 1
        LOG.error(
            "incident %d, a bug: the response of %s cannot be written", self._traffic.incidents, api, exc_info=error
        )
        self._refuse("its response cannot be written")

    def _refuse(self, reason: str) -> None:
        if self._transport is not None:
            peer = self._transport.get_extra_info("peername")
            LOG.warning("closing connection %d from %s on %s: %s", self.number, peer, self.listener, reason)
            self._transport.close()


class Server:
    """All listeners of a node. Events go to `deliver`; `reply` and `close_connection` execute effects."""

    def __init__(
        self,
        deliver: Callable[[Event], None],
        frame_bytes_max: int,
        idle_ms_max: int,
        traffic: Traffic | None = None,
        features: Sequence[Feature] = (),
        apis: Apis = LISTENER_APIS,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.deliver = deliver
        self.frame_bytes_max = frame_bytes_max
        self.features = features
        self.apis = apis
        self.traffic = Traffic() if traffic is None else traffic
        self._idle_s_max = idle_ms_max / 1000
        self._held_bytes_max = _HELD_FRAMES_MAX * frame_bytes_max
        self._servers: list[asyncio.Server] = []
        self._connections: dict[int, AcceptedConnection] = {}
        self._open_requests: dict[int, AcceptedConnection] = {}
        self._last_connection = 0
        self._last_request = 0
        self._all_gone = asyncio.Event()
        self._sweeper = self.loop.call_later(_SWEEP_S, self._sweep)

    async def listen(self, listener: Listener) -> int:
        """Bind a listener and return its port. Raises OSError if the address is taken or not local."""

        def connection() -> AcceptedConnection:
            self._last_connection += 1
            return AcceptedConnection(self, self._last_connection, listener.name)

        server = await self.loop.create_server(connection, listener.host, listener.port, backlog=1024)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def reply(self, request_id: int, response: AnyResponse | None) -> None:
        """Execute a `Reply`; one to a closed connection is dropped."""
        connection = self._open_requests.pop(request_id, None)
        if connection is not None:
            connection.reply(response)

    def close_connection(self, number: int) -> None:
        """Execute a `CloseConnection`."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.close()

    @property
    def held_bytes(self) -> int:
        """What all connections hold together."""
        return sum(connection.held_bytes for connection in self._connections.values())

    def limit_held_bytes(self) -> None:
        """Close the connections that hold most, until all together hold no more than they may."""
        left = self.held_bytes - self._held_bytes_max
        for connection in sorted(self._connections.values(), key=lambda one: -one.held_bytes) if left > 0 else ():
            if left <= 0:
                break
            held = connection.held_bytes
            connection.drop(f"{held} bytes of it are held, and all may hold {self._held_bytes_max}")
            left -= held

    async def close(self) -> None:
        """Stop listening and close all connections, within a second."""
        self._sweeper.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self._connections.values()):
            connection.close()
        if self._connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S_MAX):
                    await self._all_gone.wait()
        for connection in list(self._connections.values()):
            connection.abort()

    def opened(self, connection: AcceptedConnection) -> None:
        """Register a new connection."""
        self._all_gone.clear()
        self._connections[connection.number] = connection
        self.traffic.connections[connection.listener] += 1

    def lost(self, number: int, request_id: int | None) -> None:
        """Drop a connection and its request in progress."""
        connection = self._connections.pop(number)
        self.traffic.connections[connection.listener] -= 1
        if not self._connections:
            self._all_gone.set()
        if request_id is not None:
            self._open_requests.pop(request_id, None)
        self.deliver(Disconnected(number))

    def next_request_id(self, connection: AcceptedConnection) -> int:
        """Assign a request id that maps the reply to its connection."""
        self._last_request += 1
        self._open_requests[self._last_request] = connection
        return self._last_request

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in list(self._connections.values()):
            connection.sweep(now, self._idle_s_max)
        self._sweeper = self.loop.call_later(_SWEEP_S, self._sweep)
