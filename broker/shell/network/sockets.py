"""Options of TCP sockets.

The kernel's own idea of a dead connection is a quarter of an hour away. Nodes must learn within seconds
that a link was cut, or they would spend a fault's whole duration, and more after it, on connections that
lead nowhere.
"""

from __future__ import annotations

import socket
from asyncio import BaseTransport
from contextlib import suppress

UNACKNOWLEDGED_MS_MAX = 3_000
"""How long bytes to a peer may stay unacknowledged before its connection is given up."""

_KEEPALIVE_IDLE_S = 5
_KEEPALIVE_INTERVAL_S = 1
_KEEPALIVE_PROBES = 3


def configure(transport: BaseTransport, *, to_peer: bool) -> None:
    """Send small messages at once and probe silent connections; give up early on links to peers.

    An accepted connection has no such limit: a client that is slow to read has the right to be.
    """
    connection = transport.get_extra_info("socket")
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES),
    ]
    if to_peer:
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS_MAX))
    # A peer that has gone already may make the options fail; the transport is about to say so itself.
    with suppress(OSError):
        for option in options:
            connection.setsockopt(*option)
