"""The client of a directed schedule: sends and reads exactly what a step demands, and records the history."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from broker.core.messages import (
    AnyRequest,
    AnyResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.records import decode_records, iterate_headers
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import partition_states
from simulation.engine.transport import CLIENTS_FROM
from simulation.workload.batches import Producer, encode_values
from simulation.workload.clients import TOPIC
from simulation.workload.recording import OperationRow, PollRow, ReadRow, SendRow, SimulatedHistory, value_of

CLIENT = CLIENTS_FROM
FIRST_MS = 1_000
"""The timestamp of the first record of a compressed batch."""

_RETRY_MS = 100
_DEFINITELY_NOT_APPENDED = {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}
_GIVEN_UP = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH}


@dataclass(slots=True)
class DirectedSend:
    """One produce of a schedule, through all its retries."""

    op: int
    values: tuple[int, ...]
    acks: int
    retry: bool
    timeout_ms: int
    batch: bytes
    node: int
    invoked_us: int
    maybe_appended: bool = False
    status: str | None = None  # None while it is open


class DirectedClient:
    """One endpoint for all requests; each request has its own continuation."""

    def __init__(self, history: SimulatedHistory) -> None:
        self.history = history
        self.process = history.new_process()
        self.sends: list[DirectedSend] = []
        self.known_leader: int | None = None
        self._sequences: dict[int, int] = {}
        self._request = 0
        self._waiting: dict[int, Callable[[SimulatedCluster, AnyResponse | None], None]] = {}

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Ignored: it sets no timers."""

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Pass an answer to the continuation of its request."""
        self._waiting.pop(request_id)(cluster, response)

    def ask(
        self,
        cluster: SimulatedCluster,
        to: int,
        request: AnyRequest,
        then: Callable[[SimulatedCluster, AnyResponse | None], None],
        wait_ms: int,
    ) -> None:
        """Send a request; `then` gets the answer, or None if there is none within `wait_ms`."""
        self._request += 1
        self._waiting[self._request] = then
        cluster.send_from_client(CLIENT, self._request, to, request, wait_ms)

    # --- produce -----------------------------------------------------------------------------------------------------

    def produce(
        self,
        cluster: SimulatedCluster,
        values: tuple[int, ...],
        to: int,
        *,
        acks: int,
        retry: bool,
        producer: int | None,
        timeout_ms: int,
        compression: str = "none",
        padding_bytes: int = 0,
    ) -> None:
        """Send values as one batch; with `producer` under that producer id and its next sequence number.

        The records of a compressed batch have timestamps from `FIRST_MS` on; its last value is followed by
        `padding_bytes` zeros, which take next to no room until they are unfolded.
        """
        sequence = -1 if producer is None else self._sequences.get(producer, 0)
        if producer is not None:
            self._sequences[producer] = sequence + len(values)
        numbered = Producer() if producer is None else Producer(producer, 0, sequence)
        batch = encode_values(
            values,
            numbered,
            compression=compression,
            first_ms=0 if compression == "none" else FIRST_MS,
            padding_bytes=padding_bytes,
        )
        send = DirectedSend(self.history.new_op(), values, acks, retry, timeout_ms, batch, to, cluster.now_us)
        self.sends.append(send)
        self._send(cluster, send)

    def _send(self, cluster: SimulatedCluster, send: DirectedSend) -> None:
        request = ProduceRequest(send.acks, send.timeout_ms, (ProducePartition(TOPIC, 0, send.batch),))
        if send.acks == 0:
            self.ask(cluster, send.node, request, self._connection_closed, send.timeout_ms)
            self._complete(cluster, send, "ok", None, None)
        else:
            self.ask(
                cluster,
                send.node,
                request,
                lambda cluster, answer: self._produced(cluster, send, answer),
                send.timeout_ms + 500,
            )

    def _connection_closed(self, _: SimulatedCluster, __: AnyResponse | None) -> None:
        """Only acks=0: a producer that loses its connection looks up the leader again."""
        self.known_leader = None

    def _produced(self, cluster: SimulatedCluster, send: DirectedSend, response: AnyResponse | None) -> None:
        if send.status is not None:
            return
        if not isinstance(response, ProduceResponse):
            send.maybe_appended = True
            self._again_or_never(cluster, send, "no answer")
            return
        answer = response.partitions[0]
        error = ErrorCode(answer.error_code)
        if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            offset = answer.base_offset if error == ErrorCode.NONE else None
            self._complete(cluster, send, "ok", None, offset)
            return
        send.maybe_appended = send.maybe_appended or error not in _DEFINITELY_NOT_APPENDED
        if error in _GIVEN_UP:
            send.retry = False
        self._again_or_never(cluster, send, error.name)

    def _again_or_never(self, cluster: SimulatedCluster, send: DirectedSend, why: str) -> None:
        if send.retry:
            cluster.after(_RETRY_MS * MS, self._retry, cluster, send)
        else:
            self._complete(cluster, send, "info" if send.maybe_appended else "fail", why, None)

    def _retry(self, cluster: SimulatedCluster, send: DirectedSend) -> None:
        if send.status is not None:
            return
        states = partition_states(cluster)
        if states and states[0].leader >= 0:
            send.node = states[0].leader
        self._send(cluster, send)

    def _complete(
        self, cluster: SimulatedCluster, send: DirectedSend, status: str, error: str | None, base: int | None
    ) -> None:
        send.status = status
        for ordinal, value in enumerate(send.values):
            offset = None if base is None or base < 0 else base + ordinal
            self.history.sends.append(SendRow(send.op, TOPIC, 0, value, send.acks, offset, ordinal))
        completed_ns = None if status == "info" else cluster.now_us * MS
        node = send.node if status == "ok" else None
        invoked_ns = send.invoked_us * MS
        self.history.operations.append(
            OperationRow(send.op, self.process, "send", status, error, node, "main", invoked_ns, completed_ns)
        )
        self.process = self.history.new_process()

    def give_up(self, cluster: SimulatedCluster) -> None:
        """End the schedule: the outcome of open sends stays unknown."""
        for send in self.sends:
            if send.status is None:
                self._complete(cluster, send, "info", "the schedule ended", None)

    # --- read --------------------------------------------------------------------------------------------------------

    def read(self, cluster: SimulatedCluster, from_node: int, phase: str) -> int | None:
        """Read the log of a node to its end; returns the end, None if the node answered with errors only."""
        position: int | None = None
        while True:
            at = position or 0
            request = FetchRequest((FetchPartition(TOPIC, 0, at, 1 << 20),), max_wait_ms=0)
            response = self._answer(cluster, from_node, request)
            if not isinstance(response, FetchResponse) or response.partitions[0].error_code == 1:
                at = self._first_offset(cluster, from_node)
                if at <= (position or 0):
                    return position
                position = at
                continue
            if response.partitions[0].error_code:
                return position
            following = self._polled(cluster, response, at, from_node, phase)
            if position == following:
                return position
            position = following

    def _first_offset(self, cluster: SimulatedCluster, node: int) -> int:
        answer = self._answer(cluster, node, ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, -2),)))
        return answer.partitions[0].offset if isinstance(answer, ListOffsetsResponse) else -1

    def latest(self, cluster: SimulatedCluster, node: int) -> int | None:
        """The end of the log according to a node; None if it does not answer."""
        answer = self._answer(cluster, node, ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, -1),)))
        if not isinstance(answer, ListOffsetsResponse) or answer.partitions[0].error_code:
            return None
        end = answer.partitions[0].offset
        op = self._operation(cluster, "latest", node, "main")
        self.history.polls.append(PollRow(op, TOPIC, 0, None, end, end, 0, False))
        return end

    def look_up(self, cluster: SimulatedCluster, node: int, timestamp_ms: int) -> None:
        """Ask for the first record that is not older; the observer checks the answer."""
        self._answer(cluster, node, ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, timestamp_ms),)))

    def _answer(self, cluster: SimulatedCluster, node: int, request: AnyRequest) -> AnyResponse | None:
        answers: list[AnyResponse | None] = []
        self.ask(cluster, node, request, lambda _, answer: answers.append(answer), 2_000)
        cluster.run_until(cluster.now_us + 3_000 * MS, lambda: bool(answers))
        return answers[0] if answers else None

    def _operation(self, cluster: SimulatedCluster, kind: str, node: int, phase: str) -> int:
        op = self.history.new_op()
        now_ns = cluster.now_us * MS
        self.history.operations.append(OperationRow(op, self.process, kind, "ok", None, node, phase, now_ns, now_ns))
        return op

    def _polled(self, cluster: SimulatedCluster, response: FetchResponse, position: int, node: int, phase: str) -> int:
        part = response.partitions[0]
        op = self._operation(cluster, "poll", node, phase)
        following, count = position, 0
        for at, header in iterate_headers(part.records):
            for record in () if header.is_control else decode_records(part.records, at):
                if record.offset >= position:
                    value = value_of(record)
                    row = ReadRow(op, TOPIC, 0, record.offset, header.leader_epoch, value, count)
                    self.history.reads.append(row)
                    count += 1
                    following = record.offset + 1
        self.history.polls.append(PollRow(op, TOPIC, 0, position, following, part.high_watermark, count, position == 0))
        return following
