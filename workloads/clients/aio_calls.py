"""What is asked of aiokafka, as coroutines: on whichever event loop, of a real process or of a simulation.

aiokafka retries internally and does not report the attempts (with idempotence it retries for ever), so any error
that it reports for a record that it accepted is `info`. Its consumer prefetches, so a poll that returns
nothing does not show that a partition is empty, and high watermarks are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from workloads.clients.base import (
    LOG_START,
    ClientError,
    ClientSettings,
    Done,
    Partition,
    PolledPartition,
    PolledRecord,
    PositionLostError,
    SendOutcome,
)
from workloads.clients.producers import OutcomeCollector

FETCH_WAIT_MS: Final = 100

Untyped = Any
"""A value of aiokafka, which carries no types that mypy may follow."""


async def started_producer(settings: ClientSettings, **options: Untyped) -> Untyped:
    """Connect a producer; `options` go to it as they are. Raises aiokafka's errors."""
    producer = AIOKafkaProducer(
        bootstrap_servers=list(settings.bootstrap),
        **settings.security.python_options(),
        client_id=settings.client_id,
        acks="all" if settings.acks == -1 else settings.acks,
        enable_idempotence=settings.idempotence,
        linger_ms=settings.linger_ms,
        request_timeout_ms=settings.request_timeout_ms,
        metadata_max_age_ms=settings.metadata_max_age_ms,
        **options,
    )
    try:
        await producer.start()
    except KafkaError:
        await producer.stop()
        raise
    return producer


async def send(
    producer: Untyped,
    partition: Partition,
    values: Sequence[bytes],
    done: Done,
    keys: Sequence[bytes | None] | None = None,
    timestamp_ms: int | None = None,
) -> None:
    """Send records; `done` is called once, when the outcome of each is known. Without a time each has the present."""
    collector = OutcomeCollector(len(values), done)
    for index, value in enumerate(values):
        try:
            future = await producer.send(
                partition.topic,
                value=value,
                key=None if keys is None else keys[index],
                partition=partition.partition,
                timestamp_ms=timestamp_ms,
            )
        except (KafkaError, AssertionError, ValueError) as error:
            # Raised before the record was put into any batch.
            collector.set(index, SendOutcome("fail", error=type(error).__name__))
        else:
            future.add_done_callback(partial(_delivered, collector, index))


def _delivered(collector: OutcomeCollector, index: int, future: Untyped) -> None:
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


async def started_consumer(settings: ClientSettings) -> Untyped:
    """Connect a consumer that reads by assignment. Raises aiokafka's errors."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=list(settings.bootstrap),
        **settings.security.python_options(),
        client_id=settings.client_id,
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_wait_ms=FETCH_WAIT_MS,
        request_timeout_ms=settings.request_timeout_ms,
        metadata_max_age_ms=settings.metadata_max_age_ms,
    )
    try:
        await consumer.start()
    except KafkaError:
        await consumer.stop()
        raise
    return consumer


async def assign(consumer: Untyped, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
    """Read these partitions from these offsets, or `LOG_START`; returns the offsets. Raises aiokafka's errors."""
    keys = {partition: TopicPartition(*partition) for partition in positions}
    at_start = [keys[partition] for partition, offset in positions.items() if offset == LOG_START]
    consumer.assign(list(keys.values()))
    starts = await consumer.beginning_offsets(at_start) if at_start else {}
    offsets = {
        partition: int(starts[keys[partition]]) if offset == LOG_START else offset
        for partition, offset in positions.items()
    }
    for partition, offset in offsets.items():
        consumer.seek(keys[partition], offset)
    return offsets


def polled_partitions(
    fetched: Mapping[Any, Sequence[Untyped]], positions: Mapping[Partition, int]
) -> list[PolledPartition]:
    """What `getmany` returned, for each partition with records; `positions` are those before it."""
    return [
        PolledPartition(
            Partition(*key),
            positions[Partition(*key)],
            messages[-1].offset + 1,
            None,
            [PolledRecord(message.offset, None, message.value) for message in messages],
        )
        for key, messages in fetched.items()
        if messages
    ]


@contextmanager
def client_errors() -> Iterator[None]:
    """Raise `ClientError` for what aiokafka raises, for a timeout, and for a call that aiokafka has cancelled."""
    try:
        yield
    except OffsetOutOfRangeError as error:
        lost = [Partition(*key) for keys in error.args if isinstance(keys, dict) for key in keys]
        raise PositionLostError("OffsetOutOfRangeError", lost) from error
    except (KafkaError, TimeoutError, KeyError, CancelledError) as error:
        raise ClientError(type(error).__name__) from error
