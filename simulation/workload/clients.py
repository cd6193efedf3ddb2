"""The simulated producer, which sends the protocol's messages with the semantics of real clients.

It keeps one operation in flight (`pipelined`: several), retries until its delivery timeout, and with
idempotence numbers its batches. Like the reader it refreshes leaders from metadata when they are stale.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from broker.core.messages import (
    AnyResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.workload.batches import Producer, encode_values
from simulation.workload.recording import SimulatedHistory

TOPIC = "log"

RETRY_MS = 100
"""Pause before a client repeats a request."""

DEFINITELY_NOT_APPENDED = {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
}
"""Errors of an attempt that has appended nothing, and never will."""


@dataclass(slots=True)
class LeaderCache:
    """A client's view of the leaders: partition -> (leader, leader epoch)."""

    brokers: Sequence[int]
    leaders: dict[int, tuple[int, int]] = field(default_factory=dict)
    next_broker: int = 0

    def ask(self) -> int:
        """The broker to ask for metadata, each in turn."""
        self.next_broker = (self.next_broker + 1) % len(self.brokers)
        return self.brokers[self.next_broker]

    def learn(self, response: MetadataResponse) -> None:
        """Take newer leaders from a response; those of an older leader epoch are ignored."""
        for topic in response.topics:
            for part in topic.partitions:
                known = self.leaders.get(part.partition, (-1, -1))
                if topic.name == TOPIC and part.leader >= 0 and part.leader_epoch >= known[1]:
                    self.leaders[part.partition] = (part.leader, part.leader_epoch)


@dataclass(slots=True)
class ProducerPlan:
    """How a producer behaves. Times in milliseconds."""

    partitions: int
    acks: int
    idempotence: bool
    retries: bool
    interval_ms: int
    batch_max: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    operations: int
    compression: str = "none"
    keyed: bool = False
    clock_ahead_ms: int | None = None
    """How far the client's time of day is ahead of virtual time; None: only compressed records have times."""

    in_flight: int = 1
    """How many batches may be open at a time (`simulation.workload.pipelined`)."""

    def time_of_ms(self, invoked_us: int) -> int:
        """The time of the records of an operation, in ms."""
        if self.clock_ahead_ms is None:
            return 0 if self.compression == "none" else invoked_us // MS
        return invoked_us // MS + self.clock_ahead_ms


class SimulatedProducer:
    """Sends batches to the partitions of the log; each ambiguous outcome begins a new logical process."""

    def __init__(self, client_id: int, plan: ProducerPlan, brokers: Sequence[int], history: SimulatedHistory) -> None:
        self.client_id = client_id
        self.plan = plan
        self.history = history
        self.route = LeaderCache(brokers)
        self.process = history.new_process()
        self.sent_operations = 0
        self.acknowledged = 0
        self.stopped = False
        self._request = 0
        self._asked = ""
        self._op: int | None = None
        self._invoked_us = 0
        self._partition = 0
        self._values: tuple[int, ...] = ()
        self._maybe_appended = False
        self._producer_id = -1
        self._sequences: dict[int, int] = {}
        self._served_by: int | None = None
        self._unanswered: dict[int, int] = {}  # the last request with acks=0, and its partition

    @property
    def idle(self) -> bool:
        """Whether no operation is open."""
        return self._op is None

    def start(self, cluster: SimulatedCluster) -> None:
        """Begin to send."""
        cluster.after(0, self.timer, cluster, "next")

    def carry_on(self, cluster: SimulatedCluster) -> None:
        """Go on without a limit of operations, at once if none is open."""
        self.plan = replace(self.plan, operations=1 << 30)
        self.timer(cluster, "next")

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Begin an operation, or continue the open one."""
        if key == "next" and self._op is None:
            self._begin(cluster)
        elif key == "again" and self._op is not None:
            self._go_on(cluster)

    def _wait(self, cluster: SimulatedCluster, key: str, after_ms: int) -> None:
        cluster.after(after_ms * MS, self.timer, cluster, key)

    def _begin(self, cluster: SimulatedCluster) -> None:
        if self.stopped or self.sent_operations >= self.plan.operations:
            return
        stream = cluster.choices["workload"]
        self._op = self.history.new_op()
        self._invoked_us = cluster.now_us
        self._partition = stream.draw("partition", self.plan.partitions)
        count = 1 + stream.draw("batch", self.plan.batch_max)
        self._values = tuple(self.history.new_value() for _ in range(count))
        self._maybe_appended = False
        self.sent_operations += 1
        self._go_on(cluster)

    def _go_on(self, cluster: SimulatedCluster) -> None:
        if (cluster.now_us - self._invoked_us) // MS >= self.plan.delivery_timeout_ms:
            self._complete(cluster, "info" if self._maybe_appended else "fail", "delivery timed out", None)
            return
        if self.plan.idempotence and self._producer_id < 0:
            self._send(cluster, "producer id", self.route.ask(), InitProducerIdRequest())
        elif self._partition not in self.route.leaders:
            self._send(cluster, "metadata", self.route.ask(), MetadataRequest(((TOPIC, ""),)))
        else:
            self._produce(cluster)

    def _produce(self, cluster: SimulatedCluster) -> None:
        sequence = self._sequences.get(self._partition, 0) if self.plan.idempotence else -1
        batch = encode_values(
            self._values,
            Producer(self._producer_id, 0, sequence) if self.plan.idempotence else Producer(),
            compression=self.plan.compression,
            first_ms=self.plan.time_of_ms(self._invoked_us),
            keyed=self.plan.keyed,
        )
        leader, _ = self.route.leaders[self._partition]
        self._served_by = leader
        part = ProducePartition(TOPIC, self._partition, batch)
        request = ProduceRequest(self.plan.acks, self.plan.request_timeout_ms, (part,))
        if self.plan.acks == 0:
            self._request += 1
            self._unanswered = {self._request: self._partition}
            cluster.send_from_client(self.client_id, self._request, leader, request, self.plan.request_timeout_ms)
            self._sequences[self._partition] = sequence + len(self._values)
            self._complete(cluster, "ok", None, None)
        else:
            self._send(cluster, "produce", leader, request)

    def _send(self, cluster: SimulatedCluster, asked: str, to: int, request: object) -> None:
        self._request += 1
        self._asked = asked
        timeout_ms = self.plan.request_timeout_ms + 200
        cluster.send_from_client(self.client_id, self._request, to, request, timeout_ms)  # type: ignore[arg-type]

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Handle the answer to the request in flight; answers to earlier ones are ignored."""
        if self.plan.acks == 0 and response is None and request_id in self._unanswered:
            # the connection was closed, which is the only sign of an error
            self.route.leaders.pop(self._unanswered.pop(request_id), None)
            return
        if request_id != self._request or self._op is None:
            return
        if self._asked == "produce":
            self._produce_answered(cluster, response)
            return
        if isinstance(response, MetadataResponse):
            self.route.learn(response)
        elif isinstance(response, InitProducerIdResponse) and response.error_code == ErrorCode.NONE:
            self._producer_id = response.producer_id
            self._sequences = {}
        self._wait(cluster, "again", 0 if self._partition in self.route.leaders and response is not None else RETRY_MS)

    def _produce_answered(self, cluster: SimulatedCluster, response: AnyResponse | None) -> None:
        if not isinstance(response, ProduceResponse):
            self._maybe_appended = True
            self._retry(cluster, "no answer")
            return
        answer = response.partitions[0]
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.NONE or (error == ErrorCode.DUPLICATE_SEQUENCE_NUMBER and self.plan.idempotence):
            self._complete(cluster, "ok", None, answer.base_offset if error == ErrorCode.NONE else None)
        elif error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._maybe_appended = True  # refused before the append or deposed after it: the answer is the same
            self._retry(cluster, error.name)
        else:
            self._maybe_appended = self._maybe_appended or error not in DEFINITELY_NOT_APPENDED
            if error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH):
                self._complete(cluster, "info" if self._maybe_appended else "fail", error.name, None)
            else:
                self._retry(cluster, error.name)

    def _retry(self, cluster: SimulatedCluster, why: str) -> None:
        self.route.leaders.pop(self._partition, None)
        if self.plan.retries:
            self._wait(cluster, "again", RETRY_MS)
        else:
            self._complete(cluster, "info" if self._maybe_appended else "fail", why, None)

    def _complete(self, cluster: SimulatedCluster, status: str, error: str | None, base_offset: int | None) -> None:
        assert self._op is not None
        history = self.history
        if status == "ok" and self.plan.idempotence and self.plan.acks != 0:
            self._sequences[self._partition] = self._sequences.get(self._partition, 0) + len(self._values)
        history.sent(
            self._op,
            self.process,
            status,
            error,
            topic=TOPIC,
            partition=self._partition,
            values=self._values,
            acks=self.plan.acks,
            base_offset=base_offset,
            node=self._served_by,
            from_us=self._invoked_us,
            to_us=cluster.now_us,
        )
        self._op = None
        self.acknowledged += status == "ok"
        if status != "ok":
            # its sequence numbers are used up whether the batch was appended or not: a new producer id is needed
            self._producer_id = -1
        if status == "info":
            self.process = history.new_process()
        self._wait(
            cluster,
            "next",
            self.plan.interval_ms + cluster.choices["workload"].draw("pause", self.plan.interval_ms + 1),
        )

    def give_up(self, cluster: SimulatedCluster) -> None:
        """End the run: the outcome of an open operation stays unknown."""
        self.stopped = True
        if self._op is not None:
            self._complete(cluster, "info", "the run ended", None)
