"""A fake machine of a fleet: its agent is a thread, and the test decides when it loses power."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from harness.environments.base import NodePlan
from harness.environments.ssh.connection.facts import Facts
from harness.environments.ssh.connection.hosts import SshHost
from harness.environments.ssh.connection.rpc import Request, RpcServer

Answer = Callable[[Request], object]


class FakeChannel:
    """What a command's channel is to the harness, over a pair of sockets."""

    def __init__(self, ours: socket.socket, errors: bytes, status: int) -> None:
        self._socket = ours
        self._errors = errors
        self.status_event = threading.Event()
        self.exit_status = status
        self.status_event.set()

    def sendall(self, data: bytes) -> None:
        self._socket.sendall(data)

    def makefile(self, mode: str) -> IO[Any]:
        return self._socket.makefile(mode)

    def recv_stderr_ready(self) -> bool:
        return bool(self._errors)

    def recv_stderr(self, size: int) -> bytes:
        said, self._errors = self._errors[:size], self._errors[size:]
        return said

    def shutdown_write(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class FakeConnection:
    """Implements what is used of `harness.environments.ssh.connection.ssh.SshConnection`; every command is an agent."""

    is_up = True

    def __init__(self, host: SshHost, answer: Answer, errors: bytes = b"", status: int = -1) -> None:
        self.host = host
        self._answer = answer
        self._errors = errors
        self._status = status
        self._theirs: socket.socket | None = None

    def open(self, command: str, *, as_root: bool = False) -> FakeChannel:
        ours, self._theirs = socket.socketpair()
        threading.Thread(target=self._obey, args=(self._theirs,), daemon=True).start()
        return FakeChannel(ours, self._errors, self._status)

    def _obey(self, theirs: socket.socket) -> None:
        with suppress(OSError), theirs.makefile("rb", buffering=0) as source:
            listener = RpcServer(source, theirs.fileno())
            if listener.first() is not None:
                listener.accept(None)
                listener.serve(self._answer, (ValueError,), in_turn=lambda _: False)
        self.lose()

    def lose(self) -> None:
        """The machine at the other end is gone."""
        if self._theirs is not None:
            with suppress(OSError):
                self._theirs.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.lose()


class FakeFleet:
    """One machine. `connect` is put in the place of the class `SshConnection`."""

    how = "a thread"
    ours = True
    facts = Facts((3, 11), "x86_64", frozenset({"nft", "crc32c"}), frozenset(), "127.0.0.1", 22)

    def __init__(self, answer: Answer, words: str = "") -> None:
        self._answer = answer
        self._words = words
        self.connections: list[FakeConnection] = []

    def connect(self, host: SshHost, dialled: socket.socket | None = None) -> FakeConnection:
        self.connections.append(FakeConnection(host, self._answer))
        return self.connections[-1]

    def host(self, node_id: int) -> SshHost:
        return SshHost(name=f"vm-{node_id}", address="127.0.0.1", directory="/harrow")

    def dial(self, node_id: int) -> None:
        return None

    def cut_power(self, node_id: int) -> None:
        self.connections[-1].lose()

    def last_words(self, node_id: int) -> str:
        return self._words


def plan_in(place: Path) -> NodePlan:
    """One broker's plan, with a directory that is there."""
    directory = place / "nodes" / "1"
    directory.mkdir(parents=True)
    return NodePlan(1, "broker", directory, directory / "data", place / "1.sock", "files")
