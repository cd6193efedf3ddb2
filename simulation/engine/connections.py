"""Connections of bytes between client libraries and brokers, over the simulated network, with the shell's server.

A broker's end is what it is in a real process: `broker.shell.network.server` cuts the stream into frames, decodes
requests and encodes answers. Between the ends bytes travel as TCP carries them: with the network's latencies, in order,
each once. What cannot arrive because a link is cut or stalled waits as if TCP repeated it until the link is mended; or,
where the network loses what it held, the connection is reset. A reset reaches both ends. A process that died resets its
connections; a frozen one accepts connections and bytes, as its kernel does, and reads them later.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from broker.core.configuration.settings import CLIENT_LISTENER
from broker.core.ports.events import Disconnected, Event, Reply, RequestReceived
from broker.core.rules.features import features_of
from broker.shell.network.server import AcceptedConnection, Server
from simulation.engine.choices import RollingHash
from simulation.engine.event_loop import SimulatedEventLoop
from simulation.engine.event_queue import MS, EventQueue
from simulation.engine.machine import SimulatedMachine
from simulation.engine.transport import FIRST_CONNECTION, SimulatedNetwork, Transport

CHANNEL: Final = "client"

Segment = bytes | None
"""What travels: bytes, or None for the end of the stream."""


class ConnectionEnd(asyncio.Transport):
    """One end of a connection, as asyncio's protocols know it."""

    peer: ConnectionEnd

    def __init__(self, connection: Connection, loop: SimulatedEventLoop, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self.connection = connection
        self.loop = loop
        self.protocol: Any = protocol
        self.lost = False
        self.sent = 0
        self._made = False
        self._closing = False
        self._expected = 0
        self._early: dict[int, Segment] = {}
        self._reading = True
        self._unread: deque[Segment] = deque()

    @property
    def link(self) -> tuple[int, int]:
        """From where to where its bytes go."""
        return self.loop.endpoint, self.peer.loop.endpoint

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """See `asyncio.BaseTransport`. The peer's host is its endpoint; there is no socket."""
        return (f"c{self.peer.loop.endpoint}", self.connection.number) if name == "peername" else default

    def is_closing(self) -> bool:
        """See `asyncio.BaseTransport`."""
        return self._closing

    def get_write_buffer_size(self) -> int:
        """See `asyncio.WriteTransport`: what is written is on its way."""
        return 0

    def write(self, data: Any) -> None:  # noqa: ANN401
        """See `asyncio.WriteTransport`."""
        if not self._closing:
            self.connection.network.send(self, bytes(data))

    def close(self) -> None:
        """See `asyncio.BaseTransport`: the other end reads what was written before it, then the end of the stream."""
        if not self._closing:
            self.connection.network.send(self, None)
            self.lose(None)

    def abort(self) -> None:
        """See `asyncio.WriteTransport`: the other end is reset."""
        if not self._closing:
            self.connection.network.abort(self)
            self.lose(None)

    def pause_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        self._reading = False

    def resume_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        if not self._reading:
            self._reading = True
            self.loop.call_soon(self._read)

    def is_reading(self) -> bool:
        """See `asyncio.ReadTransport`."""
        return self._reading and not self._closing

    def make(self) -> None:
        """The connection is there."""
        self._made = True
        self.protocol.connection_made(self)

    def lose(self, error: Exception | None) -> None:
        """The connection has ended for this end."""
        self._closing = True
        if not self.lost:
            self.lost = True
            if self._made:
                self.loop.call_soon(self.protocol.connection_lost, error)
            self.connection.network.ended(self.connection)

    def arrived(self, number: int, segment: Segment) -> None:
        """Take a segment, and pass on what is complete up to here, in order."""
        self._early[number] = segment
        while self._expected in self._early:
            self._unread.append(self._early.pop(self._expected))
            self._expected += 1
        self._read()

    def _read(self) -> None:
        while self._unread and self._reading and not self.lost:
            segment = self._unread.popleft()
            if segment is not None:
                self.protocol.data_received(segment)
            elif not self.protocol.eof_received():
                self.close()


class Connection:
    """A client's end, and the broker's once it has accepted."""

    def __init__(self, network: ByteNetwork, number: int, node_id: int) -> None:
        self.network = network
        self.number = number
        self.node_id = node_id
        self.is_reset = False
        self.client: ConnectionEnd | None = None
        self.server: ConnectionEnd | None = None


class BrokerServer:
    """The server of one incarnation of a broker."""

    def __init__(self, network: ByteNetwork, timeline: EventQueue, machine: SimulatedMachine) -> None:
        settings = machine.settings
        self.node_id = settings.node_id
        self.incarnation = machine.incarnation
        self.loop = SimulatedEventLoop.make(timeline, settings.node_id)
        with self.loop.running():
            self.server = Server(
                partial(network.received, self),
                settings.socket_request_max_bytes,
                settings.connections_max_idle_ms,
                features=features_of(settings.generation),
            )


class ByteNetwork:
    """All connections of bytes. `endpoints` are the clients that have them."""

    def __init__(
        self,
        timeline: EventQueue,
        transport: Transport,
        network: SimulatedNetwork,
        machines: Mapping[int, SimulatedMachine],
        deliver: Callable[[int, int, Event], None],
        digest: RollingHash,
    ) -> None:
        self._timeline = timeline
        self._transport = transport
        self._network = network
        self._machines = machines
        self._deliver = deliver
        self._digest = digest
        self.addresses = {
            (listener.host, listener.port): machine.settings.node_id
            for machine in machines.values()
            for listener in machine.settings.listeners
            if listener.name == CLIENT_LISTENER and "broker" in machine.settings.roles
        }
        self._servers: dict[int, BrokerServer] = {}
        self._connections: dict[int, Connection] = {}
        self._last_number = FIRST_CONNECTION - 1
        self._requests: dict[int, tuple[BrokerServer, int, int]] = {}  # its server, its number there, its connection
        self._in_progress: dict[int, int] = {}  # by connection
        self._unread: dict[int, list[Callable[[], None]]] = {}  # by frozen node

    @property
    def open_connections(self) -> int:
        """Connections of which an end is not closed."""
        return len(self._connections)

    # --- clients -----------------------------------------------------------------------------------------------------

    def connect(
        self,
        loop: SimulatedEventLoop,
        address: tuple[str, int],
        protocol: asyncio.BaseProtocol,
        opened: asyncio.Future[asyncio.Transport],
    ) -> None:
        """See `Connector`."""
        node_id = self.addresses.get(address)
        if node_id is None:
            opened.set_exception(socket.gaierror(f"no host {address[0]} listens on {address[1]}"))
            return
        self._last_number += 1
        connection = Connection(self, self._last_number, node_id)
        connection.client = ConnectionEnd(connection, loop, protocol)
        at_us = self._arrival_us(loop.endpoint, node_id, connection)
        self._timeline.at(at_us, self._asked_to_accept, connection, connection.client, opened)

    def abandon(self, loop: SimulatedEventLoop) -> None:
        """See `Connector`."""
        for connection in list(self._connections.values()):
            if connection.client is not None and connection.client.loop is loop:
                connection.client.abort()

    def _asked_to_accept(
        self, connection: Connection, client: ConnectionEnd, opened: asyncio.Future[asyncio.Transport]
    ) -> None:
        link = (client.loop.endpoint, connection.node_id)
        if opened.done():
            return
        if self._network.stops(*link, CHANNEL, False):
            if self._network.held_message_survives(*link):
                self._transport.hold(link, self._asked_to_accept, connection, client, opened)
            return
        machine = self._machines[connection.node_id]
        back_us = self._arrival_us(connection.node_id, client.loop.endpoint, connection)
        if machine.node is None:
            self._timeline.at(back_us, self._refused, opened)
            return
        server = self._server(machine)
        accepted = AcceptedConnection(server.server, connection.number, CLIENT_LISTENER)
        connection.server = ConnectionEnd(connection, server.loop, accepted)
        connection.server.peer, client.peer = client, connection.server
        self._connections[connection.number] = connection
        if machine.paused:
            self._unread.setdefault(connection.node_id, []).append(partial(self._accept, connection.server))
        else:
            self._accept(connection.server)
        self._timeline.at(back_us, self._accepted, connection, client, opened)

    def _refused(self, opened: asyncio.Future[asyncio.Transport]) -> None:
        if not opened.done():
            opened.set_exception(ConnectionRefusedError("connection refused"))

    def _accept(self, server: ConnectionEnd) -> None:
        if not server.lost:
            server.make()

    def _accepted(
        self, connection: Connection, client: ConnectionEnd, opened: asyncio.Future[asyncio.Transport]
    ) -> None:
        link = (connection.node_id, client.loop.endpoint)
        if self._network.stops(*link, CHANNEL, True) and not connection.is_reset:
            if self._network.held_message_survives(*link):
                self._transport.hold(link, self._accepted, connection, client, opened)
            else:
                self._reset(connection, "connection lost")
            return
        if connection.is_reset:
            self._refused(opened)
        elif opened.done():
            client.abort()
        else:
            client.make()
            opened.set_result(client)

    # --- bytes -------------------------------------------------------------------------------------------------------

    def send(self, source: ConnectionEnd, segment: Segment) -> None:
        """Send what an end has written, or that it writes no more."""
        at_us = self._arrival_us(*source.link, source.connection)
        self._timeline.at(at_us, self._arrive, source.peer, source.sent, segment)
        source.sent += 1

    def abort(self, source: ConnectionEnd) -> None:
        """Tell the other end that the connection is gone."""
        self._timeline.at(self._arrival_us(*source.link, source.connection), self._arrive_abort, source.peer)

    def _arrive_abort(self, target: ConnectionEnd) -> None:
        link = target.peer.link
        if self._network.stops(*link, CHANNEL, target is target.connection.client):
            self._transport.hold(link, self._arrive_abort, target)
        else:
            target.lose(ConnectionResetError("connection reset by peer"))

    def _arrival_us(self, source: int, target: int, connection: Connection) -> int:
        return self._network.arrival_us(self._timeline.now_us, source, target, f"{CHANNEL} {connection.number}")

    def _arrive(self, target: ConnectionEnd, number: int, segment: Segment) -> None:
        connection = target.connection
        if connection.is_reset:
            return
        link = target.peer.link
        if self._network.stops(*link, CHANNEL, target is connection.client):
            if self._network.held_message_survives(*link):
                self._transport.hold(link, self._arrive, target, number, segment)
            else:
                self._reset(connection, "connection lost")
            return
        if target is connection.server and self._machines[connection.node_id].paused:
            again = partial(self._arrive, target, number, segment)
            self._unread.setdefault(connection.node_id, []).append(again)
            return
        self._digest.add(self._timeline.now_us << 32 ^ zlib.crc32(segment or b""))
        target.arrived(number, segment)

    def ended(self, connection: Connection) -> None:
        """An end is closed; a connection without open ends is forgotten."""
        if all(end is None or end.lost for end in (connection.client, connection.server)):
            self._connections.pop(connection.number, None)

    def _reset(self, connection: Connection, why: str) -> None:
        """Both ends lose the connection; nothing that is under way arrives."""
        if connection.is_reset:
            return
        connection.is_reset = True
        if connection.server is not None:
            connection.server.lose(ConnectionResetError(why))
        if connection.client is not None:
            self._timeline.after(MS, connection.client.lose, ConnectionResetError(why))

    # --- brokers -----------------------------------------------------------------------------------------------------

    def _server(self, machine: SimulatedMachine) -> BrokerServer:
        server = self._servers.get(machine.settings.node_id)
        if server is None or server.incarnation != machine.incarnation:
            server = BrokerServer(self, self._timeline, machine)
            self._servers[machine.settings.node_id] = server
        return server

    def received(self, server: BrokerServer, event: Event) -> None:
        """Pass what a server has decoded to its node, after what the node handles now."""
        if isinstance(event, RequestReceived):
            number = self._transport.number_request()
            self._requests[number] = (server, event.request_id, event.connection)
            self._in_progress[event.connection] = number
            event = event._replace(request_id=number)
        elif isinstance(event, Disconnected):
            self._requests.pop(self._in_progress.pop(event.connection, 0), None)
        self._timeline.after(0, self._deliver, server.node_id, server.incarnation, event)

    def reply(self, effect: Reply) -> None:
        """See `ByteConnections`. Raises `AssertionError` if the answer cannot be encoded."""
        server, number, connection = self._requests.pop(effect.request_id, (None, 0, 0))
        if server is None:
            return
        del self._in_progress[connection]
        if effect.response is not None and self._network.answer_is_lost():
            if connection in self._connections:
                self._reset(self._connections[connection], "connection lost")
            return
        server.server.reply(number, effect.response)
        incidents = server.server.traffic.incidents
        assert not incidents, f"broker {server.node_id} cannot encode its answer {effect.response}"

    def close(self, node_id: int, connection: int) -> None:
        """See `ByteConnections`."""
        if node_id in self._servers:
            self._servers[node_id].server.close_connection(connection)

    def drop(self, node_id: int) -> None:
        """See `ByteConnections`."""
        self._unread.pop(node_id, None)
        server = self._servers.pop(node_id, None)
        if server is None:
            return
        server.loop.close()
        for number, (of, _, connection) in list(self._requests.items()):
            if of is server:
                del self._requests[number], self._in_progress[connection]
        self.reset_all(node_id)

    def reset_all(self, node_id: int) -> None:
        """See `ByteConnections`."""
        for connection in list(self._connections.values()):
            if connection.node_id == node_id:
                self._reset(connection, "connection reset by peer")

    def resumed(self, node_id: int) -> None:
        """See `ByteConnections`."""
        for action in self._unread.pop(node_id, []):
            self._timeline.after(0, action)

    def shut_down(self) -> None:
        """End the simulation: nothing that is under way arrives, and no server runs on."""
        for connection in list(self._connections.values()):
            connection.is_reset = True
            for end in (connection.client, connection.server):
                if end is not None:
                    end.lose(None)
        for server in self._servers.values():
            server.loop.close()
