"""The `log` workload: append unique values to partitions, and read them back."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from workloads.base import Context, Unread
from workloads.clients.base import ClientError, Partition, Producer
from workloads.log.reader import Reader, ReadPlan
from workloads.log.senders import EXPIRY_INTERVAL_S, TICK_S, Numbers, Payload, Senders, SendPlan
from workloads.threads import SECOND_NS, WorkerThreads
from workloads.values import ValueSource

ANSWER_MARGIN_S: Final = 5.0
"""A send without an answer this long after its delivery timeout will never be answered."""


def process_numbers(worker: int, workers: int, processes: int) -> range:
    """Number the first logical processes of a worker; each successor adds `workers * processes`.

    A worker owns the numbers that are congruent to its own modulo `workers`, so no two workers share a number,
    however many processes each of them has.
    """
    return range(worker, worker + workers * processes, workers)


class LogWorkload:
    """One worker's sending and reading processes."""

    def __init__(self, context: Context, payload: Payload | None = None, records_max: int | None = None) -> None:
        """`payload`: of the records (default: numbers); `records_max`: per send (default: as configured)."""
        self._context = context
        self._payload = payload or Numbers()
        self._records_max = records_max
        self._threads = WorkerThreads()
        self._draining = threading.Event()
        self._sends_begin = threading.Event()
        self._sends_begin.set()
        self._producer: Producer | None = None
        self._senders: Senders | None = None
        self._readers = [self._reader(number) for number in self._numbers()[context.config.producers :]]

    def start(self) -> None:
        """Connect the producer and start all processes."""
        if self._context.config.producers:
            self._producer = self._connect_producer()
            self._senders = Senders(
                self._send_plan(),
                self._producer,
                self._context.recorder,
                ValueSource(self._context.config.worker),
                self._context.clock.now,
                self._payload,
            )
            self._threads.run("senders", partial(self._send_until_drained, self._senders))
        for number, reader in enumerate(self._readers):
            self._threads.run_steps(f"reader-{number}", reader.step, reader.close)

    def failure(self) -> Exception | None:
        """Return the exception that ended a thread, if any did."""
        return self._threads.failure()

    def open(self) -> int:
        """Count sends in flight; after `drain`, one more while the sending thread may still begin one."""
        if self._senders is None:
            return 0
        beginning = self._draining.is_set() and self._sends_begin.is_set()  # before the count: it is final then
        return beginning + self._senders.open

    def drain(self) -> None:
        """Start no more sends."""
        self._draining.set()

    def begin_final(self, ends: Mapping[Partition, int]) -> None:
        """Make every reader read everything from the start."""
        for reader in self._readers:
            reader.begin_final(ends)

    def unread(self) -> Sequence[Unread]:
        """List what the final reads have not reached."""
        return [unread for reader in self._readers for unread in reader.unread()]

    def stop(self) -> None:
        """Stop all threads and record what is open."""
        self._draining.set()
        self._threads.stop()
        if self._senders is not None:
            self._senders.abandon()
        self._payload.close()
        if self._producer is not None:
            self._producer.close(0)

    def _numbers(self) -> range:
        config = self._context.config
        return process_numbers(config.worker, config.workers, config.producers + config.readers)

    def _send_plan(self) -> SendPlan:
        config = self._context.config
        numbers = self._numbers()
        return SendPlan(
            partitions=config.partitions,
            processes=numbers[: config.producers],
            successor=len(numbers) * config.workers,
            rate_per_s=config.rate,
            batch_min=min(config.batch_min, self._records_max or config.batch_min),
            batch_max=min(config.batch_max, self._records_max or config.batch_max),
            seed=config.seed,
            answer_within_ns=int((config.delivery_timeout_ms / 1000 + ANSWER_MARGIN_S) * SECOND_NS),
        )

    def _reader(self, number: int) -> Reader:
        config = self._context.config
        plan = ReadPlan(
            partitions=config.partitions,
            process=number,
            seed=config.seed,
            poll_timeout_s=config.poll_timeout_ms / 1000,
            poll_interval_s=config.poll_interval_ms / 1000,
            latest_interval_s=config.latest_interval_ms / 1000,
            seek_interval_s=config.seek_interval_ms / 1000,
            request_timeout_s=config.request_timeout_ms / 1000,
        )
        context = self._context
        return Reader(
            plan,
            lambda: context.library.consumer(config.client_settings),
            context.recorder,
            context.clock.now,
            self._payload.read,
        )

    def _connect_producer(self) -> Producer:
        deadline = time.monotonic() + self._context.config.connect_timeout_s
        while True:
            try:
                return self._context.library.producer(self._context.config.client_settings)
            except ClientError:
                if time.monotonic() >= deadline or self._threads.stopping.wait(0.2):
                    raise

    def _send_until_drained(self, senders: Senders) -> None:
        try:
            while not self._draining.wait(TICK_S):
                senders.step()
        finally:
            self._sends_begin.clear()
        while not self._threads.stopping.wait(EXPIRY_INTERVAL_S):
            senders.expire()
