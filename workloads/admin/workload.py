"""The `admin` workload: what `log` does, and in one worker an administrator of topics."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from workloads.admin.lives import TopicLifecycles, TopicPlan
from workloads.admin.traffic import Traffic
from workloads.base import Context, Unread
from workloads.clients.administration import admin_library
from workloads.clients.base import Partition
from workloads.log import LogWorkload
from workloads.threads import WorkerThreads
from workloads.values import ValueSource

PROCESSES_FROM: Final = 2 << 32
"""The administrator's number; the processes of its traffic follow, in blocks of their own."""
PROCESSES_PER_TRAFFIC: Final = 1 << 20
VALUES_FROM: Final = 1 << 39
"""The log has the worker's values up to here."""
VALUES_PER_TRAFFIC: Final = 1 << 20
ADMINISTRATOR: Final = 0
"""The worker that has the administrator."""

STAGE_S: Final = 1.5
LINGER_S: Final = 1.0
RETRY_S: Final = 1.0


class AdminWorkload:
    """One worker's producers and readers, and the administrator if it is his."""

    def __init__(self, context: Context) -> None:
        """Raise `ClientMissingError` for a client library that cannot administer."""
        self._context = context
        self._log = LogWorkload(context)
        self._crew = WorkerThreads()
        self._ended = threading.Event()
        self._at_work = 0
        self._blocks = itertools.count(1)
        library = admin_library(context.library)
        orders = context.orders
        self._lives = TopicLifecycles(
            TopicPlan(
                PROCESSES_FROM,
                orders.seed,
                orders.partitions,
                STAGE_S,
                LINGER_S,
                orders.delivery_timeout_ms / 1000,
                RETRY_S,
            ),
            lambda: library.administrator(orders.client_settings),
            self._begin,
            context.recorder,
            context.clock.now,
            self._ended,
        )

    def start(self) -> None:
        """Connect and begin."""
        self._log.start()
        if self._context.orders.worker == ADMINISTRATOR:
            self._at_work = 1
            self._crew.run("administrator", self._administer)

    def failure(self) -> Exception | None:
        """Tell what broke a thread."""
        return self._log.failure() or self._crew.failure() or self._lives.failure()

    def open(self) -> int:
        """Count sends under way, and the administrator until his last topic is at rest."""
        return self._log.open() + self._at_work

    def drain(self) -> None:
        """Start no more sends, and change no more topics."""
        self._log.drain()
        self._ended.set()

    def begin_final(self, ends: Mapping[Partition, int]) -> None:
        """Have everything read, topics that were made and are still there included."""
        self._log.begin_final(ends)

    def unread(self) -> Sequence[Unread]:
        """Tell what the final reads have not reached."""
        return self._log.unread()

    def stop(self) -> None:
        """Stop all threads and record what is open."""
        self._ended.set()
        self._crew.stop()
        self._log.stop()

    def _administer(self) -> None:
        try:
            self._lives.live()
        finally:
            self._at_work = 0

    def _begin(self, partitions: Sequence[Partition]) -> Traffic:
        block = next(self._blocks)
        values = ValueSource(self._context.orders.worker, VALUES_FROM + block * VALUES_PER_TRAFFIC)
        return Traffic(self._context, partitions, PROCESSES_FROM + block * PROCESSES_PER_TRAFFIC, values)
