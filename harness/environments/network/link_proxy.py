"""Per-link TCP proxies: one process that forwards the connections of all links, and can block single directions.

    python -m harness.environments.network.link_proxy DESCRIPTOR

For machines that allow no network namespaces. A cut is as silent as a packet filter's: the proxy holds bytes, ends of
streams and resets of the cut direction, and a new connection over a link that is cut in either direction gets no answer
(the kernel accepts it, but the proxy does not forward it). When the link is restored everything held is forwarded.

Requests are JSON lines over a socket, each with one answer: first
`{"routes": [[host, port, source, target, host, port], …]}` (where to listen, the link, where to connect); then
`{"blocked": [[source, target], …]}`. It exits when that socket closes.
"""

from __future__ import annotations

import errno
import json
import resource
import select
import socket
import struct
import sys
from collections.abc import Iterable
from typing import NamedTuple

from harness.environments.machine.helpers.jsonl import receive_line
from nemesis.capabilities.cluster import Endpoint, Link

_CHUNK_BYTES = 262_144
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Route(NamedTuple):
    """A port at which `source` reaches one listener of `target`."""

    host: str
    port: int
    source: Endpoint
    target: Endpoint
    target_host: str
    target_port: int


class _Flow:
    """One direction of one connection."""

    def __init__(self, link: Link, origin: socket.socket, sink: socket.socket) -> None:
        self.link = link
        self.origin = origin
        self.sink = sink
        self.held = b""  # read, but not yet taken by the sink
        self.ended = False  # the origin has sent its last byte
        self.closed = False  # … and the end was forwarded to the sink
        self.refused = False  # the sink is gone; its reset has to travel back

    def carry(self) -> None:
        """Forward what can be forwarded without waiting. Raises `ConnectionError` when the origin has reset."""
        drained = False
        while True:
            if self.held:
                try:
                    sent = self.sink.send(self.held)
                except BlockingIOError:
                    return
                except OSError:
                    self.refused = True
                    return
                self.held = self.held[sent:]
                if self.held:
                    return
            if self.ended:
                self._finish()
                return
            if drained:
                return
            try:
                self.held = self.origin.recv(_CHUNK_BYTES)
            except BlockingIOError:
                return
            self.ended = not self.held
            drained = len(self.held) < _CHUNK_BYTES

    def _finish(self) -> None:
        if not self.closed:
            self.closed = True
            try:
                self.sink.shutdown(socket.SHUT_WR)
            except OSError:
                self.refused = True


class _ProxiedConnection:
    """A connection through the proxy: `near` is the source's end, `far` the target's."""

    def __init__(self, route: Route, near: socket.socket) -> None:
        self.route = route
        self.near = near
        self.far: socket.socket | None = None
        self.flows: tuple[_Flow, ...] = ()

    @property
    def links(self) -> tuple[Link, Link]:
        return (self.route.source, self.route.target), (self.route.target, self.route.source)

    def ends(self) -> list[socket.socket]:
        return [self.near] if self.far is None else [self.near, self.far]

    def connect(self) -> socket.socket:
        """Connect to the target. Raises `OSError` when it refuses."""
        far = self.far = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        far.setblocking(False)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        result = far.connect_ex((self.route.target_host, self.route.target_port))
        if result not in (0, errno.EINPROGRESS):
            raise OSError(result, "connect")
        forth, back = self.links
        self.flows = (_Flow(forth, self.near, far), _Flow(back, far, self.near))
        return far

    def wants(self, end: socket.socket, blocked: frozenset[Link]) -> int:
        """The epoll events of one end to wait for. None while its direction is cut: a hang-up is held, too."""
        events = 0
        for flow in self.flows:
            if flow.link in blocked or flow.closed or flow.refused:
                continue
            if flow.origin is end and not flow.held and not flow.ended:
                events |= select.EPOLLIN
            if flow.sink is end and flow.held:
                events |= select.EPOLLOUT
        return events

    def is_refused(self, blocked: frozenset[Link]) -> bool:
        """Whether one end is gone, and its reset can be forwarded to the other."""
        return any(flow.refused and flow.link[::-1] not in blocked for flow in self.flows)

    def close(self, *, reset: bool) -> None:
        for end in self.ends():
            if reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            end.close()


class LinkProxy:
    """All connections of a run, on one epoll."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """Listen at every route; `OSError` when a port is taken."""
        self._epoll = select.epoll()
        self._listeners: dict[int, tuple[Route, socket.socket]] = {}
        self._connections: set[_ProxiedConnection] = set()
        self._by_descriptor: dict[int, tuple[_ProxiedConnection, socket.socket]] = {}
        self._watched: dict[int, int] = {}
        self._blocked: frozenset[Link] = frozenset()
        for route in routes:
            listener = socket.create_server((route.host, route.port), backlog=512)
            listener.setblocking(False)
            self._listeners[listener.fileno()] = (route, listener)
            self._epoll.register(listener.fileno(), select.EPOLLIN)

    def set_blocked(self, links: frozenset[Link]) -> None:
        """Cut exactly these links. When this returns nothing more crosses them."""
        self._blocked = links
        for connection in list(self._connections):
            self._advance(connection)

    def serve(self, control: socket.socket) -> None:
        """Forward bytes, and answer requests, until the control socket closes."""
        self._epoll.register(control.fileno(), select.EPOLLIN)
        while True:
            for descriptor, _ in self._epoll.poll():
                if descriptor == control.fileno():
                    line, _ = receive_line(control)
                    if not line:
                        return
                    self.set_blocked(frozenset((a, b) for a, b in json.loads(line)["blocked"]))
                    control.sendall(b'{"result": null}\n')
                elif descriptor in self._listeners:
                    self._accept(*self._listeners[descriptor])
                elif descriptor in self._by_descriptor:
                    self._advance(*self._by_descriptor[descriptor])

    def _accept(self, route: Route, listener: socket.socket) -> None:
        try:
            near, _ = listener.accept()
        except OSError:  # the client has given up meanwhile
            return
        near.setblocking(False)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _ProxiedConnection(route, near)
        self._connections.add(connection)
        self._by_descriptor[near.fileno()] = (connection, near)
        self._advance(connection)

    def _advance(self, connection: _ProxiedConnection, ready: socket.socket | None = None) -> None:
        """Forward what the current cuts allow, for the whole connection or only for the end that is ready."""
        try:
            if connection.far is None:
                if self._blocked.intersection(connection.links):
                    return  # a handshake needs both directions
                far = connection.connect()
                self._by_descriptor[far.fileno()] = (connection, far)
            for flow in connection.flows:
                if connection.is_refused(self._blocked):
                    break
                if flow.link in self._blocked or flow.refused:
                    continue
                if ready is None or ready is flow.origin or flow.held:
                    flow.carry()
        except OSError:
            self._drop(connection, reset=True)
            return
        if connection.is_refused(self._blocked):
            self._drop(connection, reset=True)
        elif all(flow.closed for flow in connection.flows):
            self._drop(connection, reset=False)
        else:
            for end in connection.ends():
                self._watch(end.fileno(), connection.wants(end, self._blocked))

    def _watch(self, descriptor: int, events: int) -> None:
        watched = self._watched.get(descriptor, 0)
        if events == watched:
            return
        if events == 0:  # epoll reports a hang-up even when asked for nothing
            self._epoll.unregister(descriptor)
            del self._watched[descriptor]
            return
        if watched == 0:
            self._epoll.register(descriptor, events)
        else:
            self._epoll.modify(descriptor, events)
        self._watched[descriptor] = events

    def _drop(self, connection: _ProxiedConnection, *, reset: bool) -> None:
        for end in connection.ends():
            self._watched.pop(end.fileno(), None)
            self._by_descriptor.pop(end.fileno(), None)
        self._connections.remove(connection)
        connection.close(reset=reset)


def main() -> None:
    """Serve until the other end of the socket closes."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    control = socket.socket(fileno=int(sys.argv[1]))
    settings = json.loads(receive_line(control)[0])
    try:
        proxy = LinkProxy(Route(*route) for route in settings["routes"])
    except OSError as error:
        control.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    control.sendall(b'{"result": null}\n')
    proxy.serve(control)


if __name__ == "__main__":
    main()
