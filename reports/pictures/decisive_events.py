"""Collects what happened around an incident of a real run: samples, faults, acknowledgements, reads that miss a record.

Samples are taken about twice a second, so that what one shows happened at any time since the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from common.wording import count, moment, nodes, partition_name, plural
from history.processes import number_name, process_name
from incidents.partition_history import PartitionHistory, Sample
from incidents.rows import details_of
from incidents.takeovers import LOST
from reports.data.joined import UNKNOWN, Joined
from reports.data.stored_run import Run, integers, is_one_of, rows_where
from reports.data.story import CLIENTS, NEMESIS, State

GROWTH: Final = "samples that show only growth"
"""Noise: a sample like the one before, but for a longer log or a higher high watermark."""
SILENT_ROUNDS: Final = 2.5
"""A node of which no sample was taken for so many rounds of samples is shown as silent."""
EVIDENCE_CHARACTERS: Final = 240
SERVED_AGAIN = "served again"
"""So `nemesis.faults.base` says that a node has come back."""

OTHERS_MAX: Final = 30
"""Anomalies that are no loss, and are shown as steps."""

_TOOK_OVER: Final = "took over and leads"
_LEADS_AGAIN: Final = "leads again"
_CUT = "its log was cut"
_SHORTER = "its log has become shorter,"
"""Said of a sample, which does not tell whether the broker cut its log or its disk lost a part of it."""


class Event(NamedTuple):
    """One step of the chart."""

    at_ns: int
    lane: int
    text: str
    source: int | None = None
    noise: str = ""
    state: State = {}
    silent: bool = False
    took_over: bool = False
    """Whether it shows a leader that was none before, or led in another epoch."""
    was_cut: bool = False
    """Whether it shows a log that has become shorter."""
    evidence: bool = False
    """Whether the cause of the incident rests on it."""
    group: tuple[str, int | None] | None = None
    """What an event of one record shares with those that may be told as one."""
    offset: int = UNKNOWN


class LostRecords(NamedTuple):
    """The lost records of one partition that the checkers kept: offset → value, and their operations."""

    values: Mapping[int, int]
    rows: Sequence[Mapping[str, Any]]


def lost_records(rows: Iterable[Mapping[str, Any]]) -> LostRecords:
    """Pick the lost records among the anomalies of one partition."""
    kept = [row for row in rows if row["anomaly"] in LOST and row["offset"] is not None and row["value"] is not None]
    return LostRecords({row["offset"]: row["value"] for row in kept}, kept)


def of_samples(history: PartitionHistory, start_ns: int, end_ns: int) -> Iterator[Event]:
    """Yield the samples of a stretch of time, each with what it shows that the one before of its broker did not."""
    name = partition_name(history.topic, history.partition)
    step_ns = _step_ns(history.samples)
    last: dict[int, Sample] = {}
    silent: set[int] = set()
    led: set[tuple[int, int]] = set()
    for sample in history.samples:
        if sample.at_ns > end_ns:
            break
        if sample.at_ns >= start_ns:
            yield from _silences(last, silent, start_ns, sample.at_ns, step_ns)
            told = _changes(last.get(sample.broker), sample, has_led=(sample.broker, sample.leader_epoch) in led)
            if sample.broker in silent:
                told = [*told, "answers again"]
            known = f"log end {_number(sample.log_end)}, high watermark {_number(sample.high_watermark)}"
            text = f"{', '.join(told)}; {known}" if told else known
            yield Event(
                sample.at_ns,
                sample.broker,
                text,
                noise="" if told else GROWTH,
                state={name: standing(sample)},
                took_over=bool(told) and told[0].startswith((_TOOK_OVER, _LEADS_AGAIN)),
                was_cut=any(one.startswith((_CUT, _SHORTER)) for one in told),
            )
        silent.discard(sample.broker)
        last[sample.broker] = sample
        if sample.role == "leader" and sample.leader_epoch >= 0:
            led.add((sample.broker, sample.leader_epoch))
    yield from _silences(last, silent, start_ns, end_ns, step_ns)


def standing(sample: Sample) -> dict[str, Any]:
    """Return a sample as the chart shows the state of a replica."""
    known = {
        "role": sample.role,
        "epoch": sample.leader_epoch,
        "log_start": sample.log_start,
        "log_end": sample.log_end,
        "high_watermark": sample.high_watermark,
        "isr": list(sample.isr),
        "elr": list(sample.elr),
    }
    return {key: value for key, value in known.items() if value is not None}


def _step_ns(samples: Sequence[Sample]) -> int:
    """Return the usual time between two samples of one broker; a second if that is not known."""
    times: dict[int, list[int]] = {}
    for sample in samples:
        times.setdefault(sample.broker, []).append(sample.at_ns)
    longest = max(times.values(), key=len, default=[])
    return int(np.median(np.diff(longest))) if len(longest) > 1 else 1_000_000_000


def _silences(
    last: Mapping[int, Sample], silent: set[int], start_ns: int, until_ns: int, step_ns: int
) -> Iterator[Event]:
    for broker, sample in last.items():
        if broker not in silent and until_ns - sample.at_ns > SILENT_ROUNDS * step_ns:
            silent.add(broker)
            text = f"no sample since {moment(sample.at_ns)}"
            yield Event(max(start_ns, sample.at_ns + step_ns), broker, text, silent=True)


def _changes(before: Sample | None, now: Sample, *, has_led: bool) -> list[str]:
    """Say what is new since a broker's last sample; `has_led`: an earlier sample of it leads in this epoch."""
    told = []
    if before is None or (before.role, before.leader, before.leader_epoch) != now[2:5]:
        epoch = f" in leader epoch {now.leader_epoch}" if now.leader_epoch >= 0 else ""
        if now.role == "leader":
            took_over = before is not None and (before.role != "leader" or before.leader_epoch != now.leader_epoch)
            does = _LEADS_AGAIN if took_over and has_led else _TOOK_OVER if took_over else "leads"
            told.append(f"{does}{epoch}")
        elif now.leader == now.broker:
            led = before is not None and before.role == "leader" and before.leader_epoch == now.leader_epoch
            told.append("leads no more" if led else f"is to lead{epoch}, and does not yet")
        elif now.leader >= 0:
            told.append(f"follows broker {now.leader}{epoch}")
        else:
            told.append("knows no leader")
    ends = (now.cut_from, before.log_end if before is not None else None)
    ended = max((end for end in ends if end is not None), default=0)
    if now.log_end is not None and now.log_end < ended:
        lost = _CUT if now.cut_from is not None else _SHORTER
        told.append(f"{lost} from {count(ended)} to {count(now.log_end)}")
    marks = (None if before is None else before.high_watermark, now.high_watermark)
    if marks[0] is not None and marks[1] is not None and marks[1] < marks[0]:
        told.append(f"its high watermark went back from {count(marks[0])} to {count(marks[1])}")
    if before is not None and before.isr != now.isr and now.isr:  # a follower tells none
        told.append(f"ISR {list(now.isr)}")
    if before is not None and before.elr != now.elr:
        told.append(f"ELR {list(now.elr)}")
    return told


def _number(value: int | None) -> str:
    return "unknown" if value is None else count(value)


def of_faults(run: Run, start_ns: int, end_ns: int, guilty: Iterable[int]) -> Iterator[Event]:
    """Yield begin and end of the faults that lasted in a stretch of time, and the begin of the guilty ones."""
    blamed = set(guilty)
    for fault in run.faults:
        started_ns, ended_ns, number = fault["started_ns"], fault["ended_ns"], fault["fault"]
        if started_ns is None:
            continue
        inside = started_ns <= end_ns and (ended_ns is None or ended_ns >= start_ns)
        if not inside and number not in blamed:
            continue
        name = f"fault #{number}, {fault['kind'] or 'unknown'} of {nodes(fault['targets'])}"
        begun, after = _divided(fault["evidence"] or "")
        effect = f" ({begun[:EVIDENCE_CHARACTERS]})" if begun else ""
        held = f", has taken hold by {moment(fault['held_ns'])}" if fault["held_ns"] is not None else ""
        idle = "" if fault["took_hold"] else ", without effect"
        yield Event(started_ns, NEMESIS, f"{name}, begins{idle}{held}{effect}", evidence=number in blamed)
        if inside and ended_ns is not None and ended_ns <= end_ns:
            healing = f" ({after})" if after else ""
            yield Event(ended_ns, NEMESIS, f"{name}, {'has healed' if fault['healed'] else 'ends'}{healing}")


def _divided(evidence: str) -> tuple[str, str]:
    """What a fault's evidence says of its effect, and how long after its end the last node served again, if it does."""
    effect, _, last = evidence.rpartition("; ")
    served = last.find(SERVED_AGAIN)
    return (effect, last[served:][:EVIDENCE_CHARACTERS]) if served >= 0 else (evidence, "")


def of_quorum(run: Run, start_ns: int, end_ns: int) -> Iterator[Event]:
    """Yield what changed among the controllers in a stretch of time."""
    for row in run.tables["quorum"].to_pylist():
        if row["at_ns"] is not None and row["controller"] is not None and start_ns <= row["at_ns"] <= end_ns:
            led = "" if row["leader"] in (None, -1) else f"; leader is {row['leader']}"
            text = f"is {row['role']} of the controllers' quorum in epoch {row['epoch']}{led}"
            yield Event(row["at_ns"], row["controller"], text)


def of_losses(run: Run, joined: Joined, history: PartitionHistory, lost: LostRecords) -> Iterator[Event]:
    """Yield how lost records were acknowledged or read, what replaced them, and the first answer that misses them."""
    if not lost.values:
        return
    operations = joined.operations
    seen_ns = min((row["at_ns"] for row in lost.rows if row["at_ns"] is not None), default=0)
    here = rows_where(run.tables["sends"], topic=history.topic, partition=history.partition)
    for kind, table in (("acknowledges", here), ("reads", _of_partition(run, "reads", history))):
        offsets = integers(table, "offset", UNKNOWN)
        found = table.filter(pa.array(np.isin(offsets, np.asarray(sorted(lost.values), dtype=np.int64))))
        rows = operations.rows_of(integers(found, "op", UNKNOWN))
        for row, offset, value in zip(
            rows.tolist(), integers(found, "offset", UNKNOWN).tolist(), found.column("value").to_pylist(), strict=True
        ):
            if row == UNKNOWN or not operations.ok[row] or operations.completed_ns[row] == UNKNOWN:
                continue
            mine = lost.values[offset] == value
            at_ns, node = int(operations.completed_ns[row]), int(operations.node[row])
            process = int(operations.process[row])
            if not mine and at_ns < seen_ns:
                continue  # what was there before is no loss
            which = "the lost record" if mine else "another record"
            what = f"{which} (value {number_name(value)}) at offset {count(offset)}"
            text = f"acknowledges {what} to {process_name(process)}"
            if kind == "reads":
                text = f"{what} is read by {process_name(process)}"
            key = (f"{kind} {'lost' if mine else 'other'}", None if node == UNKNOWN else node)
            yield Event(at_ns, CLIENTS, text, key[1], group=key, offset=offset)


def passing_over(run: Run, joined: Joined, history: PartitionHistory, lost: LostRecords) -> Event | None:
    """Return the first answer that covers the first lost offset, after it was acknowledged, and has nothing there."""
    if not lost.values:
        return None
    offset = min(lost.values)
    at_ns = next((row["at_ns"] for row in lost.rows if row["offset"] == offset), None) or 0
    polls = _of_partition(run, "polls", history)
    position, following = integers(polls, "position", UNKNOWN), integers(polls, "next_position", UNKNOWN)
    found = polls.filter(pa.array((position != UNKNOWN) & (position <= offset) & (following > offset)))
    reads = _of_partition(run, "reads", history)
    got = integers(reads.filter(pa.array(is_one_of(reads, "offset", offset))), "op", UNKNOWN)
    op = integers(found, "op", UNKNOWN)
    operations = joined.operations
    rows = operations.rows_of(op[~np.isin(op, got)])
    rows = rows[rows != UNKNOWN]
    rows = rows[operations.ok[rows] & operations.poll[rows] & (operations.completed_ns[rows] > at_ns)]
    if not rows.size:
        return None
    first = int(rows[np.argmin(operations.completed_ns[rows])])
    node = int(operations.node[first])
    text = f"{process_name(int(operations.process[first]))} reads past offset {count(offset)} and gets no record there"
    return Event(int(operations.completed_ns[first]), CLIENTS, text, None if node == UNKNOWN else node, evidence=True)


def of_others(rows: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield anomalies that are no loss, each with the answer that it contradicts."""
    told = [row for row in rows if row["anomaly"] not in LOST and row["at_ns"] is not None]
    for index, row in enumerate(sorted(told, key=lambda row: int(row["at_ns"]))[:OTHERS_MAX]):
        details = details_of(row)
        for key in ("witness", "earlier"):
            one = details.get(key)
            if index == 0 and isinstance(one, dict) and isinstance(one.get("completed_ns"), int):
                what = f"offset {count(one['offset'])}" if isinstance(one.get("offset"), int) else "a later offset"
                node = one["node"] if isinstance(one.get("node"), int) else None
                who = process_name(one["process"]) if isinstance(one.get("process"), int) else "a client"
                yield Event(one["completed_ns"], CLIENTS, f"answers {who} with {what}", node, evidence=True)
        first_sentence = str(row["explanation"] or "").split(". ", 1)[0]
        text = f"{row['anomaly']}: {first_sentence}"
        yield Event(row["at_ns"], CLIENTS, text, row["broker"], evidence=index == 0)


def told_as_one(events: Sequence[Event]) -> list[Event]:
    """Join events of single records that follow each other and say the same of neighbours: one step for a batch."""
    joined: list[list[Event]] = []
    for event in events:
        if event.group is not None and joined and joined[-1][0].group == event.group:
            joined[-1].append(event)
        else:
            joined.append([event])
    return [_as_one(events) for events in joined]


def _as_one(events: Sequence[Event]) -> Event:
    first, last = events[0], events[-1]
    if len(events) == 1 or first.group is None:
        return first
    verb, _, which = first.group[0].partition(" ")
    offsets = [event.offset for event in events]
    records = plural(len(set(offsets)), f"{'lost' if which == 'lost' else 'other'} record")
    first_offset, last_offset = min(offsets), max(offsets)
    among = "among " if len(set(offsets)) <= last_offset - first_offset else ""
    where = f"{among}offsets {count(first_offset)}\N{EN DASH}{count(last_offset)}"
    if first_offset == last_offset:
        where = f"offset {count(first_offset)}"
    until = f", until {moment(last.at_ns)}" if last.at_ns > first.at_ns else ""
    text = f"acknowledges {records}, {where}{until}"
    if verb == "reads":
        text = f"{records} {'is' if len(set(offsets)) == 1 else 'are'} read, {where}{until}"
    return first._replace(text=text, evidence=any(event.evidence for event in events))


def _of_partition(run: Run, table: str, history: PartitionHistory) -> pa.Table:
    return rows_where(run.tables[table], topic=history.topic, partition=history.partition)
