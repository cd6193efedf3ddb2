"""The logical processes of the `log` workload that send records, and what the records contain.

A logical process is single-threaded, but needs no thread: it is a number with at most one send in flight. One
thread starts the sends that are due on processes that are idle; the client's answer makes a process idle
again. A tick of a few milliseconds lets the sends that became due in it share a batch, which halves their
cost for client and brokers.

Sending, reading back and recording are the same for every workload on logs; a `Payload` is what differs.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from workloads.clients.base import Partition, PolledPartition, Producer, SendOutcome
from workloads.clients.classify import Status
from workloads.recording import Invocation, Recorder
from workloads.threads import SECOND_NS, TokenBucket
from workloads.values import ValueSource, encode_value

TICK_S: Final = 0.005
EXPIRY_INTERVAL_S: Final = 1.0


@dataclass
class _Process:
    number: int
    choices: random.Random


@dataclass(frozen=True)
class _OpenSend:
    process: _Process
    invocation: Invocation
    partition: Partition
    values: Sequence[int]


@dataclass(frozen=True)
class SendPlan:
    """What the sending processes of one worker do."""

    partitions: Sequence[Partition]
    processes: Sequence[int]  # first number of each
    successor: int  # added to a process's number when it is retired
    rate_per_s: float
    batch_min: int
    batch_max: int
    seed: int
    answer_within_ns: int  # a send without an answer by then will never be answered


class Senders:
    """Starts sends and records their outcomes. `step` is for one thread; answers may come on any."""

    def __init__(
        self,
        plan: SendPlan,
        producer: Producer,
        recorder: Recorder,
        values: ValueSource,
        now: Callable[[], int],
        payload: Payload | None = None,
    ) -> None:
        self._plan = plan
        self._payload = payload or Numbers()
        self._producer = producer
        self._recorder = recorder
        self._values = values
        self._now = now
        self._bucket = TokenBucket(plan.rate_per_s, now())
        self._idle = deque(
            _Process(number, random.Random(f"{plan.seed}/{number}"))  # noqa: S311 - choices, not secrets
            for number in plan.processes
        )
        self._open: dict[int, _OpenSend] = {}
        self._ending = threading.Lock()
        self._expiry_due_ns = now() + int(EXPIRY_INTERVAL_S * SECOND_NS)

    @property
    def open(self) -> int:
        """Sends that were started and not answered."""
        return len(self._open)

    def step(self) -> None:
        """Start the sends that are due and for which a process is idle."""
        now_ns = self._now()
        free: list[_Process] = []
        for _ in range(len(self._idle)):  # not an iterator: answers make processes idle meanwhile
            process = self._idle.popleft()
            (free if self._payload.waits(process.number) is None else self._idle).append(process)
        due = self._bucket.take(len(free), now_ns)
        self._idle.extendleft(reversed(free[due:]))
        for process in free[:due]:
            self._start(process)
        if now_ns >= self._expiry_due_ns:
            self._expiry_due_ns = now_ns + int(EXPIRY_INTERVAL_S * SECOND_NS)
            self.expire()

    def expire(self) -> None:
        """Record sends that are open for too long as unknown: their client has lost them.

        A process that waits so long for the result of its command is retired; a successor continues.
        """
        now_ns = self._now()
        for process in list(self._idle):
            since_ns = self._payload.waits(process.number)
            if since_ns is not None and since_ns < now_ns - self._plan.answer_within_ns:
                process.number += self._plan.successor
        for op, send in list(self._open.items()):
            if send.invocation.invoked_ns < now_ns - self._plan.answer_within_ns:
                self._end(op, [], now_ns)

    def abandon(self) -> None:
        """Record every open send as unknown, never completed. Later answers are ignored."""
        for op in list(self._open):
            self._end(op, [], None)

    def _start(self, process: _Process) -> None:
        choices = process.choices
        partition = choices.choice(self._plan.partitions)
        values = self._values.take(choices.randint(self._plan.batch_min, self._plan.batch_max))
        payloads = self._payload.load(process.number, partition, values, choices)
        invocation = self._recorder.invoke(process.number, "main", self._now())
        self._open[invocation.op] = _OpenSend(process, invocation, partition, values)
        self._producer.send(partition, payloads, partial(self._answered, invocation.op))

    def _answered(self, op: int, outcomes: Sequence[SendOutcome]) -> None:
        self._end(op, outcomes, self._now())

    def _end(self, op: int, outcomes: Sequence[SendOutcome], completed_ns: int | None) -> None:
        # The lock makes `abandon` wait for an answer that is being recorded: the history may be closed after it.
        with self._ending:
            send = self._open.pop(op, None)
            if send is None:
                return  # recorded before
            status = self._recorder.send_ended(
                send.invocation,
                send.partition,
                send.values,
                outcomes or [SendOutcome("info", error="NeverAnswered")] * len(send.values),
                completed_ns,
            )
            self._payload.sent(send.values, status)
        process = send.process
        if status == "info":
            process.number += self._plan.successor
        if status != "ok":
            self._producer.renew()
        self._idle.append(process)


class Payload(Protocol):
    """Creates payloads. The sending thread calls `load` and `waits`, any thread `sent`, reader threads `read`."""

    def load(self, process: int, partition: Partition, values: Sequence[int], choices: random.Random, /) -> list[bytes]:
        """Return the payloads of a send that is about to start, one for each value."""
        ...

    def sent(self, values: Sequence[int], status: Status) -> None:
        """Receive the outcome of the send of these values."""
        ...

    def read(self, polled: PolledPartition) -> None:
        """Receive what a reader of this worker polled."""
        ...

    def waits(self, process: int, /) -> int | None:
        """Return since when (ns) a process whose send has ended waits for a result; None: it may send."""
        ...

    def close(self) -> None:
        """Record open commands as unknown."""
        ...


class Numbers:
    """Payloads that consist of their values only."""

    def load(self, _process: int, _partition: Partition, values: Sequence[int], _choices: random.Random) -> list[bytes]:
        """Encode the values."""
        return [encode_value(value) for value in values]

    def sent(self, values: Sequence[int], status: Status) -> None:
        """Do nothing: the history has the outcome."""

    def read(self, polled: PolledPartition) -> None:
        """Do nothing: the history has the outcome."""

    def waits(self, _process: int) -> int | None:
        """Return None: no process waits for more than its send."""
        return None

    def close(self) -> None:
        """Do nothing: no command is open."""
