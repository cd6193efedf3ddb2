"""Builds the timeline of one record: sent, acknowledged, read, and what happened to its partition meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from common.wording import count, in_leader_epoch, moment, node, partition_name
from history.processes import number_name, process_name
from incidents.partition_history import NO_LEADER, LogCut, PartitionHistory
from reports.data.joined import UNKNOWN, Joined
from reports.data.stored_run import Run, integers, is_one_of, rows_where

READS_SHOWN = 3
LEADERS_SHOWN = 4

Tone = Literal["client", "cluster", "loss"]


class TimelineEvent(NamedTuple):
    """One thing that happened. `at_ns` is None for what has no time."""

    at_ns: int | None
    text: str
    tone: Tone


class Observation(NamedTuple):
    """A record in the answer to a poll."""

    at_ns: int
    process: int
    node: int | None
    value: int | None
    offset: int
    final: bool


class RecordTimeline(NamedTuple):
    """What is known of a record, in order of time."""

    moments: tuple[TimelineEvent, ...]
    acknowledged_ns: int | None
    gone_ns: int | None
    """The first sign that the record was gone from its offset, if there is one."""


def record_timeline(
    run: Run, joined: Joined, history: PartitionHistory, offset: int | None, value: int | None
) -> RecordTimeline:
    """Return the timeline of the record `value`, which was or should be at `offset`."""
    sent, acknowledged_ns = _sending(run, value)
    seen = _observations(run, joined, value=value) if value is not None else []
    others = _others(run, joined, history, offset, value) if value is not None else []
    cuts = [
        cut
        for cut in history.cuts
        if offset is not None and cut.log_end_before > offset >= cut.log_end and cut.at_ns >= (acknowledged_ns or 0)
    ]
    replaced = [other for other in others if other.at_ns >= (acknowledged_ns or 0)]
    signs = [cut.at_ns for cut in cuts] + [other.at_ns for other in replaced]
    gone_ns = min(signs, default=None)
    moments = [
        *sent,
        *_reading(seen),
        *(
            TimelineEvent(
                cut.at_ns,
                _shorter(cut),
                "loss",
            )
            for cut in cuts
        ),
        *(_replacement(other, "loss") for other in replaced[:1]),
        *(_replacement(other, "cluster") for other in others[:1] if other not in replaced),
        *_leaders(history, acknowledged_ns, gone_ns),
    ]
    ordered = sorted(moments, key=lambda event: (event.at_ns is None, event.at_ns or 0))
    return RecordTimeline(tuple(ordered), acknowledged_ns, gone_ns)


def _shorter(cut: LogCut) -> str:
    log = f"the log of {node(cut.broker)}"
    if cut.at_ns == cut.before_ns:
        return f"{log} was cut {cut.ends}"
    before = f"at {moment(cut.before_ns)} it had ended at {count(cut.log_end_before)}"
    return f"{log} was seen to end at {count(cut.log_end)}; {before}"


def _sending(run: Run, value: int | None) -> tuple[list[TimelineEvent], int | None]:
    """Return how the record was sent, and the time of its acknowledgement."""
    if value is None:
        return [], None
    sends = rows_where(run.tables["sends"], value=value)
    operations = run.tables["operations"]
    moments: list[TimelineEvent] = []
    acknowledged_ns: int | None = None
    for send in sends.slice(0, 2).to_pylist():
        number = number_name(send["op"])
        for operation in rows_where(operations, op=send["op"]).slice(0, 1).to_pylist():
            by = process_name(operation["process"])
            if operation["client"]:
                by += f" ({operation['client']})"
            moments.append(TimelineEvent(operation["invoked_ns"], f"{by} sent it, operation {number}", "client"))
            completed_ns = operation["completed_ns"]
            if operation["status"] == "ok":
                acknowledged_ns = completed_ns
                at_offset = "" if send["offset"] is None else f" at offset {count(send['offset'])}"
                text = f"{node(operation['node'])} acknowledged it{at_offset}"
            else:
                error = f": {operation['error']}" if operation["error"] else ""
                text = f"the operation ended as {operation['status']}{error}"
            moments.append(TimelineEvent(completed_ns, text, "client"))
    return moments, acknowledged_ns


def _observations(run: Run, joined: Joined, **wanted: object) -> list[Observation]:
    """Return the polls that returned matching records, in order of time."""
    found = rows_where(run.tables["reads"], **wanted)
    return _observations_of(found, joined)


def _observations_of(found: pa.Table, joined: Joined) -> list[Observation]:
    operations = joined.operations
    rows = operations.rows_of(integers(found, "op", null=UNKNOWN))
    observations = [
        Observation(
            int(operations.completed_ns[row]),
            int(operations.process[row]),
            None if operations.node[row] == UNKNOWN else int(operations.node[row]),
            value,
            offset,
            bool(operations.final[row]),
        )
        for row, value, offset in zip(
            rows.tolist(),
            found.column("value").to_pylist(),
            integers(found, "offset", UNKNOWN).tolist(),
            strict=True,
        )
        if row != UNKNOWN
    ]
    return sorted(observations)


def _others(
    run: Run, joined: Joined, history: PartitionHistory, offset: int | None, value: int | None
) -> list[Observation]:
    """Return the polls that returned another record at the same offset."""
    if offset is None:
        return []
    found = rows_where(run.tables["reads"], offset=offset, partition=history.partition, topic=history.topic)
    return _observations_of(found.filter(pa.array(~is_one_of(found, "value", value))), joined)


def _replacement(other: Observation, tone: Tone) -> TimelineEvent:
    record = f"another record ({number_name(other.value)})"
    text = f"{process_name(other.process)} read {record} at offset {count(other.offset)}"
    return TimelineEvent(other.at_ns, text, tone)


def _reading(seen: list[Observation]) -> Iterator[TimelineEvent]:
    if not seen:
        yield TimelineEvent(None, "no reader ever got it", "loss")
        return
    for observation in seen[:READS_SHOWN]:
        source = "" if observation.node is None else f" from {node(observation.node)}"
        phase = " in the final phase" if observation.final else ""
        text = f"{process_name(observation.process)} read it at offset {count(observation.offset)}{source}{phase}"
        yield TimelineEvent(observation.at_ns, text, "client")
    if len(seen) > READS_SHOWN:
        last = seen[-1]
        yield TimelineEvent(
            last.at_ns,
            f"{process_name(last.process)} was the last to read it; it was read {len(seen)} times in all",
            "client",
        )


def _leaders(history: PartitionHistory, since_ns: int | None, gone_ns: int | None) -> Iterator[TimelineEvent]:
    """Yield the leader when the record was acknowledged, and the changes of leader after that."""
    if since_ns is None:
        return
    starts = np.asarray([leadership.start_ns for leadership in history.leaderships], dtype=np.int64)
    first = int(np.searchsorted(starts, since_ns, side="right"))
    name = partition_name(history.topic, history.partition)
    if first:
        leadership = history.leaderships[first - 1]
        led = f"{node(leadership.leader)} led {name}{in_leader_epoch(leadership.leader_epoch)}"
        if leadership.leader == NO_LEADER:
            led = history.unsampled(leadership.start_ns, leadership.end_ns)
        yield TimelineEvent(since_ns - 1, led, "cluster")
    for number, leadership in enumerate(history.leaderships[first : first + LEADERS_SHOWN]):
        if number and gone_ns is not None and leadership.start_ns > gone_ns:
            return
        seen = f"{node(leadership.leader)} observed as leader of {name}{in_leader_epoch(leadership.leader_epoch)}"
        until = "" if leadership is history.leaderships[-1] else f" until {moment(leadership.end_ns)}"
        unseen = f"from then on{until} {history.unsampled(leadership.start_ns, leadership.end_ns)}"
        text = unseen if leadership.leader == NO_LEADER else seen
        yield TimelineEvent(leadership.start_ns, text, "cluster")
