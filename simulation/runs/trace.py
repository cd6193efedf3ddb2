"""Records the trace of a simulation: readable lines, one per transition, in order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

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
from simulation.engine.cluster import NOBODY, EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.transport import CLIENTS_FROM
from simulation.runs.message_format import format_request, format_response
from simulation.workload.recording import SimulatedHistory

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
        arrow = "" if self.source is None else f"from {name_of(self.source)}: "
        return f"{self.at_us / US_PER_S:10.3f}  {name_of(self.node_id):<12} {arrow}{self.text}"


def name_of(node_id: int) -> str:
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
        """Add the nemesis's log entries since the last call."""
        for at_us, node_id, text in log_entries[self._entries_read :]:
            if node_id == NOBODY:
                self.lines.append(Line(at_us, NOBODY, text))
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
    return sorted([*recorder.lines, *_sends(history)], key=lambda line: line.at_us)


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


def _sends(history: SimulatedHistory) -> Iterable[Line]:
    values: dict[int, list[int]] = {}
    for send in history.sends:
        values.setdefault(send.op, []).append(send.value)
    how: dict[Hashable, str] = {"ok": "acknowledged", "fail": "failed", "info": "unknown whether it was appended"}
    for operation in history.operations:
        if operation.kind == "send" and operation.completed_ns is not None:
            sent = values[operation.op]
            what = f"send of {sent[0]}" + (f"-{sent[-1]}" if len(sent) > 1 else "")
            yield Line(operation.completed_ns // MS, CLIENTS_FROM, f"{what}: {how[operation.status]}")
