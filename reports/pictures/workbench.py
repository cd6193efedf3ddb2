"""Collects what the script of the page's time line works with: faults, incidents, anomalies, leaders and operations.

Times are milliseconds of the run's clock. Every text has lost what a terminal or a page would obey or hide, and its
excess length; the script sets texts, never markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from common.wording import moment, node, nodes, partition_name, printable
from history.processes import process_name
from incidents import Incident
from incidents.node_logs import LogLine
from incidents.partition_history import NO_LEADER, PartitionHistory
from reports.data.joined import Joined
from reports.data.node_logs import lines_to_show
from reports.data.operation_cube import operation_cube
from reports.data.stored_run import Run
from reports.pictures.fault_lanes import KIND_CHARACTERS
from reports.pictures.strips import PARTITIONS_MAX
from reports.pictures.theme import fault_family
from reports.text.anomaly_groups import AnomalyGroup
from reports.text.incidents import INCIDENTS_SHOWN, incidents_of_fault, incidents_of_record

FAULTS_MAX: Final = 1_000
"""Faults that can be shown; a run with more says so."""
MARKS_MAX: Final = 1_500
MARK_BINS: Final = 600
"""Anomalies of one name and partition that fall into one of so many bins are one mark."""
SEGMENTS_MAX: Final = 400
TEXT_CHARACTERS: Final = 300
RECORDS_MAX: Final = 6
"""Records that a mark leads to."""
_MS: Final = 1e6


def workbench(
    run: Run,
    joined: Joined,
    histories: Sequence[PartitionHistory],
    groups: Sequence[AnomalyGroup],
    anchors: Mapping[int, int],
    log_lines: Sequence[LogLine],
) -> dict[str, Any] | None:
    """Return the data, ready for JSON; None if nothing happened over any time.

    `anchors` has the numbers of the faults that the page lists, and `groups` the records that it shows.
    `log_lines`: all lines of the nodes' logs, of which the nearest to an incident are shown.
    """
    start_ns, end_ns = run.span_ns
    if end_ns <= start_ns:
        return None
    topics: dict[tuple[str | None, int | None], int] = {pair: n for n, pair in enumerate(joined.partitions)}
    marks = _anomalies(run, groups, topics)
    faults = [_fault(run, fault, anchors) for fault in run.faults[:FAULTS_MAX] if fault["started_ns"] is not None]
    cube = operation_cube(run, joined)
    lines, lines_left = lines_to_show(run, log_lines)
    seen = {target for fault in faults for target in fault["targets"]} | {group["node"] for group in cube["groups"]}
    seen |= {line.node for line in lines}
    clients = {group["client"] for group in cube["groups"]}
    return {
        "span": [start_ns / _MS, end_ns / _MS],
        "phases": [
            [short(phase["phase"]), phase["started_ns"] / _MS]
            for phase in run.phases[:20]
            if phase["started_ns"] is not None
        ],
        "nodes": [[number, node(number)] for number in sorted(seen) if number >= 0],
        "partitions": [short(partition_name(*pair)) for pair in joined.partitions],
        "clients": {client: process_name(client) for client in clients if client >= 0},
        "faults": faults,
        "incidents": [_incident(number, one, topics) for number, one in enumerate(run.incidents, 1)][:MARKS_MAX],
        "anomalies": marks[:MARKS_MAX],
        "leaders": [_leaders(history, topics) for history in histories[:PARTITIONS_MAX]],
        "operations": cube,
        "logs": [list(line) for line in lines],
        "left_out": {
            "faults": max(0, len(run.faults) - FAULTS_MAX),
            "anomalies": max(0, len(marks) - MARKS_MAX),
            "rows": sum(max(0, group.total - group.recorded) for group in groups),
            "log_lines": lines_left,
        },
    }


def short(text: object) -> str:
    """Return a text that is safe to show, and not long."""
    found = str(text)
    cut = found if len(found) <= TEXT_CHARACTERS else f"{found[:TEXT_CHARACTERS]}…"
    return printable(cut)


def _ms(at_ns: int) -> float:
    """Milliseconds of nanoseconds; whole ones as an integer, which takes fewer bytes of the page."""
    return at_ns / _MS if at_ns % _MS else int(at_ns // _MS)


def _fault(run: Run, fault: Mapping[str, Any], anchors: Mapping[int, int]) -> dict[str, Any]:
    number, ended_ns = fault["fault"], fault["ended_ns"]
    kind = printable((fault["kind"] or "unknown")[:KIND_CHARACTERS])
    return {
        "number": number,
        "kind": kind,
        "family": fault_family(kind),
        "targets": sorted({one for one in fault["targets"] or [] if one is not None}),
        "who": nodes(fault["targets"]),
        "start": _ms(fault["started_ns"]),
        "end": None if ended_ns is None else _ms(ended_ns),
        "when": f"{moment(fault['started_ns'])} to {'the end' if ended_ns is None else moment(ended_ns)}",
        "took_hold": bool(fault["took_hold"]),
        "evidence": short(fault["evidence"] or ""),
        "listed": number in anchors,
        "incidents": incidents_of_fault(run, number),
    }


def _incident(number: int, incident: Incident, topics: Mapping[tuple[str | None, int | None], int]) -> dict[str, Any]:
    causes = [cause for cause in incident.causes if cause.at_ns is not None]
    at_ns = incident.at_ns if incident.at_ns is not None else causes[0].at_ns if causes else None
    return {
        "number": number,
        "headline": short(incident.headline),
        "at": None if at_ns is None else at_ns / _MS,
        "when": moment(at_ns),
        "allowed": incident.within_contract,
        "nodes": sorted({cause.node for cause in incident.causes if cause.node is not None}),
        "partitions": sorted(
            {topics[span.topic, span.partition] for span in incident.spans if (span.topic, span.partition) in topics}
        ),
        "faults": sorted({fault for cause in incident.causes for fault in cause.faults}),
        "listed": number <= INCIDENTS_SHOWN,
    }


def _anomalies(
    run: Run, groups: Sequence[AnomalyGroup], topics: Mapping[tuple[str | None, int | None], int]
) -> list[dict[str, Any]]:
    """Return the marks: anomalies that have a time, those of one name and partition within a bin as one."""
    start_ns, end_ns = run.span_ns
    width_ns = max(1, (end_ns - start_ns) // MARK_BINS)
    shown = {
        (group.name, group.within_contract, row["topic"], row["partition"], row["offset"], row["at_ns"]): anchor
        for group in groups
        for anchor, row in group.records
    }
    columns = ("anomaly", "within_contract", "topic", "partition", "offset", "at_ns", "broker", "place")
    marks: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in run.tables["anomalies"].select(list(columns)).to_pylist():
        if row["at_ns"] is None:
            continue
        name, within, at_ns = row["anomaly"] or "unknown", bool(row["within_contract"]), row["at_ns"]
        key = (name, within, row["topic"], row["partition"], (at_ns - start_ns) // width_ns)
        mark = marks.setdefault(
            key,
            {
                "name": short(name),
                "allowed": within,
                "at": min(max(at_ns, start_ns), end_ns) / _MS,
                "when": moment(at_ns),
                "where": short(partition_name(row["topic"], row["partition"])),
                "partition": topics.get((row["topic"], row["partition"]), -1),
                "count": 0,
                "nodes": [],
                "records": [],
                "incidents": [],
            },
        )
        mark["count"] += 1
        if row["broker"] is not None and row["broker"] not in mark["nodes"]:
            mark["nodes"].append(row["broker"])
        anchor = shown.get((name, within, row["topic"], row["partition"], row["offset"], at_ns))
        if anchor is not None and len(mark["records"]) < RECORDS_MAX:
            mark["records"].append([anchor, "the run" if row["offset"] is None else f"offset {row['offset']:,}"])
        for number in incidents_of_record(run, row):
            if number not in mark["incidents"] and number <= INCIDENTS_SHOWN:
                mark["incidents"].append(number)
    return sorted(marks.values(), key=lambda mark: (mark["allowed"], mark["at"]))


def _leaders(history: PartitionHistory, topics: Mapping[tuple[str | None, int | None], int]) -> dict[str, Any]:
    led = [
        [one.start_ns / _MS, one.end_ns / _MS, -1 if one.leader == NO_LEADER else one.leader, one.leader_epoch]
        for one in history.leaderships
    ]
    synced = [[one.start_ns / _MS, one.end_ns / _MS, list(one.isr)] for one in history.isrs]
    return {
        "partition": topics.get((history.topic, history.partition), -1),
        "led": led[:SEGMENTS_MAX],
        "isr": synced[:SEGMENTS_MAX],
    }
