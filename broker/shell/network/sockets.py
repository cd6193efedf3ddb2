"""Sets the options of TCP sockets.

The kernel's default takes a quarter of an hour to give up a dead connection. Nodes must learn within seconds
that a link was cut, or they would spend a fault's whole duration, and more after it, on dead
connections.
"""

from __future__ import annotations

import socket
from asyncio import BaseTransport
from contextlib import suppress

UNACKNOWLEDGED_MS_MAX = 3_000
"""How long bytes to a peer may stay unacknowledged before its connection is closed."""

_KEEPALIVE_IDLE_S = 5
_KEEPALIVE_INTERVAL_S = 1
_KEEPALIVE_PROBES = 3


def configure(transport: BaseTransport, *, to_peer: bool) -> None:
    """Disable Nagle's algorithm and probe idle connections; on links to peers, limit unacknowledged time.

    An accepted connection has no such limit: a client may read slowly.
    """
    connection = transport.get_extra_info("socket")
    if connection is None:  # not a connection of the kernel
        return
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES),
    ]
    if to_peer:
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS_MAX))
    # The options may fail if the peer has closed already; the transport reports that itself.
    with suppress(OSError):
        for option in options:
            connection.setsockopt(*option)
