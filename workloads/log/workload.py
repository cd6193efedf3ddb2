"""The `log` workload: append unique values to partitions, and read them back."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from workloads.base import Context, Unread
from workloads.clients.base import ClientError, Partition, Producer
from workloads.log.payload import Numbers, Payload
from workloads.log.reader import Reader, ReadPlan
from workloads.log.senders import EXPIRY_INTERVAL_S, TICK_S, Senders, SendPlan
from workloads.pacing import SECOND_NS
from workloads.threads import WorkerThreads
from workloads.values import ValueSource

ANSWER_MARGIN_S: Final = 5.0
"""A send that its client has not answered this long after its delivery timeout will never be answered."""


def process_numbers(worker: int, workers: int, processes: int) -> range:
    """Number the first logical processes of a worker; each successor adds `workers * processes`.

    A worker owns the numbers that leave its own remainder by `workers`, so no two workers ever share one, however
    many processes each of them has.
    """
    return range(worker, worker + workers * processes, workers)


class LogWorkload:
    """One worker's sending and reading processes."""

    def __init__(self, context: Context, cargo: Payload | None = None, records_max: int | None = None) -> None:
        """Say what the records carry, if not only numbers, and how many a send has at most, if not as ordered."""
        self._context = context
        self._cargo = cargo or Numbers()
        self._records_max = records_max
        self._crew = WorkerThreads()
        self._draining = threading.Event()
        self._producer: Producer | None = None
        self._senders: Senders | None = None
        self._readers = [self._reader(number) for number in self._numbers()[context.orders.producers :]]

    def start(self) -> None:
        """Connect the producer and start all processes."""
        if self._context.orders.producers:
            self._producer = self._connect_producer()
            self._senders = Senders(
                self._send_plan(),
                self._producer,
                self._context.recorder,
                ValueSource(self._context.orders.worker),
                self._context.clock.now,
                self._cargo,
            )
            self._crew.run("senders", partial(self._send_until_drained, self._senders))
        for number, reader in enumerate(self._readers):
            self._crew.run_steps(f"reader-{number}", reader.step, reader.close)

    def failure(self) -> Exception | None:
        """Tell what broke a thread of this workload."""
        return self._crew.failure()

    def open(self) -> int:
        """Count sends in flight."""
        return self._senders.open if self._senders is not None else 0

    def drain(self) -> None:
        """Start no more sends."""
        self._draining.set()

    def begin_final(self, ends: Mapping[Partition, int]) -> None:
        """Have every reader read everything from the start."""
        for reader in self._readers:
            reader.begin_final(ends)

    def unread(self) -> Sequence[Unread]:
        """Tell what the final reads have not reached."""
        return [unread for reader in self._readers for unread in reader.unread()]

    def stop(self) -> None:
        """Stop all threads and record what is open."""
        self._draining.set()
        self._crew.stop()
        if self._senders is not None:
            self._senders.abandon()
        self._cargo.close()
        if self._producer is not None:
            self._producer.close(0)

    def _numbers(self) -> range:
        orders = self._context.orders
        return process_numbers(orders.worker, orders.workers, orders.producers + orders.readers)

    def _send_plan(self) -> SendPlan:
        orders = self._context.orders
        numbers = self._numbers()
        return SendPlan(
            partitions=orders.partitions,
            processes=numbers[: orders.producers],
            successor=len(numbers) * orders.workers,
            rate_per_s=orders.rate,
            batch_min=min(orders.batch_min, self._records_max or orders.batch_min),
            batch_max=min(orders.batch_max, self._records_max or orders.batch_max),
            seed=orders.seed,
            answer_within_ns=int((orders.delivery_timeout_ms / 1000 + ANSWER_MARGIN_S) * SECOND_NS),
        )

    def _reader(self, number: int) -> Reader:
        orders = self._context.orders
        plan = ReadPlan(
            partitions=orders.partitions,
            process=number,
            seed=orders.seed,
            poll_timeout_s=orders.poll_timeout_ms / 1000,
            poll_interval_s=orders.poll_interval_ms / 1000,
            latest_interval_s=orders.latest_interval_ms / 1000,
            seek_interval_s=orders.seek_interval_ms / 1000,
            request_timeout_s=orders.request_timeout_ms / 1000,
        )
        context = self._context
        return Reader(
            plan,
            lambda: context.library.consumer(orders.client_settings),
            context.recorder,
            context.clock.now,
            self._cargo.read,
        )

    def _connect_producer(self) -> Producer:
        deadline = time.monotonic() + self._context.orders.connect_timeout_s
        while True:
            try:
                return self._context.library.producer(self._context.orders.client_settings)
            except ClientError:
                if time.monotonic() >= deadline or self._crew.stopping.wait(0.2):
                    raise

    def _send_until_drained(self, senders: Senders) -> None:
        while not self._draining.wait(TICK_S):
            senders.step()
        while not self._crew.stopping.wait(EXPIRY_INTERVAL_S):
            senders.expire()
