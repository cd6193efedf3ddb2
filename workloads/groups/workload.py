"""The `groups` workload: what `log` does, read by consumer groups besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from workloads.base import Context, Unread
from workloads.clients.base import Partition
from workloads.clients.groups import Membership, group_library
from workloads.groups.member import MemberPlan, MemberSlot
from workloads.log import LogWorkload
from workloads.threads import WorkerThreads

PROCESSES_FROM: Final = 1 << 32
"""Members' processes are numbered from here: those of producers and readers never get so far."""

COMMIT_INTERVAL_S: Final = 0.3
ASK_INTERVAL_S: Final = 1.0
LIFE_S: Final = 12.0
AWAY_S: Final = 2.0
CRASHES: Final = 0.6


class GroupsWorkload:
    """One worker's producers and readers, and its members of each group."""

    def __init__(self, context: Context) -> None:
        """Raise `ClientMissingError` for a client library that cannot be a member."""
        self._log = LogWorkload(context)
        self._crew = WorkerThreads()
        self._places = self._make_places(context)

    def start(self) -> None:
        """Connect and begin."""
        self._log.start()
        for number, place in enumerate(self._places):
            self._crew.run_steps(f"member-{number}", place.step, place.close)

    def failure(self) -> Exception | None:
        """Tell what broke a thread."""
        return self._log.failure() or self._crew.failure()

    def open(self) -> int:
        """Count sends and commits under way."""
        return self._log.open() + sum(place.open for place in self._places)

    def drain(self) -> None:
        """Start no more sends and commits."""
        self._log.drain()
        for place in self._places:
            place.drain()

    def begin_final(self, ends: Mapping[Partition, int]) -> None:
        """Have everything read, and ask for every committed offset."""
        self._log.begin_final(ends)
        for place in self._places:
            place.begin_final()

    def unread(self) -> Sequence[Unread]:
        """Tell what was not read; a partition whose committed offset was not told yet counts as one at no position."""
        unasked = [
            Unread(place.process(), partition, None, 0) for place in self._places for partition in place.unanswered()
        ]
        return [*self._log.unread(), *unasked]

    def stop(self) -> None:
        """Stop all threads; members leave."""
        self._crew.stop()
        self._log.stop()

    def _make_places(self, context: Context) -> list[MemberSlot]:
        orders, library = context.orders, group_library(context.library)
        groups = [group for group in orders.groups for _ in range(1 if orders.workers > 1 else 2)]
        return [
            MemberSlot(
                MemberPlan(
                    group=group,
                    kept_in=orders.groups[group],
                    partitions=orders.partitions,
                    process=PROCESSES_FROM + orders.worker + orders.workers * number,
                    successor=orders.workers * len(groups),
                    seed=orders.seed,
                    poll_timeout_s=orders.poll_timeout_ms / 1000,
                    poll_interval_s=orders.poll_interval_ms / 1000,
                    commit_interval_s=COMMIT_INTERVAL_S,
                    ask_interval_s=ASK_INTERVAL_S,
                    life_s=LIFE_S,
                    away_s=AWAY_S,
                    crashes=CRASHES,
                    request_timeout_s=orders.request_timeout_ms / 1000,
                ),
                lambda group=group: library.member(  # type: ignore[misc]
                    orders.client_settings, Membership(group, tuple(orders.topics)), context.clock.now
                ),
                context.recorder,
                context.clock.now,
            )
            for number, group in enumerate(groups)
        ]
