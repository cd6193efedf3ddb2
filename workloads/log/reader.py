"""A logical process of the `log` workload that reads.

It is assigned all partitions from their start, polls, now and then queries the end offset of a partition, and now
and then seeks back a little in one of them. In the final phase it reads everything again from the start up to
given ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from workloads.base import Unread
from workloads.clients.base import LOG_START, ClientError, Consumer, Partition, PolledPartition, PositionLostError
from workloads.recording import Phase, Recorder
from workloads.threads import SECOND_NS

RETRY_PAUSE_S: Final = 0.2
FAILURES_MAX: Final = 10
"""After so many failed operations in a row a reader starts over with a new client."""
SILENCE_S_MAX: Final = 5.0
"""A client without an answer from any broker for so long is replaced: kafka-python 3.0.12 can hang for ever after some
elections."""
SEEK_BACK_MAX: Final = 200
"""Maximum of offsets that a reader seeks back."""


@dataclass(frozen=True)
class ReadPlan:
    """What a reading process does."""

    partitions: Sequence[Partition]
    process: int
    seed: int
    poll_timeout_s: float
    poll_interval_s: float  # between polls that returned records: each costs the brokers a fetch
    latest_interval_s: float
    seek_interval_s: float
    request_timeout_s: float


class Reader:
    """Reads and records. `step` is for one thread; `begin_final` and `unread` may be called from another."""

    def __init__(
        self,
        plan: ReadPlan,
        connect: Callable[[], Consumer],
        recorder: Recorder,
        now: Callable[[], int],
        on_poll: Callable[[PolledPartition], None] = lambda _polled: None,
    ) -> None:
        self._plan = plan
        self._on_poll = on_poll
        self._connect = connect
        self._recorder = recorder
        self._now = now
        self._choices = random.Random(f"{plan.seed}/{plan.process}")  # noqa: S311 - choices, not secrets
        self._consumer: Consumer | None = None
        self._wanted: dict[Partition, int] | None = dict.fromkeys(plan.partitions, LOG_START)
        self._positions: dict[Partition, int] = {}
        self._fresh: set[Partition] = set()  # assigned or sought, and without an answer since
        self._failures = 0
        self._answered_ns = now()
        self._ends: Mapping[Partition, int] | None = None
        self._final = False
        self._latest_due_ns = self._next_due(plan.latest_interval_s)
        self._seek_due_ns = self._next_due(plan.seek_interval_s)

    def begin_final(self, ends: Mapping[Partition, int]) -> None:
        """Read everything from the start until these ends; takes effect with the next step."""
        self._ends = dict(ends)

    def unread(self) -> Sequence[Unread]:
        """List what is left to be read in the final phase; empty when it is complete."""
        ends, positions = self._ends or {}, dict(self._positions) if self._final else {}
        return [
            Unread(self._plan.process, partition, positions.get(partition), end)
            for partition, end in ends.items()
            if positions.get(partition, -1) < end
        ]

    def step(self) -> float:
        """Do one action; returns how many seconds to sleep."""
        if self._ends is not None and not self._final:
            self._wanted = dict.fromkeys(self._ends, LOG_START)
            self._positions = {}  # before `_final`: `unread` must not use positions of the main phase
            self._final = True
            self._drop_client()
        try:
            if self._consumer is None:
                self._consumer = self._connect()
            if self._wanted is not None:
                self._assign(self._consumer, self._wanted)
        except ClientError:
            return self._failed()
        if self._final:
            return self._read_to_end(self._consumer)
        if self._now() >= self._latest_due_ns:
            self._latest_due_ns = self._next_due(self._plan.latest_interval_s)
            return self._ask_latest(self._consumer)
        if self._now() >= self._seek_due_ns:
            self._seek_due_ns = self._next_due(self._plan.seek_interval_s)
            self._go_back(self._consumer)
        return self._poll(self._consumer, "main")

    def close(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            self._disconnect(self._consumer)

    def _next_due(self, interval_s: float) -> int:
        return self._now() + int(interval_s * self._choices.uniform(0.5, 1.5) * SECOND_NS)

    def _assign(self, consumer: Consumer, wanted: Mapping[Partition, int]) -> None:
        self._positions = dict(consumer.assign(wanted))
        self._fresh = set(wanted)
        self._wanted = None

    def _read_to_end(self, consumer: Consumer) -> float:
        if not self.unread():
            return RETRY_PAUSE_S
        self._poll(consumer, "final")
        return RETRY_PAUSE_S if self._failures else 0.0

    def _poll(self, consumer: Consumer, phase: Phase) -> float:
        invocation = self._recorder.invoke(self._plan.process, phase, self._now())
        try:
            poll = consumer.poll(self._plan.poll_timeout_s)
        except PositionLostError as error:
            self._recorder.read_failed(invocation, "poll", str(error), self._now())
            self._wanted = {
                **self._positions,
                **dict.fromkeys(error.partitions or self._positions, LOG_START),
            }
            return self._failed()
        except ClientError as error:
            self._recorder.read_failed(invocation, "poll", str(error), self._now())
            return self._failed()
        self._recorder.poll_ended(invocation, poll, self._fresh, self._now())
        self._failures = 0
        if poll.partitions:
            self._answered_ns = self._now()
        elif self._now() - self._answered_ns > SILENCE_S_MAX * SECOND_NS:
            self._start_over()
        for polled in poll.partitions:
            self._on_poll(polled)
            self._fresh.discard(polled.partition)
            self._positions[polled.partition] = polled.next_position
        return self._plan.poll_interval_s if any(polled.records for polled in poll.partitions) else 0.0

    def _ask_latest(self, consumer: Consumer) -> float:
        partition = self._choices.choice(self._plan.partitions)
        invocation = self._recorder.invoke(self._plan.process, "main", self._now())
        try:
            end = consumer.end_offset(partition, self._plan.request_timeout_s)
        except ClientError as error:
            self._recorder.read_failed(invocation, "latest", str(error), self._now())
            return self._failed()
        self._recorder.latest_ended(invocation, partition, end, self._now())
        self._failures = 0
        return 0.0

    def _go_back(self, consumer: Consumer) -> None:
        partition = self._choices.choice(self._plan.partitions)
        position = max(0, self._positions[partition] - self._choices.randint(1, SEEK_BACK_MAX))
        try:
            consumer.seek(partition, position)
        except ClientError:
            return
        self._positions[partition] = position
        self._fresh.add(partition)

    def _failed(self) -> float:
        self._failures += 1
        if self._failures >= FAILURES_MAX:
            self._start_over()
        return RETRY_PAUSE_S

    def _start_over(self) -> None:
        """Continue from the same positions with a new client."""
        self._drop_client()
        if self._wanted is None:
            self._wanted = dict(self._positions)

    def _drop_client(self) -> None:
        self._failures = 0
        self._answered_ns = self._now()
        if self._consumer is not None:
            self._disconnect(self._consumer)
            self._consumer = None

    def _disconnect(self, consumer: Consumer) -> None:
        try:
            consumer.close()
        except ClientError:
            return  # it is dropped in any case
