"""Drives aiokafka, an optional client, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from aiokafka import TopicPartition

from workloads.clients import aio_calls
from workloads.clients.aio_calls import client_errors
from workloads.clients.base import (
    ClientError,
    ClientLibrary,
    ClientSettings,
    Consumer,
    Done,
    EndOffset,
    Partition,
    Poll,
    Producer,
)
from workloads.clients.producers import RenewingProducer

POLL_RECORDS_MAX: Final = 5_000
MARGIN_S: Final = 2.0
"""How much longer than its own timeouts a call of aiokafka may take before it counts as hung."""

T = TypeVar("T")


class _Loop:
    """An event loop on a thread, for callers on other threads."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run to completion. Raises `ClientError` for what aiokafka raises, and after the timeout."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        with client_errors():
            try:
                return future.result(timeout_s)
            finally:
                future.cancel()

    def close(self) -> None:
        """Cancel what still runs on the loop, and stop it."""
        with _ignored_client_errors():
            self.call(_cancel_others(), MARGIN_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)


class _AiokafkaConnection:
    """One `AIOKafkaProducer`."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._loop = _Loop("aiokafka-producer")
        try:
            self._producer = self._loop.call(
                aio_calls.started_producer(settings), settings.request_timeout_ms / 1000 + MARGIN_S
            )
        except ClientError:
            self._loop.close()
            raise

    def send(self, partition: Partition, values: Sequence[bytes], done: Done) -> None:
        work = aio_calls.send(self._producer, partition, values, done)
        asyncio.run_coroutine_threadsafe(work, self._loop.loop)

    def close(self, *, idle: bool) -> None:
        if idle:
            with _ignored_client_errors():
                self._loop.call(self._producer.stop(), MARGIN_S)
        self._loop.close()


class _AiokafkaConsumer:
    """One `AIOKafkaConsumer`, by assignment."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._positions: dict[Partition, int] = {}
        self._loop = _Loop("aiokafka-consumer")
        self._timeout_s = settings.request_timeout_ms / 1000 + MARGIN_S
        try:
            self._consumer = self._loop.call(aio_calls.started_consumer(settings), self._timeout_s)
        except ClientError:
            self._loop.close()
            raise

    def assign(self, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
        self._positions = dict(self._loop.call(aio_calls.assign(self._consumer, positions), self._timeout_s))
        return dict(self._positions)

    def seek(self, partition: Partition, offset: int) -> None:
        self._loop.call(self._seek(partition, offset), self._timeout_s)
        self._positions[partition] = offset

    def poll(self, timeout_s: float) -> Poll:
        work = self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=POLL_RECORDS_MAX)
        fetched = self._loop.call(work, timeout_s + self._timeout_s)
        polled = aio_calls.polled_partitions(fetched, self._positions)
        for row in polled:
            self._positions[row.partition] = row.next_position
        return Poll(polled)

    def end_offset(self, partition: Partition, timeout_s: float) -> EndOffset:
        key = TopicPartition(*partition)
        return EndOffset(int(self._loop.call(self._consumer.end_offsets([key]), timeout_s + MARGIN_S)[key]))

    def close(self) -> None:
        with _ignored_client_errors():
            self._loop.call(self._consumer.stop(), MARGIN_S)
        self._loop.close()

    async def _seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(TopicPartition(*partition), offset)


class _AioKafka:
    name = "aiokafka"

    def producer(self, settings: ClientSettings) -> Producer:
        """Connect a producer."""
        return RenewingProducer(partial(_AiokafkaConnection, settings))

    def consumer(self, settings: ClientSettings) -> Consumer:
        """Connect a consumer."""
        return _AiokafkaConsumer(settings)


def library() -> ClientLibrary:
    """Return the client library."""
    return _AioKafka()


@contextmanager
def _ignored_client_errors() -> Iterator[None]:
    try:
        yield
    except ClientError:
        return  # it is dropped in any case
