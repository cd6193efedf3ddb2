"""The simulated producer that sends with aiokafka, and records what it is told, as the model client does.

One operation is in flight. aiokafka retries by itself and does not tell what happened to each attempt, so what it gives
up is of unknown outcome, and so is an operation without an answer within the delivery timeout. After any outcome but
success a new instance takes the sends that follow, as in the workloads for real clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.workload.aio.library import RECONNECT_PAUSE_US, AiokafkaWorld, Instance
from simulation.workload.batches import key_of
from simulation.workload.clients import TOPIC, ProducerPlan
from simulation.workload.recording import OperationRow, SendRow, SimulatedHistory
from workloads.clients import aio_calls
from workloads.clients.base import Partition, SendOutcome
from workloads.clients.classify import combine
from workloads.clients.producers import RENEWAL_INTERVAL_S

_RENEWAL_US = int(RENEWAL_INTERVAL_S * 1_000 * MS)

_UNANSWERED = SendOutcome("info", error="NeverAnswered")


class AiokafkaProducer:
    """Sends batches to the partitions of the log; each ambiguous outcome begins a new logical process."""

    def __init__(self, client_id: int, plan: ProducerPlan, history: SimulatedHistory, world: AiokafkaWorld) -> None:
        self.client_id = client_id
        self.plan = plan
        self.history = history
        self.process = history.new_process()
        self.sent_operations = 0
        self.acknowledged = 0
        self.stopped = False
        self._world = world
        self._settings = world.settings(client_id, plan.request_timeout_ms, plan.acks, idempotence=plan.idempotence)
        self._instance: Instance | None = None
        self._successor: Instance | None = None
        self._op: int | None = None
        self._invoked_us = 0
        self._partition = 0
        self._values: tuple[int, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether no operation is open."""
        return self._op is None

    def start(self, cluster: SimulatedCluster) -> None:
        """Connect, and begin to send."""
        self._connect()

    def carry_on(self, cluster: SimulatedCluster) -> None:
        """Go on without a limit of operations, at once if none is open."""
        self.plan = replace(self.plan, operations=1 << 30)
        self._begin()

    def give_up(self, cluster: SimulatedCluster) -> None:
        """End the run: the outcome of an open operation stays unknown, and the client is closed."""
        self.stopped = True
        if self._op is not None:
            self._complete(self._op, [SendOutcome("info", error="the run ended")] * len(self._values))
        if self._instance is not None:
            self._instance.retire()
        if self._successor is not None:
            cluster.after(0, self._world.dismiss, self._successor.loop)

    # --- instances ---------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self.stopped:
            return
        options = {} if self.plan.compression == "none" else {"compression_type": self.plan.compression}
        start = partial(aio_calls.started_producer, self._settings, **options)
        self._successor = Instance(self._world, self._settings, self.client_id, start, self._opened, self._refused)

    def _opened(self, fresh: Instance) -> None:
        before, self._instance, self._successor = self._instance, fresh, None
        if before is not None:
            before.retire()
        self._begin()

    def _refused(self, instance: Instance) -> None:
        self._successor = None
        self._world.cluster.after(RECONNECT_PAUSE_US, self._connect)

    # --- operations --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self.stopped or self._op is not None or self._instance is None:
            return
        if self.sent_operations >= self.plan.operations:
            return
        cluster = self._world.cluster
        stream = cluster.choices["workload"]
        self._op = self.history.new_op()
        self._invoked_us = cluster.now_us
        self._partition = stream.draw("partition", self.plan.partitions)
        count = 1 + stream.draw("batch", self.plan.batch_max)
        self._values = tuple(self.history.new_value() for _ in range(count))
        self.sent_operations += 1
        keys = [key_of(value) if self.plan.keyed else None for value in self._values]
        self._instance.run(
            aio_calls.send(
                self._instance.client,
                Partition(TOPIC, self._partition),
                [value.to_bytes(8, "big") for value in self._values],
                partial(self._complete, self._op),
                keys,
                cluster.now_us // MS,
            )
        )
        cluster.after(self.plan.delivery_timeout_ms * MS, self._late, self._op)

    def _late(self, op: int) -> None:
        self._complete(op, [_UNANSWERED] * len(self._values))

    def _complete(self, op: int, outcomes: Sequence[SendOutcome]) -> None:
        if op != self._op:
            return  # recorded before, as unknown
        cluster, history = self._world.cluster, self.history
        status = combine(outcome.status for outcome in outcomes)
        error = next((outcome.error for outcome in outcomes if outcome.error), None)
        for ordinal, (value, outcome) in enumerate(zip(self._values, outcomes, strict=True)):
            history.sends.append(SendRow(op, TOPIC, self._partition, value, self.plan.acks, outcome.offset, ordinal))
        completed_ns = None if status == "info" else cluster.now_us * MS
        history.operations.append(
            OperationRow(op, self.process, "send", status, error, None, "main", self._invoked_us * MS, completed_ns)
        )
        self._op = None
        self.acknowledged += status == "ok"
        if status == "info":
            self.process = history.new_process()
        if status != "ok":
            self._renew()
        pause_ms = self.plan.interval_ms + cluster.choices["workload"].draw("pause", self.plan.interval_ms + 1)
        cluster.after(pause_ms * MS, self._begin)

    def _renew(self) -> None:
        instance = self._instance
        if instance is None or self._successor is not None or self.stopped:
            return
        if self._world.cluster.now_us - instance.born_us >= _RENEWAL_US:
            self._connect()
