"""Records the trace of a simulation: readable lines, one per transition, in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from broker.core.messages import (
    UNKNOWN,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AnyRequest,
    AnyResponse,
    BeginQuorumEpochRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreateTopicsRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
    VoteRequest,
    VoteResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.leadership import LeaderAndIsrRequest, StopReplicaRequest
from broker.core.ports.events import (
    Exit,
    LogEntry,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    Started,
    StopRequested,
)
from broker.core.records import MalformedBatch
from simulation.engine.cluster import NOBODY, EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.transport import CLIENTS_FROM
from simulation.workload.clients import TOPIC
from simulation.workload.recording import SimulatedHistory
from simulation.workload.sampling import records_of


def format_request(request: AnyRequest) -> str | None:
    """A request in a few words; None for one that carries no information."""
    formatter = _REQUESTS.get(type(request))
    return formatter(request) if formatter is not None else None


def format_response(response: AnyResponse | None) -> str | None:
    """A response in a few words; None for one that carries no information."""
    formatter = _RESPONSES.get(type(response))
    return formatter(response) if formatter is not None else None


def _produce(request: ProduceRequest) -> str:
    return "Produce " + ", ".join(f"{_values(part.records)} to p{part.partition}" for part in request.partitions)


def _produced(response: ProduceResponse) -> str:
    return "Produce: " + ", ".join(
        f"p{part.partition} at {part.base_offset}" if part.error_code == ErrorCode.NONE else _error(part.error_code)
        for part in response.partitions
    )


def _fetch(request: FetchRequest) -> str | None:
    if request.replica_id < 0:
        return None
    parts = [part for part in request.partitions if part.topic == TOPIC]
    wanted = ", ".join(f"p{part.partition} from {part.fetch_offset}" for part in parts)
    return f"Fetch {wanted}" if parts else None


def _fetched(response: FetchResponse) -> str | None:
    parts = []
    for part in response.partitions:
        name = f"p{part.partition}"
        if part.error_code != ErrorCode.NONE:
            parts.append(f"{name} {_error(part.error_code)}")
        elif part.diverging_epoch is not None:
            parts.append(f"{name} diverges: epoch {part.diverging_epoch[0]} ends at {part.diverging_epoch[1]}")
        elif part.records and part.topic == TOPIC:
            parts.append(f"{name} {_values(part.records)}, high watermark {part.high_watermark}")
        elif part.records:
            parts.append("metadata")
    return f"Fetch: {', '.join(parts)}" if parts else None


def _alter(request: AlterPartitionRequest) -> str:
    return "AlterPartition " + ", ".join(
        f"p{part.partition} ISR {[broker for broker, _ in part.new_isr]}"
        f" (epochs {part.leader_epoch}, {part.partition_epoch})"
        for part in request.partitions
    )


def _altered(response: AlterPartitionResponse) -> str:
    parts = [
        f"p{part.partition} ISR {list(part.isr)} (epochs {part.leader_epoch}, {part.partition_epoch})"
        if part.error_code == ErrorCode.NONE
        else f"p{part.partition} {_error(part.error_code)}"
        for part in response.partitions
    ]
    return f"AlterPartition: {', '.join(parts) if parts else _error(response.error_code)}"


def _vote(request: VoteRequest) -> str:
    kind = "pre-vote" if request.pre_vote else "vote"
    end = f"{request.last_epoch_end_offset} of epoch {request.last_epoch}"
    return f"asks for a {kind} in epoch {request.candidate_epoch}, log ends at {end}"


def _voted(response: VoteResponse) -> str:
    return "vote granted" if response.vote_granted else f"vote refused, epoch {response.leader_epoch}"


def _heartbeat(request: BrokerHeartbeatRequest) -> str | None:
    wants = [word for word, is_so in (("fence", request.want_fence), ("shut down", request.want_shut_down)) if is_so]
    return f"heartbeat, wants to {' and '.join(wants)}" if wants == ["shut down"] else None


def _beaten(response: BrokerHeartbeatResponse) -> str | None:
    return f"heartbeat: {_error(response.error_code)}" if response.error_code else None


def _log_info(response: GetReplicaLogInfoResponse) -> str:
    return "log info: " + ", ".join(
        f"p{part.partition} ends at {part.log_end_offset} of epoch {part.last_written_leader_epoch}"
        for part in response.partitions
    )


def _listed(response: ListOffsetsResponse) -> str | None:
    wrong = [part for part in response.partitions if part.error_code]
    return f"ListOffsets: {_error(wrong[0].error_code)}" if wrong else None


def _registered(response: BrokerRegistrationResponse) -> str:
    if response.error_code:
        return f"registration: {_error(response.error_code)}"
    return f"registered, broker epoch {response.broker_epoch}"


def _leadership(request: LeaderAndIsrRequest) -> str:
    parts = (
        f"p{one.partition} leader {one.leader} in epoch {one.leader_epoch}, ISR {list(one.isr)}"
        for one in request.partitions
    )
    return f"LeaderAndIsr of controller {request.controller_epoch}: {'; '.join(parts)}"


def _epoch_end(response: OffsetForLeaderEpochResponse) -> str:
    end = response.partitions[0]
    if end.error_code:
        return f"the end of an epoch: {_error(end.error_code)}"
    of_epoch = "" if end.leader_epoch == UNKNOWN else f" of epoch {end.leader_epoch}"
    return "that epoch is not known" if end.end_offset == UNKNOWN else f"the end is {end.end_offset}{of_epoch}"


_REQUESTS: dict[type, Callable[[Any], str | None]] = {
    ProduceRequest: _produce,
    FetchRequest: _fetch,
    AlterPartitionRequest: _alter,
    VoteRequest: _vote,
    BrokerHeartbeatRequest: _heartbeat,
    BrokerRegistrationRequest: lambda request: f"registers, previous epoch {request.previous_broker_epoch}",
    BeginQuorumEpochRequest: lambda request: f"leads the quorum in epoch {request.leader_epoch}",
    EndQuorumEpochRequest: lambda request: f"no longer leads the quorum in epoch {request.leader_epoch}",
    GetReplicaLogInfoRequest: lambda _: "asks how far logs go",
    CreateTopicsRequest: lambda request: f"CreateTopics {request.topics[0].name}",
    LeaderAndIsrRequest: _leadership,
    StopReplicaRequest: lambda request: f"StopReplica {', '.join(f'p{number}' for _, number in request.partitions)}",
    OffsetForLeaderEpochRequest: lambda request: f"asks where epoch {request.partitions[0].leader_epoch} ends",
}

_RESPONSES: dict[type, Callable[[Any], str | None]] = {
    ProduceResponse: _produced,
    FetchResponse: _fetched,
    AlterPartitionResponse: _altered,
    VoteResponse: _voted,
    BrokerHeartbeatResponse: _beaten,
    BrokerRegistrationResponse: _registered,
    GetReplicaLogInfoResponse: _log_info,
    ListOffsetsResponse: _listed,
    OffsetForLeaderEpochResponse: _epoch_end,
}


def _error(code: int) -> str:
    return ErrorCode(code).name


def _values(records: bytes) -> str:
    try:
        return _ranges([row.value for row in records_of(records) if row.value is not None])
    except MalformedBatch:
        return f"{len(records)} bytes that are no records"


def _ranges(values: Sequence[int]) -> str:
    """Write runs of numbers as "3-5"."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs) or "nothing"


US_PER_S = 1_000_000

_LONGEST_ROUND = 4
"""The greatest number of lines that may repeat together as one round."""


class Line(NamedTuple):
    """One transition. `source` is the sender of a message, None for what a node did by itself."""

    at_us: int
    node_id: int
    text: str
    source: int | None = None

    def __str__(self) -> str:
        arrow = "" if self.source is None else f"from {node_name(self.source)}: "
        return f"{self.at_us / US_PER_S:10.3f}  {node_name(self.node_id):<12} {arrow}{self.text}"


def node_name(node_id: int) -> str:
    """The name of a node in traces."""
    if node_id == NOBODY:
        return "nemesis"
    if node_id >= CLIENTS_FROM:
        return "clients"
    return f"controller {node_id}" if node_id >= 100 else f"broker {node_id}"


class TraceRecorder:
    """An observer that records the lines of a trace and checks nothing."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._sent: dict[tuple[int, int], int] = {}
        self._asked: dict[tuple[int, int], int] = {}
        self._entries_read = 0

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        self.catch_up(cluster.log_entries or ())
        self._event(cluster.now_us, step)
        for effect in step.effects:
            match effect:
                case LogEntry(_, text):
                    self.lines.append(Line(cluster.now_us, step.node_id, text))
                case Send(request_id, to):
                    self._sent[step.node_id, request_id] = to
                case Reply(request_id, response):
                    asked_by = self._asked.pop((step.node_id, request_id), None)
                    shown = format_response(response)
                    if asked_by is not None and asked_by >= CLIENTS_FROM and shown is not None:
                        self.lines.append(Line(cluster.now_us, asked_by, shown, step.node_id))
                case Exit(status):
                    self.lines.append(Line(cluster.now_us, step.node_id, f"ends with exit status {status}"))

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""
        self.catch_up(cluster.log_entries or ())
        how = "dies" if lost_bytes < 0 else f"loses power, and {lost_bytes} bytes that were not synced"
        self.lines.append(Line(cluster.now_us, node_id, how))

    def catch_up(self, log_entries: Sequence[tuple[int, int, str]]) -> None:
        """Add the log entries of the nemesis and the clients since the last call."""
        for at_us, node_id, text in log_entries[self._entries_read :]:
            if node_id == NOBODY or node_id >= CLIENTS_FROM:
                self.lines.append(Line(at_us, node_id, text))
        self._entries_read = len(log_entries)

    def _event(self, at_us: int, step: EventStep) -> None:
        match step.event:
            case RequestReceived(request_id, connection, request):
                self._asked[step.node_id, request_id] = connection
                self._message(at_us, step.node_id, format_request(request), connection)
            case ResponseReceived(request_id, response):
                source = self._sent.pop((step.node_id, request_id), None)
                self._message(at_us, step.node_id, format_response(response), source)
            case Started():
                self.lines.append(Line(at_us, step.node_id, "starts"))
            case StopRequested():
                self.lines.append(Line(at_us, step.node_id, "is asked to stop"))

    def _message(self, at_us: int, node_id: int, shown: str | None, source: int | None) -> None:
        if shown is not None:
            self.lines.append(Line(at_us, node_id, shown, source))


def trace_lines(
    recorder: TraceRecorder, history: SimulatedHistory, log_entries: Sequence[tuple[int, int, str]]
) -> list[Line]:
    """All lines, with the results of the clients' sends."""
    recorder.catch_up(log_entries)
    return sorted([*recorder.lines, *lines_of_sends(history)], key=lambda line: line.at_us)


def without_repetitions(lines: Sequence[Line]) -> list[Line]:
    """Collapse repeated rounds of lines, such as a request that is refused and retried, into one with a count."""
    shown: list[Line] = []
    index = 0
    while index < len(lines):
        for period in range(1, _LONGEST_ROUND + 1):
            times = _rounds(lines, index, period)
            if times > 1:
                shown += lines[index : index + period]
                shown[-1] = shown[-1]._replace(text=f"{shown[-1].text} (this, {times} times)")
                index += times * period
                break
        else:
            shown.append(lines[index])
            index += 1
    return shown


def _rounds(lines: Sequence[Line], index: int, period: int) -> int:
    """How often the `period` lines from `index` on repeat in a row, ignoring their times."""
    pattern = [line[1:] for line in lines[index : index + period]]
    times = 0
    while [line[1:] for line in lines[index : index + period]] == pattern and len(pattern) == period:
        times += 1
        index += period
    return times


def lines_of_sends(history: SimulatedHistory) -> Iterable[Line]:
    """The results of the clients' sends."""
    values: dict[int, list[int]] = {}
    for send in history.sends:
        values.setdefault(send.op, []).append(send.value)
    how: dict[Hashable, str] = {"ok": "acknowledged", "fail": "failed", "info": "unknown whether it was appended"}
    for operation in history.operations:
        if operation.kind == "send" and operation.completed_ns is not None:
            sent = values[operation.op]
            what = f"send of {sent[0]}" + (f"-{sent[-1]}" if len(sent) > 1 else "")
            yield Line(operation.completed_ns // MS, CLIENTS_FROM, f"{what}: {how[operation.status]}")
