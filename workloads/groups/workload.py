"""The `groups` workload: the workload `log`, also read by consumer groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from history.processes import MEMBERS_FROM
from workloads.base import Context, Unread
from workloads.clients.base import Partition
from workloads.clients.optional_interfaces import Membership, group_library
from workloads.config import WorkerConfig
from workloads.groups.member import MemberPlan, MemberSlot
from workloads.log import LogWorkload
from workloads.threads import WorkerThreads

COMMIT_INTERVAL_S: Final = 0.3
ASK_INTERVAL_S: Final = 1.0
LIFETIME_SESSIONS: Final = 4
"""Mean time until a member leaves or crashes, in session timeouts: a crash stops its group until the session ends."""

AWAY_S: Final = 2.0
CRASHES: Final = 0.6


class GroupsWorkload:
    """One worker's producers and readers, and its members of each group."""

    def __init__(self, context: Context) -> None:
        """Raise `ClientMissingError` for a client library that cannot be a member."""
        self._log = LogWorkload(context)
        self._threads = WorkerThreads()
        self._session_timeout_ms = context.config.session_timeout_ms
        self._slots = self._make_slots(context)

    def start(self) -> None:
        """Connect and start."""
        self._log.start()
        for number, slot in enumerate(self._slots):
            self._threads.run_steps(f"member-{number}", slot.step, slot.close)

    def failure(self) -> Exception | None:
        """Return the exception that ended a thread, if any did."""
        return self._log.failure() or self._threads.failure()

    def refusal(self) -> str | None:
        """Return the line about a session timeout that a group does not accept."""
        if not any(slot.session_refused for slot in self._slots):
            return None
        return (
            f"expected the groups to accept members with a session timeout of {self._session_timeout_ms:,} ms, found "
            "INVALID_SESSION_TIMEOUT; say the least that the system accepts as session-ms-min in its definition"
        )

    def open(self) -> int:
        """Count sends and commits in flight."""
        return self._log.open() + sum(slot.open for slot in self._slots)

    def drain(self) -> None:
        """Start no more sends and commits."""
        self._log.drain()
        for slot in self._slots:
            slot.drain()

    def begin_final(self, ends: Mapping[Partition, int]) -> None:
        """Read everything, and query every committed offset."""
        self._log.begin_final(ends)
        for slot in self._slots:
            slot.begin_final()

    def unread(self) -> Sequence[Unread]:
        """List what was not read; a partition whose committed offset was not answered yet has no position."""
        unanswered = [
            Unread(slot.process(), partition, None, 0) for slot in self._slots for partition in slot.unanswered()
        ]
        return [*self._log.unread(), *unanswered]

    def stop(self) -> None:
        """Stop all threads; members leave."""
        self._threads.stop()
        self._log.stop()

    def _make_slots(self, context: Context) -> list[MemberSlot]:
        config = context.config
        library = group_library(context.library, config.assignor)
        groups = [group for group in config.groups for _ in range(1 if config.workers > 1 else 2)]
        return [
            MemberSlot(
                MemberPlan(
                    group=group,
                    kept_in=config.groups[group],
                    partitions=config.partitions,
                    process=MEMBERS_FROM + config.worker + config.workers * number,
                    successor=config.workers * len(groups),
                    seed=config.seed,
                    poll_timeout_s=config.poll_timeout_ms / 1000,
                    poll_interval_s=config.poll_interval_ms / 1000,
                    commit_interval_s=COMMIT_INTERVAL_S,
                    ask_interval_s=ASK_INTERVAL_S,
                    lifetime_s=LIFETIME_SESSIONS * config.session_timeout_ms / 1000,
                    away_s=AWAY_S,
                    crashes=CRASHES,
                    request_timeout_s=config.request_timeout_ms / 1000,
                ),
                partial(library.member, config.client_settings, _membership(config, group, number), context.clock.now),
                context.recorder,
                context.clock.now,
            )
            for number, group in enumerate(groups)
        ]


def _membership(config: WorkerConfig, group: str, number: int) -> Membership:
    """The membership of all members of a slot, one after the other: a static one comes back as the one before."""
    return Membership(
        group,
        tuple(config.topics),
        config.session_timeout_ms,
        assignor=config.assignor,
        instance=f"{group}-{config.worker}-{number}" if config.static_members else None,
    )
