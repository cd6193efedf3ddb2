"""The `admin` workload: the workload `log`, and in one worker an administrator of topics."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from history import processes
from workloads.admin.lifecycles import TopicLifecycles, TopicPlan, TopicTraffic
from workloads.base import Context, Unread
from workloads.clients.base import Partition
from workloads.clients.optional_interfaces import admin_library
from workloads.log import LogWorkload
from workloads.threads import WorkerThreads
from workloads.values import ValueSource

VALUES_FROM: Final = 1 << 39
"""Below this the worker's values belong to the log."""
VALUES_PER_TRAFFIC: Final = 1 << 20
WORKER: Final = 0
"""The worker that has the administrator."""

STAGE_S: Final = 1.5
LINGER_S: Final = 1.0
RETRY_S: Final = 1.0


class AdminWorkload:
    """One worker's producers and readers, and in one worker the administrator."""

    def __init__(self, context: Context) -> None:
        """Raise `ClientMissingError` for a client library that cannot administer."""
        self._context = context
        self._log = LogWorkload(context)
        self._threads = WorkerThreads()
        self._ended = threading.Event()
        self._administering = 0
        self._blocks = itertools.count(1)
        library = admin_library(context.library)
        config = context.config
        self._lifecycles = TopicLifecycles(
            TopicPlan(
                processes.ADMINISTRATOR,
                config.seed,
                config.partitions,
                STAGE_S,
                LINGER_S,
                config.delivery_timeout_ms / 1000,
                RETRY_S,
            ),
            lambda: library.administrator(config.client_settings),
            self._begin,
            context.recorder,
            context.clock.now,
            self._ended,
        )

    def start(self) -> None:
        """Connect and start."""
        self._log.start()
        if self._context.config.worker == WORKER:
            self._administering = 1
            self._threads.run("administrator", self._administer)

    def failure(self) -> Exception | None:
        """Return the exception that ended a thread, if any did."""
        return self._log.failure() or self._threads.failure() or self._lifecycles.failure()

    def open(self) -> int:
        """Count sends in flight, and 1 for the administrator until its last topic is quiesced."""
        return self._log.open() + self._administering

    def drain(self) -> None:
        """Start no more sends and no more changes of topics."""
        self._log.drain()
        self._ended.set()

    def begin_final(self, ends: Mapping[Partition, int]) -> None:
        """Read everything, including the topics that the administrator created and that still exist."""
        self._log.begin_final(ends)

    def unread(self) -> Sequence[Unread]:
        """List what the final reads have not reached."""
        return self._log.unread()

    def stop(self) -> None:
        """Stop all threads and record what is open."""
        self._ended.set()
        self._threads.stop()
        self._log.stop()

    def _administer(self) -> None:
        try:
            self._lifecycles.run()
        finally:
            self._administering = 0

    def _begin(self, partitions: Sequence[Partition]) -> TopicTraffic:
        block = next(self._blocks)
        values = ValueSource(self._context.config.worker, VALUES_FROM + block * VALUES_PER_TRAFFIC)
        return TopicTraffic(
            self._context, partitions, processes.ADMINISTRATOR + block * processes.PROCESSES_PER_TRAFFIC, values
        )
