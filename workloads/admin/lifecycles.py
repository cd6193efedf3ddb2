"""Runs topics through their lifecycle: created, written to, grown, moved, and mostly deleted during writes.

Every request is recorded with its outcome: a request that was not answered with success may have taken effect all the
same, because the client retries by itself. No topic name is used twice, so a deleted topic stays deleted.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from workloads.base import Context
from workloads.clients.base import ClientError, Partition
from workloads.clients.classify import Status
from workloads.clients.optional_interfaces import TopicAdministrator
from workloads.log.reader import Reader, ReadPlan
from workloads.log.senders import TICK_S, Senders, SendPlan
from workloads.recording import Recorder
from workloads.threads import SECOND_NS, WorkerThreads
from workloads.values import ValueSource

SENDERS: Final = 2
RATE_PER_S: Final = 20.0
ANSWER_MARGIN_S: Final = 5.0
NEVER_S: Final = 1e6

PREFIX: Final = "churn-"
"""Faults that pick a topic of the clients skip names with this prefix."""
PARTITIONS_MAX: Final = 3
DELETIONS: Final = 0.7
"""Share of the topics that are deleted before the end of the run."""


@dataclass(frozen=True)
class TopicPlan:
    """What one administrator does."""

    process: int
    seed: int
    partitions: Sequence[Partition]  # of the topics that stay: they are only moved
    stage_s: float  # mean time between two changes
    linger_s: float  # how long writes continue after a deletion
    drained_s: float  # how long to wait for open writes
    retry_s: float  # pause after a request that was not answered with success


class TopicLifecycles:
    """One administrator and its topics. `run` is for one thread."""

    def __init__(
        self,
        plan: TopicPlan,
        connect: Callable[[], TopicAdministrator],
        begin: Callable[[Sequence[Partition]], TopicTraffic],
        recorder: Recorder,
        now: Callable[[], int],
        ended: threading.Event,
    ) -> None:
        """`begin` starts writes to partitions; once `ended` is set nothing more is started."""
        self._plan = plan
        self._connect = connect
        self._begin = begin
        self._recorder = recorder
        self._now = now
        self._ended = ended
        self._choices = random.Random(f"{plan.seed}/{plan.process}")  # noqa: S311 - choices, not secrets
        self._number = 0
        self._administrator: TopicAdministrator | None = None
        self._traffic: list[TopicTraffic] = []
        self._failed = False  # a request of the present topic failed: the next topic gets a new client

    def run(self) -> None:
        """Run one topic after the other until `ended` is set."""
        while not self._ended.is_set():
            try:
                if self._administrator is None:
                    self._administrator = self._connect()
                self._run_lifecycle(self._administrator)
            except ClientError:
                self._failed = True
            finally:
                self._quiesce()
            if self._failed:
                self._failed = False
                self._disconnect()
                self._ended.wait(self._plan.retry_s)
        self._disconnect()

    def failure(self) -> Exception | None:
        """Return the exception that ended a thread of the traffic, if any did."""
        return next((failure for each in self._traffic if (failure := each.failure()) is not None), None)

    def _run_lifecycle(self, administrator: TopicAdministrator) -> None:
        self._number += 1
        topic = f"{PREFIX}{self._plan.process}-{self._number}"
        if not self._ask("create", topic, {"partitions": 1}, lambda: administrator.create(topic, 1)):
            return
        own = [Partition(topic, 0)]
        self._traffic.append(self._begin(own))
        total = self._choices.randint(2, PARTITIONS_MAX)
        if not self._rest() and self._ask(
            "add-partitions", topic, {"total": total}, lambda: administrator.add_partitions(topic, total)
        ):
            added = [Partition(topic, number) for number in range(1, total)]
            self._traffic.append(self._begin(added))
            own += added
        for among in (own, self._plan.partitions):
            if not self._rest():
                self._move(administrator, self._choices.choice(among))
        if self._choices.random() < DELETIONS and not self._rest():
            self._ask("delete", topic, {}, lambda: administrator.delete(topic))
            self._ended.wait(self._plan.linger_s)

    def _move(self, administrator: TopicAdministrator, partition: Partition) -> None:
        placement = administrator.placement(partition)
        wanted = self._choices.sample(placement.brokers, min(len(placement.replicas), len(placement.brokers)))
        self._ask(
            "reassign",
            partition.topic,
            {"partition": partition.partition, "from": list(placement.replicas), "to": wanted},
            lambda: administrator.reassign(partition, wanted),
        )

    def _rest(self) -> bool:
        """Wait for about a stage; returns whether the end has come."""
        return self._ended.wait(self._plan.stage_s * self._choices.uniform(0.5, 1.5))

    def _ask(self, action: str, topic: str, parameters: dict[str, object], act: Callable[[], None]) -> bool:
        invoked_ns = self._now()
        status: Status = "ok"
        error = None
        try:
            act()
        except ClientError as failure:
            status, error = "info", str(failure)
            self._failed = True
        self._recorder.administered({
            "process": self._plan.process,
            "action": action,
            "topic": topic,
            "parameters": json.dumps(parameters),
            "status": status,
            "error": error,
            "invoked_ns": invoked_ns,
            "completed_ns": self._now(),
        })  # fmt: skip
        return status == "ok"

    def _quiesce(self) -> None:
        """Stop the writes to the present topic; those that stay open are given up."""
        for traffic in self._traffic:
            traffic.quiesce()
        for traffic in self._traffic:
            traffic.stop(self._plan.drained_s)
        self._traffic = []

    def _disconnect(self) -> None:
        """Drop the client: kafka-python 3.0.12 may never find a controller again that has moved."""
        administrator, self._administrator = self._administrator, None
        if administrator is None:
            return
        try:
            administrator.close()
        except ClientError:
            return  # it is dropped in any case


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
