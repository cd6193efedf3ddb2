"""The simulated reader that reads with aiokafka, by assignment, and records what it gets.

It polls all partitions at once, now and then asks where one of them ends or for the first record of a time, and begins
at the log start where a log no longer has its position. A consumer that fails ten times in a row, or tells of no record
for five seconds, is replaced, as in the workloads for real clusters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from aiokafka import TopicPartition

from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.workload.aio.library import RECONNECT_PAUSE_US, AiokafkaWorld, Instance
from simulation.workload.clients import TOPIC
from simulation.workload.recording import OperationRow, PollRow, ReadRow, SimulatedHistory, number_of
from workloads.clients import aio_calls
from workloads.clients.base import LOG_START, ClientError, Partition, PolledPartition, PositionLostError
from workloads.log.reader import FAILURES_MAX, RETRY_PAUSE_S, SILENCE_S_MAX

REQUEST_TIMEOUT_MS: Final = 1_500
POLL_MS: Final = 100

_CALL_S_MAX: Final = REQUEST_TIMEOUT_MS / 1_000 + 2
_SILENCE_US_MAX: Final = int(SILENCE_S_MAX * 1_000 * MS)


class AiokafkaReader:
    """One logical process that reads all partitions by assignment."""

    def __init__(
        self,
        client_id: int,
        partitions: int,
        history: SimulatedHistory,
        interval_ms: int,
        world: AiokafkaWorld,
        *,
        looks_up_times: bool,
    ) -> None:
        self.client_id = client_id
        self.partitions = partitions
        self.history = history
        self.interval_ms = interval_ms
        self.looks_up_times = looks_up_times
        self.process = history.new_process()
        self.positions = dict.fromkeys(range(partitions), 0)
        self.phase = "main"
        self.stopped = False
        self._world = world
        self._settings = world.settings(client_id, REQUEST_TIMEOUT_MS, -1, idempotence=False)
        self._instance: Instance | None = None
        self._wanted: dict[int, int] | None = dict(self.positions)
        self._fresh = dict.fromkeys(self.positions, True)  # assigned or sought, and without an answer since
        self._times: dict[int, list[int]] = {}  # by partition: the timestamps of the records last read
        self._failures = 0
        self._heard_us = 0
        self._turn = 0
        self._invoked_us = 0

    def start(self, cluster: SimulatedCluster) -> None:
        """Connect, and begin to read."""
        self._connect()

    def assign_from_start(self) -> None:
        """Begin again at offset 0 of every partition, for the final phase."""
        self.positions = dict.fromkeys(range(self.partitions), 0)
        self._wanted = dict(self.positions)
        self.phase = "final"

    def give_up(self, cluster: SimulatedCluster) -> None:
        """End the run: the client is closed."""
        self.stopped = True
        if self._instance is not None:
            self._drop(self._instance)

    # --- instances ---------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self.stopped:
            return
        self._failures, self._heard_us = 0, self._world.cluster.now_us
        start = partial(aio_calls.started_consumer, self._settings)
        self._instance = Instance(self._world, self._settings, self.client_id, start, self._opened, self._refused)

    def _opened(self, instance: Instance) -> None:
        instance.run(self._read(instance))

    def _refused(self, instance: Instance) -> None:
        self._instance = None
        self._world.cluster.after(RECONNECT_PAUSE_US, self._connect)

    def _drop(self, instance: Instance) -> None:
        self._instance = None
        if instance.client is None:
            self._world.cluster.after(0, self._world.dismiss, instance.loop)
        else:
            instance.retire()

    def _start_over(self, instance: Instance) -> None:
        """Continue from the same positions with a new instance."""
        self._drop(instance)
        if self._wanted is None:
            self._wanted = dict(self.positions)
        self._connect()

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _read(self, instance: Instance) -> None:
        while self._instance is instance and not self.stopped:
            pause_s = max(1, self.interval_ms) / 1_000
            try:
                with aio_calls.client_errors():
                    async with asyncio.timeout(_CALL_S_MAX):
                        await self._step(instance)
                self._failures = 0
            except PositionLostError as error:
                self._wanted = {**self.positions, **dict.fromkeys(_numbers(error.partitions), LOG_START)}
            except ClientError:
                self._failures += 1
                pause_s = RETRY_PAUSE_S
            silent = self._world.cluster.now_us - self._heard_us > _SILENCE_US_MAX
            if self._instance is instance and (self._failures >= FAILURES_MAX or silent):
                self._start_over(instance)
            await asyncio.sleep(pause_s)

    async def _step(self, instance: Instance) -> None:
        wanted = self._wanted
        if wanted is not None:
            positions = await aio_calls.assign(
                instance.client, {Partition(TOPIC, number): offset for number, offset in wanted.items()}
            )
            if self._wanted is wanted:
                self._wanted = None
                self.positions = {partition.partition: offset for partition, offset in positions.items()}
                self._fresh = dict.fromkeys(self.positions, True)
            return
        self._turn += 1
        self._invoked_us = self._world.cluster.now_us
        if self.phase == "main" and self._world.cluster.choices["workload"].draw("what to ask", 8) == 7:
            await self._ask_for_offset(instance, self._turn % self.partitions)
        else:
            await self._poll(instance)

    async def _poll(self, instance: Instance) -> None:
        fetched = await instance.client.getmany(timeout_ms=POLL_MS)
        if self._wanted is not None or self.stopped or not fetched:
            return  # what was read before a seek is void
        positions = {Partition(TOPIC, number): offset for number, offset in self.positions.items()}
        self._polled(aio_calls.polled_partitions(fetched, positions))
        for key, messages in fetched.items():
            self._times[key.partition] = [message.timestamp for message in messages]
        self._heard_us = self._world.cluster.now_us

    def _polled(self, polled: Sequence[PolledPartition]) -> None:
        op = self._operation("poll")
        ordinal = 0
        for part in polled:
            number = part.partition.partition
            for record in part.records:
                value = None if record.value is None else number_of(record.value)
                self.history.reads.append(
                    ReadRow(op, TOPIC, number, record.offset, record.leader_epoch, value, ordinal)
                )
                ordinal += 1
            assigned, self._fresh[number] = self._fresh[number], False
            self.positions[number] = part.next_position
            self.history.polls.append(
                PollRow(
                    op,
                    TOPIC,
                    number,
                    part.position,
                    part.next_position,
                    part.high_watermark,
                    len(part.records),
                    assigned,
                )
            )

    async def _ask_for_offset(self, instance: Instance, number: int) -> None:
        """Ask for the end of a log; sometimes for the first record of a time, whose answer the observer checks."""
        stream = self._world.cluster.choices["workload"]
        key = TopicPartition(TOPIC, number)
        times = self._times.get(number)
        if self.looks_up_times and times and stream.draw("look up a time", 2):
            await instance.client.offsets_for_times({key: stream.pick("which time", times)})
            return
        end = int((await instance.client.end_offsets([key]))[key])
        if self._wanted is None and not self.stopped:
            op = self._operation("latest")
            self.history.polls.append(PollRow(op, TOPIC, number, None, end, end, 0, False))

    def _operation(self, kind: str) -> int:
        op, now_us = self.history.new_op(), self._world.cluster.now_us
        self.history.operations.append(
            OperationRow(op, self.process, kind, "ok", None, None, self.phase, self._invoked_us * MS, now_us * MS)
        )
        return op


def _numbers(partitions: Sequence[Partition]) -> list[int]:
    return [partition.partition for partition in partitions]
