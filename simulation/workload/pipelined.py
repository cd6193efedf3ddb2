"""The simulated idempotent producer with several batches in flight, which retries them in order as real clients do.

It keeps up to `in_flight` batches open, numbers those of a partition in the order in which they are first sent, and
repeats a batch only once all earlier ones of its partition are settled (`max.in.flight.requests.per.connection` up to
5 with idempotence, KIP-98). A refusal with OUT_OF_ORDER_SEQUENCE_NUMBER is retried, as long as an earlier batch may
still close the gap; otherwise the partition begins anew with sequence number 0 of the producer's next epoch (KIP-360).

Kafka's Java client then sends all open batches under the new epoch, even those that an earlier attempt may have
appended, and may so write them twice. This one gives those up, with unknown outcome: a duplicate is the broker's.
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
from broker.core.ports.marks import sometimes
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.workload.batches import Producer, encode_values
from simulation.workload.clients import DEFINITELY_NOT_APPENDED, RETRY_MS, TOPIC, LeaderCache, ProducerPlan
from simulation.workload.recording import SimulatedHistory

IN_FLIGHT_MAX = 5
"""As many batches of a producer as a partition remembers."""

SEVERAL_SENT = sometimes("client: a batch is sent while earlier ones of its partition are not answered")
OUT_OF_ORDER_RETRIED = sometimes("client: a batch is refused as out of order, and an earlier one may close the gap")
GAP_CLOSED = sometimes("client: a batch of unknown outcome was appended, as a later one shows")
EPOCH_BUMPED = sometimes("client: a gap in the sequence numbers stays, the producer begins a new epoch (KIP-360)")


@dataclass(slots=True)
class OpenBatch:
    """A batch without an outcome. `sequence` is -1 until it is sent for the first time."""

    op: int
    process: int
    partition: int
    values: tuple[int, ...]
    invoked_us: int
    sequence: int = -1
    in_doubt: bool = False
    """Whether an earlier attempt may have appended it."""

    request: int | None = None
    """The request that is not answered yet."""

    sent_to: int | None = None


@dataclass(slots=True)
class Lane:
    """The batches of one partition, in the order of their sequence numbers, and what of them is settled."""

    epoch: int = 0
    next_sequence: int = 0
    last_acknowledged: int = -1
    batches: list[OpenBatch] = field(default_factory=list)
    unresolved: int | None = None
    """The sequence number after a batch that was given up: whether it is in the log shows with what follows."""

    has_gap: bool = False
    """A batch will never be appended: the lane begins anew as soon as nothing of it is in flight."""

    @property
    def in_flight(self) -> int:
        """How many of its batches are not answered."""
        return sum(batch.request is not None for batch in self.batches)

    @property
    def numbered(self) -> list[OpenBatch]:
        """Those that have been sent at least once."""
        return [batch for batch in self.batches if batch.sequence >= 0]

    def refused_out_of_order(self, batch: OpenBatch) -> None:
        """Decide whether the gap before `batch` may still be closed."""
        if self.unresolved is None:
            self.has_gap = self.has_gap or batch.sequence == self.last_acknowledged + 1
        else:
            self.has_gap = self.has_gap or batch.sequence == self.unresolved

    def given_up(self, batch: OpenBatch) -> None:
        """Its sequence numbers, if it has any, are used up, whether it was appended or not."""
        if batch.sequence >= 0:
            self.unresolved = max(self.unresolved or 0, batch.sequence + len(batch.values))

    def resolve(self) -> bool:
        """Whether what was given up is known to be in the log, now that all that follows has an outcome."""
        if self.unresolved is None or self.numbered or self.has_gap:
            return False
        self.unresolved = None
        self.has_gap = self.last_acknowledged + 1 != self.next_sequence
        return not self.has_gap

    def begin(self, epoch: int) -> None:
        """Begin with sequence number 0 in another epoch; its batches are numbered anew."""
        self.epoch = epoch
        self.next_sequence, self.last_acknowledged = 0, -1
        self.unresolved, self.has_gap = None, False
        for batch in self.batches:
            batch.sequence = -1

    def next_to_send(self) -> OpenBatch | None:
        """The batch to send now: a repetition only as the first of all, a new one only behind nothing unsettled."""
        if self.has_gap:
            return None
        for place, batch in enumerate(self.batches):
            if batch.request is None:
                is_next = place == 0 if batch.sequence >= 0 else self.unresolved is None
                return batch if is_next else None
        return None


class PipelinedProducer:
    """Sends batches to the partitions of the log, several at a time; each of them is a logical process meanwhile."""

    def __init__(self, client_id: int, plan: ProducerPlan, brokers: Sequence[int], history: SimulatedHistory) -> None:
        self.client_id = client_id
        self.plan = plan
        self.history = history
        self.route = LeaderCache(brokers)
        self.lanes: dict[int, Lane] = {}
        self.sent_operations = 0
        self.acknowledged = 0
        self.stopped = False
        self._processes: list[int] = []  # those without an open operation
        self._request = 0
        self._asked = 0  # the request for metadata or a producer id, 0 if there is none
        self._is_waiting = False
        self._burst_is_due = False
        self._producer_id = -1
        self._epoch = 0

    @property
    def idle(self) -> bool:
        """Whether no operation is open."""
        return not any(lane.batches for lane in self.lanes.values())

    def start(self, cluster: SimulatedCluster) -> None:
        """Begin to send."""
        self._wait_for_burst(cluster, 0)

    def carry_on(self, cluster: SimulatedCluster) -> None:
        """Go on without a limit of operations, at once if none is open."""
        self.plan = replace(self.plan, operations=1 << 30)
        self.timer(cluster, "next" if not self._burst_is_due else "again")

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Begin some operations, or go on with the open ones."""
        if key == "next":
            self._burst_is_due = False
            self._begin(cluster)
        elif key == "again":
            self._is_waiting = False
            self._go_on(cluster)

    def _wait_for_burst(self, cluster: SimulatedCluster, after_ms: int) -> None:
        self._burst_is_due = True
        cluster.after(after_ms * MS, self.timer, cluster, "next")

    def _wait(self, cluster: SimulatedCluster) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            cluster.after(RETRY_MS * MS, self.timer, cluster, "again")

    def _begin(self, cluster: SimulatedCluster) -> None:
        """Begin as many operations as are drawn, if so few are open, and plan the next ones."""
        if self.stopped or self.sent_operations >= self.plan.operations:
            return
        stream = cluster.choices["workload"]
        wanted = 1 + stream.draw("batches at a time", self.plan.in_flight)
        is_open = sum(len(lane.batches) for lane in self.lanes.values())
        for _ in range(min(wanted, self.plan.in_flight - is_open, self.plan.operations - self.sent_operations)):
            partition = stream.draw("partition", self.plan.partitions)
            count = 1 + stream.draw("batch", self.plan.batch_max)
            process = self._processes.pop() if self._processes else self.history.new_process()
            values = tuple(self.history.new_value() for _ in range(count))
            batch = OpenBatch(self.history.new_op(), process, partition, values, cluster.now_us)
            self.lanes.setdefault(partition, Lane(self._epoch)).batches.append(batch)
            self.sent_operations += 1
        pause_ms = self.plan.interval_ms + stream.draw("pause", self.plan.interval_ms + 1)
        self._wait_for_burst(cluster, wanted * pause_ms)
        self._go_on(cluster)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _go_on(self, cluster: SimulatedCluster) -> None:
        """Give up what has taken too long, and send what may be sent."""
        for partition, lane in self.lanes.items():
            for batch in [one for one in lane.batches if one.request is None]:
                if (cluster.now_us - batch.invoked_us) // MS >= self.plan.delivery_timeout_ms:
                    self._give_up(cluster, lane, batch, "delivery timed out")
            if lane.resolve():
                cluster.count(GAP_CLOSED)
            if lane.has_gap and not lane.in_flight:
                self._begin_epoch(cluster, lane)
            if not lane.numbered and lane.epoch != self._epoch and lane.unresolved is None:
                lane.begin(self._epoch)
            self._send_lane(cluster, partition, lane)

    def _send_lane(self, cluster: SimulatedCluster, partition: int, lane: Lane) -> None:
        while (batch := lane.next_to_send()) is not None:
            if self._producer_id < 0:
                self._ask(cluster, InitProducerIdRequest())
                return
            if partition not in self.route.leaders:
                self._ask(cluster, MetadataRequest(((TOPIC, ""),)))
                return
            self._produce(cluster, lane, batch)

    def _begin_epoch(self, cluster: SimulatedCluster, lane: Lane) -> None:
        """Nothing of the lane is in flight: number anew what was certainly not appended, and give up the rest."""
        cluster.count(EPOCH_BUMPED)
        self._epoch += 1
        for batch in [one for one in lane.batches if one.in_doubt]:
            self._complete(cluster, lane, batch, "info", "the producer began a new epoch")
        lane.begin(self._epoch)

    def _ask(self, cluster: SimulatedCluster, request: InitProducerIdRequest | MetadataRequest) -> None:
        if not self._asked and not self._is_waiting:
            self._asked = self._send(cluster, self.route.ask(), request)

    def _produce(self, cluster: SimulatedCluster, lane: Lane, batch: OpenBatch) -> None:
        if lane.in_flight:
            cluster.count(SEVERAL_SENT)
        if batch.sequence < 0:
            batch.sequence = lane.next_sequence
            lane.next_sequence += len(batch.values)
        records = encode_values(
            batch.values,
            Producer(self._producer_id, lane.epoch, batch.sequence),
            compression=self.plan.compression,
            first_ms=self.plan.time_of_ms(batch.invoked_us),
            keyed=self.plan.keyed,
        )
        batch.sent_to, _ = self.route.leaders[batch.partition]
        part = ProducePartition(TOPIC, batch.partition, records)
        request = ProduceRequest(self.plan.acks, self.plan.request_timeout_ms, (part,))
        batch.request = self._send(cluster, batch.sent_to, request)

    def _send(
        self, cluster: SimulatedCluster, to: int, request: InitProducerIdRequest | MetadataRequest | ProduceRequest
    ) -> int:
        self._request += 1
        cluster.send_from_client(self.client_id, self._request, to, request, self.plan.request_timeout_ms + 200)
        return self._request

    # --- answers -----------------------------------------------------------------------------------------------------

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Handle the answer to a request in flight; answers to earlier ones are ignored."""
        if request_id == self._asked:
            self._asked = 0
            if isinstance(response, MetadataResponse):
                self.route.learn(response)
            elif isinstance(response, InitProducerIdResponse) and response.error_code == ErrorCode.NONE:
                self._producer_id = response.producer_id
            knows_leaders = all(partition in self.route.leaders for partition, one in self.lanes.items() if one.batches)
            if self._producer_id < 0 or not knows_leaders:
                self._wait(cluster)
        else:
            for lane in self.lanes.values():
                for batch in lane.batches:
                    if batch.request == request_id:
                        batch.request = None
                        self._produced(cluster, lane, batch, response)
                        break
        self._go_on(cluster)

    def _produced(self, cluster: SimulatedCluster, lane: Lane, batch: OpenBatch, response: AnyResponse | None) -> None:
        if not isinstance(response, ProduceResponse):
            batch.in_doubt = True
            self._retry(cluster, lane, batch, "no answer")
            return
        answer = response.partitions[0]
        error = ErrorCode(answer.error_code)
        if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            lane.last_acknowledged = max(lane.last_acknowledged, batch.sequence + len(batch.values) - 1)
            self._complete(cluster, lane, batch, "ok", None, answer.base_offset if error == ErrorCode.NONE else None)
            return
        batch.in_doubt = batch.in_doubt or error not in DEFINITELY_NOT_APPENDED
        if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            lane.refused_out_of_order(batch)
            if not lane.has_gap:
                cluster.count(OUT_OF_ORDER_RETRIED)
        elif error == ErrorCode.INVALID_PRODUCER_EPOCH:
            lane.has_gap = True
        self._retry(cluster, lane, batch, error.name)

    def _retry(self, cluster: SimulatedCluster, lane: Lane, batch: OpenBatch, why: str) -> None:
        self.route.leaders.pop(batch.partition, None)
        if not self.plan.retries:
            self._give_up(cluster, lane, batch, why)
        self._wait(cluster)

    def _give_up(self, cluster: SimulatedCluster, lane: Lane, batch: OpenBatch, why: str) -> None:
        lane.given_up(batch)
        self._complete(cluster, lane, batch, "info" if batch.in_doubt else "fail", why)

    def _complete(
        self,
        cluster: SimulatedCluster,
        lane: Lane,
        batch: OpenBatch,
        status: str,
        error: str | None,
        base_offset: int | None = None,
    ) -> None:
        lane.batches.remove(batch)
        self.history.sent(
            batch.op,
            batch.process,
            status,
            error,
            topic=TOPIC,
            partition=batch.partition,
            values=batch.values,
            acks=self.plan.acks,
            base_offset=base_offset,
            node=batch.sent_to,
            from_us=batch.invoked_us,
            to_us=cluster.now_us,
        )
        self.acknowledged += status == "ok"
        if status != "info":
            self._processes.append(batch.process)

    def give_up(self, cluster: SimulatedCluster) -> None:
        """End the run: the outcome of open operations stays unknown."""
        self.stopped = True
        for lane in self.lanes.values():
            for batch in list(lane.batches):
                self._complete(cluster, lane, batch, "info", "the run ended")
