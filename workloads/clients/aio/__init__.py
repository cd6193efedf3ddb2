"""Drives aiokafka, an optional client, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from aiokafka import TopicPartition

from workloads.clients import aio_calls
from workloads.clients.aio.loop import MARGIN_S, Loop, ignored_client_errors
from workloads.clients.aio.member import AiokafkaMember
from workloads.clients.base import (
    POLL_RECORDS_MAX,
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
from workloads.clients.optional_interfaces import Assignor, GroupMember, Membership
from workloads.clients.producers import RenewingProducer


class _AiokafkaConnection:
    """One `AIOKafkaProducer`."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._loop = Loop("aiokafka-producer")
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
            with ignored_client_errors():
                self._loop.call(self._producer.stop(), MARGIN_S)
        self._loop.close()


class _AiokafkaConsumer:
    """One `AIOKafkaConsumer`, by assignment."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._positions: dict[Partition, int] = {}
        self._loop = Loop("aiokafka-consumer")
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
        with ignored_client_errors():
            self._loop.call(self._consumer.stop(), MARGIN_S)
        self._loop.close()

    async def _seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(TopicPartition(*partition), offset)


class _AioKafka:
    name = "aiokafka"
    assignors: frozenset[Assignor] = frozenset({"eager"})

    def producer(self, settings: ClientSettings) -> Producer:
        """Connect a producer."""
        return RenewingProducer(partial(_AiokafkaConnection, settings))

    def consumer(self, settings: ClientSettings) -> Consumer:
        """Connect a consumer."""
        return _AiokafkaConsumer(settings)

    def member(self, settings: ClientSettings, membership: Membership, now: Callable[[], int]) -> GroupMember:
        """Create a member of a group."""
        return AiokafkaMember(settings, membership, now)


def library() -> ClientLibrary:
    """Return the client library."""
    return _AioKafka()
