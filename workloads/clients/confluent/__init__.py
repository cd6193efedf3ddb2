"""Drives librdkafka through confluent-kafka, an optional client.

librdkafka retries internally and does not report the attempts: whatever error it reports for a record that it
accepted, some attempt may have appended it, so that error is `info`. Only a record that it rejects is `fail`.

Its consumer prefetches on its own threads, so a poll that returns nothing does not show that a partition is empty, and
high watermarks are left out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import confluent_kafka as rdkafka

from workloads.clients.base import (
    LOG_START,
    POLL_RECORDS_MAX,
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
from workloads.clients.confluent.calls import Untyped, client_errors, common_settings, name_of
from workloads.clients.confluent.member import ConfluentMember
from workloads.clients.optional_interfaces import Assignor, GroupMember, Membership
from workloads.clients.producers import OutcomeCollector, RenewingProducer

POSITION_LOST: Final = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"})


class _ConfluentConnection:
    """One librdkafka producer and the thread that runs its callbacks."""

    def __init__(self, settings: ClientSettings) -> None:
        self._acks = settings.acks
        with client_errors():
            self._producer = rdkafka.Producer(
                common_settings(settings)
                | {
                    "acks": settings.acks,
                    "enable.idempotence": settings.idempotence,
                    "linger.ms": settings.linger_ms,
                    "request.timeout.ms": settings.request_timeout_ms,
                    "message.timeout.ms": settings.delivery_timeout_ms,
                    "max.in.flight.requests.per.connection": 5,
                }
            )
            self._producer.list_topics(timeout=settings.request_timeout_ms / 1000)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._answer, name="librdkafka-answers", daemon=True)
        self._thread.start()

    def send(self, partition: Partition, values: Sequence[bytes], done: Done) -> None:
        collector = OutcomeCollector(len(values), done)
        for index, value in enumerate(values):
            try:
                self._producer.produce(
                    partition.topic,
                    value=value,
                    partition=partition.partition,
                    on_delivery=partial(self._delivered, collector, index),
                )
            except (rdkafka.KafkaException, BufferError) as error:
                collector.set(index, SendOutcome("fail", error=name_of(error)))

    def close(self, *, idle: bool) -> None:
        if not idle:
            self._producer.purge()
        self._closing.set()
        self._thread.join()

    def _answer(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(0.1)
        self._producer.poll(0)  # callbacks of purged records

    def _delivered(self, collector: OutcomeCollector, index: int, error: Untyped, message: Untyped) -> None:
        if error is not None:
            collector.set(index, SendOutcome("info", error=error.name()))
        elif self._acks == 0:
            collector.set(index, SendOutcome("ok"))
        elif message.offset() is not None and message.offset() >= 0:
            collector.set(index, SendOutcome("ok", int(message.offset())))
        else:
            collector.set(index, SendOutcome("info", error="OffsetUnknown"))


class _ConfluentConsumer:
    """One librdkafka consumer, by assignment."""

    def __init__(self, settings: ClientSettings) -> None:
        self._timeout_s = settings.request_timeout_ms / 1000
        self._positions: dict[Partition, int] = {}
        with client_errors():
            self._consumer = rdkafka.Consumer(
                common_settings(settings)
                | {
                    "group.id": "harrow-unused",  # librdkafka requires one; nothing is ever committed
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    "fetch.queue.backoff.ms": 0,
                    "fetch.wait.max.ms": 100,
                }
            )
            self._consumer.list_topics(timeout=self._timeout_s)

    def assign(self, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
        with client_errors():
            starts = {
                partition: self._watermarks(partition, self._timeout_s)[0] if offset == LOG_START else offset
                for partition, offset in positions.items()
            }
            self._consumer.assign([rdkafka.TopicPartition(*each, offset) for each, offset in starts.items()])
        self._positions = starts
        return dict(starts)

    def seek(self, partition: Partition, offset: int) -> None:
        # seek() fails until librdkafka has started the partition; assigning again is always allowed.
        self.assign({**self._positions, partition: offset})

    def poll(self, timeout_s: float) -> Poll:
        with client_errors():
            messages = self._consumer.consume(POLL_RECORDS_MAX, min(timeout_s, 0.1))
        records: dict[Partition, list[PolledRecord]] = {}
        failure = None
        for message in messages:
            partition = Partition(message.topic(), message.partition())
            if message.error() is not None:
                failure = failure or (message.error().name(), partition)
            elif partition in self._positions and message.offset() >= self._positions[partition]:
                record = PolledRecord(message.offset(), message.leader_epoch(), message.value())
                records.setdefault(partition, []).append(record)
        if failure is not None and not records:
            name, partition = failure
            if name in POSITION_LOST:
                raise PositionLostError(name, [partition])
            raise ClientError(name)
        polled = [
            PolledPartition(partition, self._positions[partition], each[-1].offset + 1, None, each)
            for partition, each in records.items()
        ]
        for row in polled:
            self._positions[row.partition] = row.next_position
        return Poll(polled)

    def end_offset(self, partition: Partition, timeout_s: float) -> EndOffset:
        with client_errors():
            return EndOffset(self._watermarks(partition, timeout_s)[1])

    def close(self) -> None:
        with client_errors():
            self._consumer.close()

    def _watermarks(self, partition: Partition, timeout_s: float) -> tuple[int, int]:
        key = rdkafka.TopicPartition(*partition)
        offsets = self._consumer.get_watermark_offsets(key, timeout=timeout_s, cached=False)
        if offsets is None:
            raise ClientError("_TIMED_OUT")
        return int(offsets[0]), int(offsets[1])


class _Confluent:
    name = "confluent-kafka"
    assignors: frozenset[Assignor] = frozenset({"eager", "cooperative"})

    def producer(self, settings: ClientSettings) -> Producer:
        """Connect a producer."""
        return RenewingProducer(partial(_ConfluentConnection, settings))

    def consumer(self, settings: ClientSettings) -> Consumer:
        """Connect a consumer."""
        return _ConfluentConsumer(settings)

    def member(self, settings: ClientSettings, membership: Membership, now: Callable[[], int]) -> GroupMember:
        """Create a member of a group."""
        return ConfluentMember(settings, membership, now)


def library() -> ClientLibrary:
    """Return the client library."""
    return _Confluent()
