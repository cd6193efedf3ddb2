"""Writes to and reads from partitions that may be deleted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from workloads.base import Context
from workloads.clients.base import Partition
from workloads.log.reader import Reader, ReadPlan
from workloads.log.senders import TICK_S, Senders, SendPlan
from workloads.threads import SECOND_NS, WorkerThreads
from workloads.values import ValueSource

SENDERS: Final = 2
RATE_PER_S: Final = 20.0
ANSWER_MARGIN_S: Final = 5.0
NEVER_S: Final = 1e6


class TopicTraffic:
    """Two processes that send and one that reads, until `stop`."""

    def __init__(
        self, context: Context, partitions: Sequence[Partition], first_process: int, values: ValueSource
    ) -> None:
        """Connect. Process numbers from `first_process` on are reserved for this traffic. Raises `ClientError`."""
        config = context.config
        self._quiesced = False
        self._threads = WorkerThreads()
        self._producer = context.library.producer(config.client_settings)
        self._senders = Senders(
            SendPlan(
                partitions=partitions,
                processes=range(first_process, first_process + SENDERS),
                successor=SENDERS + 1,
                rate_per_s=RATE_PER_S,
                batch_min=1,
                batch_max=1,
                seed=config.seed,
                answer_within_ns=int((config.delivery_timeout_ms / 1000 + ANSWER_MARGIN_S) * SECOND_NS),
            ),
            self._producer,
            context.recorder,
            values,
            context.clock.now,
        )
        plan = ReadPlan(
            partitions=partitions,
            process=first_process + SENDERS,
            seed=config.seed,
            poll_timeout_s=config.poll_timeout_ms / 1000,
            poll_interval_s=config.poll_interval_ms / 1000,
            latest_interval_s=NEVER_S,
            seek_interval_s=NEVER_S,
            request_timeout_s=config.request_timeout_ms / 1000,
        )
        reader = Reader(
            plan, lambda: context.library.consumer(config.client_settings), context.recorder, context.clock.now
        )
        self._threads.run_steps("traffic-sends", self._step, lambda: None)
        self._threads.run_steps("traffic-reads", reader.step, reader.close)

    def failure(self) -> Exception | None:
        """Return the exception that ended a thread, if any did."""
        return self._threads.failure()

    def quiesce(self) -> None:
        """Start no more sends."""
        self._quiesced = True

    def stop(self, timeout_s: float) -> None:
        """Stop all threads; sends still open after the timeout are recorded as unknown."""
        deadline_s = time.monotonic() + timeout_s
        while self._senders.open and time.monotonic() < deadline_s:
            self._threads.stopping.wait(TICK_S)
        self._threads.stop()
        self._senders.abandon()
        self._producer.close(0)

    def _step(self) -> float:
        if self._quiesced:
            self._senders.expire()
        else:
            self._senders.step()
        return TICK_S
