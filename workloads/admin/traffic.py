"""Writes to, and reads from, some partitions that may go away."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from workloads.base import Context
from workloads.clients.base import Partition
from workloads.log.reader import Reader, ReadPlan
from workloads.log.senders import TICK_S, Senders, SendPlan
from workloads.pacing import SECOND_NS
from workloads.threads import WorkerThreads
from workloads.values import ValueSource

SENDERS: Final = 2
RATE_PER_S: Final = 20.0
ANSWER_MARGIN_S: Final = 5.0
NEVER_S: Final = 1e6


class Traffic:
    """Two processes that send and one that reads, until they are told to stop."""

    def __init__(
        self, context: Context, partitions: Sequence[Partition], first_process: int, values: ValueSource
    ) -> None:
        """Connect. Nobody else numbers processes from `first_process` on. Raises `ClientError`."""
        orders = context.orders
        self._quiet = False
        self._crew = WorkerThreads()
        self._producer = context.library.producer(orders.client_settings)
        self._senders = Senders(
            SendPlan(
                partitions=partitions,
                processes=range(first_process, first_process + SENDERS),
                successor=SENDERS + 1,
                rate_per_s=RATE_PER_S,
                batch_min=1,
                batch_max=1,
                seed=orders.seed,
                answer_within_ns=int((orders.delivery_timeout_ms / 1000 + ANSWER_MARGIN_S) * SECOND_NS),
            ),
            self._producer,
            context.recorder,
            values,
            context.clock.now,
        )
        plan = ReadPlan(
            partitions=partitions,
            process=first_process + SENDERS,
            seed=orders.seed,
            poll_timeout_s=orders.poll_timeout_ms / 1000,
            poll_interval_s=orders.poll_interval_ms / 1000,
            latest_interval_s=NEVER_S,
            seek_interval_s=NEVER_S,
            request_timeout_s=orders.request_timeout_ms / 1000,
        )
        reader = Reader(
            plan, lambda: context.library.consumer(orders.client_settings), context.recorder, context.clock.now
        )
        self._crew.run_steps("traffic-sends", self._step, lambda: None)
        self._crew.run_steps("traffic-reads", reader.step, reader.close)

    def failure(self) -> Exception | None:
        """Tell what broke a thread."""
        return self._crew.failure()

    def hush(self) -> None:
        """Start no more sends."""
        self._quiet = True

    def stop(self, patience_s: float) -> None:
        """End everything; what is still open after a while is recorded as unknown."""
        deadline_s = time.monotonic() + patience_s
        while self._senders.open and time.monotonic() < deadline_s:
            self._crew.stopping.wait(TICK_S)
        self._crew.stop()
        self._senders.abandon()
        self._producer.close(0)

    def _step(self) -> float:
        if self._quiet:
            self._senders.expire()
        else:
            self._senders.step()
        return TICK_S
