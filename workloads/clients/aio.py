"""Drives aiokafka, an optional client, on an event loop in a thread of its own.

aiokafka retries internally and does not report the attempts (with idempotence it retries for ever), so any error
that it reports for a record that it accepted is `info`. Its consumer prefetches, so a poll that returns
nothing does not show that a partition is empty, and high watermarks are left out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from workloads.clients.base import (
    LOG_START,
    ClientError,
    ClientLibrary,
    ClientSettings,
    Consumer,
    Done,
    EndOffset,
    Partition,
    Poll,
    PolledPartition,
    PolledRecord,
    PositionLostError,
    Producer,
    SendOutcome,
)
from workloads.clients.producers import OutcomeCollector, RenewingProducer

POLL_RECORDS_MAX: Final = 5_000
MARGIN_S: Final = 2.0
"""How much longer than its own timeouts a call of aiokafka may take before it counts as hung."""

Untyped = Any
"""A value of aiokafka, which carries no types that mypy may follow."""

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
        with _client_errors():
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
            self._producer = self._loop.call(self._start(), settings.request_timeout_ms / 1000 + MARGIN_S)
        except ClientError:
            self._loop.close()
            raise

    def send(self, partition: Partition, values: Sequence[bytes], done: Done) -> None:
        collector = OutcomeCollector(len(values), done)
        asyncio.run_coroutine_threadsafe(self._send(partition, values, collector), self._loop.loop)

    def close(self, *, idle: bool) -> None:
        if idle:
            with _ignored_client_errors():
                self._loop.call(self._producer.stop(), MARGIN_S)
        self._loop.close()

    async def _start(self) -> Untyped:
        settings = self._settings
        producer = AIOKafkaProducer(
            bootstrap_servers=list(settings.bootstrap),
            client_id=settings.client_id,
            acks="all" if settings.acks == -1 else settings.acks,
            enable_idempotence=settings.idempotence,
            linger_ms=settings.linger_ms,
            request_timeout_ms=settings.request_timeout_ms,
            metadata_max_age_ms=settings.metadata_max_age_ms,
        )
        try:
            await producer.start()
        except KafkaError:
            await producer.stop()
            raise
        return producer

    async def _send(self, partition: Partition, values: Sequence[bytes], collector: OutcomeCollector) -> None:
        for index, value in enumerate(values):
            try:
                future = await self._producer.send(partition.topic, value=value, partition=partition.partition)
            except (KafkaError, AssertionError, ValueError) as error:
                # Raised before the record was put into any batch.
                collector.set(index, SendOutcome("fail", error=type(error).__name__))
            else:
                future.add_done_callback(partial(self._delivered, collector, index))

    def _delivered(self, collector: OutcomeCollector, index: int, future: Untyped) -> None:
        if future.cancelled():
            collector.set(index, SendOutcome("info", error="Cancelled"))
        elif future.exception() is not None:
            collector.set(index, SendOutcome("info", error=type(future.exception()).__name__))
        elif future.result() is None:  # acks=0
            collector.set(index, SendOutcome("ok"))
        elif future.result().offset >= 0:
            collector.set(index, SendOutcome("ok", int(future.result().offset)))
        else:
            collector.set(index, SendOutcome("info", error="DuplicateSequenceNumber"))


class _AiokafkaConsumer:
    """One `AIOKafkaConsumer`, by assignment."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._positions: dict[Partition, int] = {}
        self._loop = _Loop("aiokafka-consumer")
        self._timeout_s = settings.request_timeout_ms / 1000 + MARGIN_S
        try:
            self._consumer = self._loop.call(self._start(), self._timeout_s)
        except ClientError:
            self._loop.close()
            raise

    def assign(self, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
        self._positions = dict(self._loop.call(self._assign(positions), self._timeout_s))
        return dict(self._positions)

    def seek(self, partition: Partition, offset: int) -> None:
        self._loop.call(self._seek(partition, offset), self._timeout_s)
        self._positions[partition] = offset

    def poll(self, timeout_s: float) -> Poll:
        work = self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=POLL_RECORDS_MAX)
        fetched = self._loop.call(work, timeout_s + self._timeout_s)
        polled = [
            PolledPartition(
                Partition(*key),
                self._positions[Partition(*key)],
                messages[-1].offset + 1,
                None,
                [PolledRecord(message.offset, None, message.value) for message in messages],
            )
            for key, messages in fetched.items()
            if messages
        ]
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

    async def _start(self) -> Untyped:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=list(self._settings.bootstrap),
            client_id=self._settings.client_id,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=100,
            request_timeout_ms=self._settings.request_timeout_ms,
            metadata_max_age_ms=self._settings.metadata_max_age_ms,
        )
        try:
            await consumer.start()
        except KafkaError:
            await consumer.stop()
            raise
        return consumer

    async def _assign(self, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
        keys = {partition: TopicPartition(*partition) for partition in positions}
        at_start = [keys[partition] for partition, offset in positions.items() if offset == LOG_START]
        self._consumer.assign(list(keys.values()))
        starts = await self._consumer.beginning_offsets(at_start) if at_start else {}
        offsets = {
            partition: int(starts[keys[partition]]) if offset == LOG_START else offset
            for partition, offset in positions.items()
        }
        for partition, offset in offsets.items():
            self._consumer.seek(keys[partition], offset)
        return offsets

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
def _client_errors() -> Iterator[None]:
    try:
        yield
    except OffsetOutOfRangeError as error:
        lost = [Partition(*key) for keys in error.args if isinstance(keys, dict) for key in keys]
        raise PositionLostError("OffsetOutOfRangeError", lost) from error
    except (KafkaError, TimeoutError, KeyError) as error:
        raise ClientError(type(error).__name__) from error


@contextmanager
def _ignored_client_errors() -> Iterator[None]:
    try:
        yield
    except ClientError:
        return  # it is dropped in any case
