"""Sends the frames of a step as its behaviour says, and tells what became of each."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress

from benchmarks.broker.fuzz.drawing.steps import Behaviour

ANSWERED, CLOSED, SILENT, UNREACHABLE = "answered", "closed", "no answer", "unreachable"
ANSWER_S_MAX = 0.4
"""How long an answer is awaited: some requests wait by right."""

_BOMB_ANSWER_S_MAX = 3.0
_SEND_S_MAX = 2.0
_ANSWER_BYTES = 1 << 16
_RESET = struct.pack("ii", 1, 0)
_HELD_MAX = 300
_HELD_S_MAX = 60.0

Address = tuple[str, int]


def send(address: Address, behaviour: Behaviour, frames: tuple[bytes, ...], held: Held) -> list[str]:
    """Carry out a step on connections of its own; what became of each frame, or of each connection."""
    try:
        match behaviour:
            case Behaviour.IDLE:
                return [held.keep(_connect(address), b"") for _ in frames]
            case Behaviour.SLOW:
                return [held.keep(_connect(address), frames[0])]
            case Behaviour.HALF:
                connection = _connect(address)
                _send_all(connection, frames[0])
                return [held.keep(connection, b"")]
            case Behaviour.PIPELINE:
                connection = _connect(address)
                result = _send_all(connection, b"".join(frames))
                held.keep(connection, b"")
                return [result] * len(frames)
            case Behaviour.CUT:
                return [_cut(address, frames[0])]
            case _:
                return _ask(address, frames)
    except OSError:
        return [UNREACHABLE]


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes. Raises OSError, and EOFError if the connection is closed before."""
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError("the connection was closed")
        data += more
    return bytes(data)


def _connect(address: Address) -> socket.socket:
    connection = socket.create_connection(address, _SEND_S_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _send_all(connection: socket.socket, data: bytes) -> str:
    """Send as much as the other side takes."""
    connection.settimeout(_SEND_S_MAX)
    try:
        connection.sendall(data)
    except TimeoutError:
        return SILENT
    except OSError:
        return CLOSED
    return SILENT


def _ask(address: Address, frames: tuple[bytes, ...]) -> list[str]:
    results = []
    with _connect(address) as connection:
        for frame in frames:
            results.append(_asked(connection, frame, _BOMB_ANSWER_S_MAX if len(frames) > 1 else ANSWER_S_MAX))
            if results[-1] != ANSWERED:
                break
    return results


def _asked(connection: socket.socket, frame: bytes, limit_s: float) -> str:
    """Send a frame and read the whole answer, while the frame may still be on its way."""
    deadline = time.monotonic() + limit_s
    if _send_all(connection, frame) == CLOSED:
        return CLOSED
    wanted, found = None, b""
    have = 0
    while wanted is None or have < wanted:
        left = deadline - time.monotonic()
        if left <= 0:
            return SILENT
        connection.settimeout(left)
        try:
            data = connection.recv(_ANSWER_BYTES)
        except TimeoutError:
            return SILENT
        except OSError:
            return CLOSED
        if not data:
            return CLOSED
        have += len(data)
        if wanted is None:
            found += data
            wanted = 4 + struct.unpack_from(">i", found)[0] if len(found) >= 4 else None
    return ANSWERED


def _cut(address: Address, frame: bytes) -> str:
    """Read the first byte of the answer, then reset the connection."""
    with _connect(address) as connection:
        _send_all(connection, frame)
        connection.settimeout(ANSWER_S_MAX)
        try:
            result = ANSWERED if connection.recv(1) else CLOSED
        except TimeoutError:
            result = SILENT
        except OSError:
            result = CLOSED
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    return result


class Held:
    """Connections that stay open: idle ones, ones in the middle of a frame, and ones that get a byte a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: deque[tuple[float, socket.socket, bytearray]] = deque()

    def __len__(self) -> int:
        return len(self._connections)

    def keep(self, connection: socket.socket, rest: bytes) -> str:
        """Keep a connection, to which `rest` is sent a byte a second."""
        connection.setblocking(False)
        with self._lock:
            self._connections.append((time.monotonic(), connection, bytearray(rest)))
            surplus = len(self._connections) - _HELD_MAX
            old = [self._connections.popleft() for _ in range(max(0, surplus))]
        for _, each, _ in old:
            each.close()
        return SILENT

    def tick(self) -> None:
        """Send the next byte of the slow ones, and let go of what was held long or closed by the other side."""
        now = time.monotonic()
        with self._lock:
            connections, self._connections = self._connections, deque()
        closed = _closed_by_peer([connection for _, connection, rest in connections if not rest])
        for since, connection, rest in connections:
            if now - since > _HELD_S_MAX or connection in closed:
                connection.close()
                continue
            if rest:
                try:
                    connection.send(rest[:1])
                    del rest[:1]
                except OSError:
                    connection.close()
                    continue
            with self._lock:
                self._connections.append((since, connection, rest))

    def close(self) -> None:
        """Close all."""
        with self._lock:
            connections, self._connections = self._connections, deque()
        for _, connection, _ in connections:
            connection.close()


def _closed_by_peer(connections: list[socket.socket]) -> set[socket.socket]:
    """Those of which an end can be read; what else could be read stays unread."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        readable = [key.fileobj for key, _ in selector.select(0)]
    closed = set()
    for connection in readable:
        assert isinstance(connection, socket.socket)
        try:
            if not connection.recv(1, socket.MSG_PEEK):
                closed.add(connection)
        except OSError:
            closed.add(connection)
    return closed
