from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from harness.environments.network.link_proxy import LinkProxy, Route

_SOURCE, _TARGET = 1, 2
_THERE, _BACK = (_SOURCE, _TARGET), (_TARGET, _SOURCE)
_SILENCE_S = 0.2


class _Proxied:
    """A proxy on a thread of this process, with one route to a server of ours."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.server.settimeout(5)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = free.getsockname()
        route = Route(*self.address, _SOURCE, _TARGET, *self.server.getsockname())
        self._control, theirs = socket.socketpair()
        self._control.settimeout(5)
        proxy = LinkProxy([route])

        def serve() -> None:
            with theirs:
                proxy.serve(theirs)

        self._thread = threading.Thread(target=serve)
        self._thread.start()

    def block(self, *links: tuple[int, int]) -> None:
        self._control.sendall(json.dumps({"blocked": links}).encode() + b"\n")
        assert self._control.recv(100) == b'{"result": null}\n'

    def connect(self) -> tuple[socket.socket, socket.socket]:
        near = self.dial()
        far, _ = self.server.accept()
        far.settimeout(5)
        return near, far

    def dial(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=5)

    def close(self) -> None:
        self._control.close()
        self._thread.join(5)
        self.server.close()


@pytest.fixture
def proxied() -> Iterator[_Proxied]:
    made = _Proxied()
    yield made
    made.close()


def _is_silent(end: socket.socket) -> bool:
    end.settimeout(_SILENCE_S)
    try:
        with contextlib.suppress(TimeoutError):
            end.recv(1)
            return False
        return True
    finally:
        end.settimeout(5)


def _receive(end: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := end.recv(count - len(data))):
        data += more
    return data


def test_bytes_go_both_ways(proxied: _Proxied) -> None:
    near, far = proxied.connect()
    with near, far:
        near.sendall(b"there")
        assert _receive(far, 5) == b"there"
        far.sendall(b"back")
        assert _receive(near, 4) == b"back"


def test_a_large_stream_arrives_whole_while_the_reader_is_slow(proxied: _Proxied) -> None:
    near, far = proxied.connect()
    data = bytes(range(256)) * 40_000
    with near, far:
        sender = threading.Thread(target=near.sendall, args=(data,))
        sender.start()
        assert _receive(far, len(data)) == data
        sender.join(5)


def test_one_end_may_finish_while_the_other_continues(proxied: _Proxied) -> None:
    near, far = proxied.connect()
    with near, far:
        near.sendall(b"question")
        near.shutdown(socket.SHUT_WR)
        assert _receive(far, 100) == b"question"
        far.sendall(b"answer")
        assert _receive(near, 6) == b"answer"
        far.close()
        assert near.recv(1) == b""


def test_a_blocked_direction_holds_its_bytes_and_only_its_own(proxied: _Proxied) -> None:
    near, far = proxied.connect()
    with near, far:
        proxied.block(_THERE)
        near.sendall(b"held")
        far.sendall(b"free")
        assert _receive(near, 4) == b"free"
        assert _is_silent(far)
        proxied.block()
        assert _receive(far, 4) == b"held"


def test_the_end_of_a_stream_is_held_like_its_bytes(proxied: _Proxied) -> None:
    near, far = proxied.connect()
    with near, far:
        proxied.block(_THERE)
        near.sendall(b"last words")
        near.close()
        assert _is_silent(far)
        proxied.block()
        assert _receive(far, 100) == b"last words"


def test_the_death_of_the_target_is_not_noticed_over_a_blocked_link(proxied: _Proxied) -> None:
    near, far = proxied.connect()
    with near:
        proxied.block(_BACK)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        far.close()
        near.sendall(b"anybody there?")
        assert _is_silent(near)
        proxied.block()
        with pytest.raises(ConnectionResetError):
            near.recv(1)


def test_a_reset_is_passed_on_as_a_reset(proxied: _Proxied) -> None:
    near, far = proxied.connect()
    with far:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        near.close()
        with pytest.raises(ConnectionResetError):
            far.recv(1)


@pytest.mark.parametrize("link", [_THERE, _BACK])
def test_a_new_connection_waits_until_both_directions_are_mended(proxied: _Proxied, link: tuple[int, int]) -> None:
    proxied.block(link)
    with proxied.dial() as near:
        near.sendall(b"hello")
        proxied.server.settimeout(_SILENCE_S)
        with pytest.raises(TimeoutError):
            proxied.server.accept()
        proxied.block()
        proxied.server.settimeout(5)
        far, _ = proxied.server.accept()
        with far:
            assert _receive(far, 5) == b"hello"


def test_a_target_that_is_down_refuses(proxied: _Proxied) -> None:
    proxied.server.close()
    with pytest.raises(ConnectionResetError), proxied.dial() as near:  # the reset may come before dial returns
        near.recv(1)


def test_hundreds_of_connections_are_cut_and_mended_together(proxied: _Proxied) -> None:
    with contextlib.ExitStack() as stack:
        pairs = [proxied.connect() for _ in range(200)]
        for near, far in pairs:
            stack.enter_context(near)
            stack.enter_context(far)
        proxied.block(_THERE, _BACK)
        for number, (near, _) in enumerate(pairs):
            near.sendall(number.to_bytes(4, "big"))
        assert all(_is_silent(far) for _, far in pairs[::100])
        proxied.block()
        for number, (_, far) in enumerate(pairs):
            assert _receive(far, 4) == number.to_bytes(4, "big")
