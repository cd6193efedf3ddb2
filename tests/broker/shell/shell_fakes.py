"""A scripted node, files whose sync the test releases, and a client that sends raw frames."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from broker.core.configuration.settings import Settings
from broker.core.messages import Listener
from broker.core.ports.events import Effect, Event
from broker.shell.codec import frames
from broker.shell.codec.apis import codec_of

DEADLINE_S = 10.0


class ScriptedNode:
    """Handles events with a function; records them all."""

    def __init__(self, script: Callable[[Event], list[Effect]]) -> None:
        self.script = script
        self.events: list[tuple[int, Event]] = []
        self.ready = False
        self.instead: list[Effect] | None = None
        self.addresses: dict[int, tuple[str, int]] = {}

    def handle(self, now_ms: int, event: Event) -> list[Effect]:
        self.events.append((now_ms, event))
        return self.script(event)

    def after_error(self, event: Event) -> list[Effect] | None:
        return self.instead

    def is_ready(self) -> bool:
        return self.ready

    def broker_address(self, node_id: int) -> tuple[str, int] | None:
        return self.addresses.get(node_id)

    def describe(self) -> dict[str, object]:
        return {"node": 1, "partitions": []}

    def read_log(self, topic: str, partition: int, offset: int, limit: int) -> dict[str, object]:
        if topic == "missing":
            raise KeyError((topic, partition))
        return {"topic": topic, "partition": partition, "offset": offset, "limit": limit}

    def seen(self, kind: type) -> list[Event]:
        """Events of a kind, in order."""
        return [event for _, event in self.events if isinstance(event, kind)]


class GatedFiles:
    """Files of which only `sync` matters: it blocks until the gate of that name opens."""

    def __init__(self, errors: dict[str, Exception] | None = None) -> None:
        self.gates: dict[str, threading.Event] = {}
        self.errors = errors or {}
        self.synced: list[str] = []

    def gate(self, name: str) -> threading.Event:
        return self.gates.setdefault(name, threading.Event())

    def sync(self, name: str) -> None:
        if name in self.gates:
            assert self.gates[name].wait(DEADLINE_S), f"the test did not open the gate of {name}"
        if name in self.errors:
            raise self.errors[name]
        self.synced.append(name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def settings(**changes: object) -> Settings:
    fields: dict[str, object] = {
        "node_id": 1,
        "voters": {100: ("127.0.0.1", 1)},
        "listeners": (Listener("CLIENT", "127.0.0.1", 0),),
        "log_dirs": ("data",),
    }
    return Settings(**{**fields, **changes})


class RawClient:
    """A connection that sends raw bytes and reads whole frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> RawClient:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        with suppress(ConnectionError):
            await self.writer.drain()

    async def request(self, version: int, correlation_id: int, request: object) -> None:
        codec = codec_of(request)
        await self.send(frames.request_frame(codec, version, correlation_id, "raw", request))

    async def frame(self) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            size = int.from_bytes(await self._reader.readexactly(4))
            return await self._reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Wait for the end of the stream; any data before it fails the test."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self._reader.read(1) == b""
            except ConnectionError:
                return True

    def close(self) -> None:
        self.writer.close()


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, or fail."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.002)
