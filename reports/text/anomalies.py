"""Explains anomalies: what was promised, what happened, on which replicas, under which faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.wording import count, in_leader_epoch, moment, node, partition_name
from history.anomalies import CATALOGUE
from history.processes import number_name
from incidents.partition_history import PartitionHistory
from reports.data.joined import UNKNOWN, Joined
from reports.data.stored_run import Run, is_one_of, rows_where
from reports.data.suspects import suspects
from reports.pictures.replica_logs import AFTER, LogPicture, LogRow, acknowledged_at, log_picture
from reports.text.anomaly_groups import AnomalyExplanation, AnomalyGroup, PartitionKey
from reports.text.incidents import incidents_of_record, promise_of
from reports.text.record_timeline import TimelineEvent, record_timeline
from reports.text.totals import AnomalyTotal, anomaly_totals

EXPLANATIONS_PER_GROUP = 3
EXPLANATIONS_MAX = 18
ROWS_PER_GROUP = 100
"""Anomalies listed in a group's folded table."""
EVIDENCE_CHARACTERS = 2_000

HistoryOf = Callable[[str, int], PartitionHistory]


def groups(run: Run, joined: Joined, history_of: HistoryOf) -> list[AnomalyGroup]:
    """Group the anomalies by name, violations first, and explain the first few of each."""
    budget = EXPLANATIONS_MAX
    found: list[AnomalyGroup] = []
    totals = anomaly_totals(run)
    for within in (False, True):
        for total in totals:
            number = total.within_contract if within else total.violations
            if number:
                group = _group(
                    run,
                    joined,
                    history_of,
                    total,
                    within,
                    number,
                    min(budget, EXPLANATIONS_PER_GROUP),
                    f"record-{len(found) + 1}",
                )
                budget -= len(group.explanations)
                found.append(group)
    return found


def _group(
    run: Run,
    joined: Joined,
    history_of: HistoryOf,
    total: AnomalyTotal,
    within: bool,
    number: int,
    explanations: int,
    anchor: str,
) -> AnomalyGroup:
    table = rows_where(run.tables["anomalies"], anomaly=total.name)
    allowed = is_one_of(table, "within_contract", True)
    table = table.filter(pa.array(allowed if within else ~allowed))
    table = table.sort_by([(name, "ascending") for name in ("topic", "partition", "offset", "at_ns")])
    first = _chosen(table, run.incident_of_place, explanations)
    chosen = set(first)
    rest = [row for row in range(min(table.num_rows, ROWS_PER_GROUP + len(chosen))) if row not in chosen]
    return AnomalyGroup(
        name=total.name,
        within_contract=within,
        promised=promise_of(total.name),
        total=number,
        recorded=table.num_rows,
        partitions=tuple(_partitions(table)),
        explanations=tuple(
            replace(
                _explanation(run, joined, history_of, row),
                anchor=f"{anchor}-{index}",
                incidents=tuple(incidents_of_record(run, row)),
            )
            for index, row in enumerate(_rows(table, first), start=1)
        ),
        rows=tuple(
            {**row, "anchor": f"{anchor}-{index}", "incidents": incidents_of_record(run, row)}
            for index, row in enumerate(_rows(table, rest[:ROWS_PER_GROUP]), start=1 + len(first))
        ),
    )


def _rows(table: pa.Table, indices: list[int]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.take(pa.array(indices, pa.int64())).to_pylist()
    return rows


def _chosen(table: pa.Table, incident_of_place: Mapping[int, int], wanted: int) -> list[int]:
    """Choose the rows to explain, of a table sorted by partition and offset.

    Records whose offsets fit into one picture share it, so only the first of such neighbours is explained; each
    incident has its first one explained before any has its second, and of one incident each partition.
    """
    of_incidents: dict[int, list[tuple[int, int]]] = {}
    turn = 0
    before: tuple[object, object, int | None] | None = None
    columns = (table.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    places = table.column("place").to_pylist()
    before_in: int | None = None
    for row, position in enumerate(zip(*columns, strict=True)):
        incident = incident_of_place.get(places[row], len(places))
        same_partition = before is not None and before[:2] == position[:2]
        neighbours = same_partition and before is not None and _fit_one_picture(before[2], position[2])
        neighbours = neighbours and incident == before_in
        turn = 0 if not same_partition else turn + (not neighbours)
        if not neighbours:
            of_incidents.setdefault(incident, []).append((turn, row))
        before, before_in = position, incident
    turns = [
        (place, incident, row) for incident, mine in of_incidents.items() for place, (_, row) in enumerate(sorted(mine))
    ]
    return sorted(row for *_, row in sorted(turns)[:wanted])


def _fit_one_picture(offset: int | None, following: int | None) -> bool:
    return offset is not None and following is not None and following - offset <= AFTER


def _partitions(table: pa.Table) -> Iterator[PartitionKey]:
    """Yield for each partition how many there are, over which offsets and times."""
    grouped = table.group_by(["topic", "partition"]).aggregate(
        [
            ([], "count_all"),
            ("offset", "min"),
            ("offset", "max"),
            ("at_ns", "min"),
            ("at_ns", "max"),
        ]
    )
    ordered = grouped.sort_by([("topic", "ascending"), ("partition", "ascending")])
    for row in ordered.slice(0, 24).to_pylist():
        yield PartitionKey(
            partition_name(row["topic"], row["partition"]),
            row["count_all"],
            _range(row["offset_min"], row["offset_max"], count),
            _range(row["at_ns_min"], row["at_ns_max"], moment),
        )


def _range(low: int | None, high: int | None, formatted: Callable[[int], str]) -> str:
    if low is None or high is None:
        return "not known"
    return formatted(low) if low == high else f"{formatted(low)} to {formatted(high)}"


def _explanation(run: Run, joined: Joined, history_of: HistoryOf, row: dict[str, Any]) -> AnomalyExplanation:
    evidence = _evidence(row["evidence"])
    topic, partition, value = row["topic"], row["partition"], row["value"]
    if topic is None or partition is None:
        return _explained(run, row, evidence, None, (), None, None)
    history = history_of(topic, partition)
    offset = row["offset"] if row["offset"] is not None else _offset_of(run, value)
    about_record = row["anomaly"] in CATALOGUE and CATALOGUE[row["anomaly"]].about_record
    if row["anomaly"] == "divergent-replicas" and offset is not None:  # which of their records it should be
        promised = acknowledged_at(joined, topic, partition, offset)
        value = value if promised is None else promised
    picture = log_picture(run, joined, topic, partition, offset, value) if about_record and offset is not None else None
    if value is None and picture is not None:
        value = picture.value
    if not about_record or value is None:
        return _explained(run, row, evidence, picture, (), _operation_time(joined, row), row["at_ns"], history)
    timeline = record_timeline(run, joined, history, offset, value)
    reference = None if timeline.acknowledged_ns is None else (timeline.acknowledged_ns, "the acknowledgement")
    return _explained(run, row, evidence, picture, timeline.moments, reference, timeline.gone_ns, history)


def _explained(
    run: Run,
    row: dict[str, Any],
    evidence: object,
    picture: LogPicture | None,
    moments: tuple[TimelineEvent, ...],
    reference: tuple[int, str] | None,
    until_ns: int | None,
    history: PartitionHistory | None = None,
) -> AnomalyExplanation:
    if reference is None and row["at_ns"] is not None:
        reference = (row["at_ns"], "the anomaly")
    led = history.leader_at(reference[0]) if history and reference else None
    replicas = {node_id for node_id in (row["broker"], led.leader if led else None) if node_id is not None}
    return AnomalyExplanation(
        title=_title(row),
        happened=row["explanation"] or "The checker gave no explanation.",
        replicas=tuple(_on_replicas(picture)) if picture else _by_the_row(row),
        suspects=tuple(
            suspects(run, _named_faults(evidence), reference, until_ns, replicas, _faults_of_its_incident(run, row))
        ),
        moments=moments,
        picture=picture,
        evidence=_readable(evidence),
        row=row,
        is_dated=reference is not None,
    )


def _faults_of_its_incident(run: Run, row: dict[str, Any]) -> set[int]:
    incidents = (run.incidents[number - 1] for number in incidents_of_record(run, row))
    return {number for incident in incidents for cause in incident.causes for number in cause.faults}


_DATED_BY = {"lost-acked-write": "acknowledged ", "lost-read": "read "}
"""Anomaly → what happened at the time that it has, where that is not the anomaly itself."""


def _title(row: dict[str, Any]) -> str:
    words = [partition_name(row["topic"], row["partition"])]
    is_read = row["anomaly"] == "stale-read"  # of which the offset is where it ended, before the record
    if row["offset"] is not None:
        words.append(f"{'read that ended before ' if is_read else ''}offset {count(row['offset'])}")
    if row["value"] is not None:
        words.append(f"{'without ' if is_read else ''}value {number_name(row['value'])}")
    if row["at_ns"] is not None:
        words.append(f"{_DATED_BY.get(row['anomaly'], '')}at {moment(row['at_ns'])}")
    return ", ".join(words)


def _on_replicas(picture: LogPicture) -> Iterator[str]:
    """Describe what each replica holds at the offset in question."""
    for row in picture.rows:
        if row.broker is not None:
            yield f"{node(row.broker).capitalize()} {_holding(row, picture)}."


def _holding(row: LogRow, picture: LogPicture) -> str:
    cell = next(cell for cell in row.cells if cell.offset == picture.offset)
    if cell.agreement == "past-end":
        return f"has no such offset: its log ends at {count(row.log_end or 0)}"
    if cell.agreement == "absent" and picture.offset < (row.log_start or 0):
        return f"has no such offset any more: its log begins at {count(row.log_start or 0)}"
    if cell.agreement == "absent":
        return "has nothing at this offset"
    has_epoch = cell.leader_epoch is not None and cell.leader_epoch >= 0
    record = f"the record {number_name(cell.value)}{f' of leader epoch {cell.leader_epoch}' if has_epoch else ''}"
    if picture.value is None:
        return f"holds {record}"
    return f"holds it{in_leader_epoch(cell.leader_epoch)}" if cell.value == picture.value else f"holds {record} instead"


def _by_the_row(row: dict[str, Any]) -> tuple[str, ...]:
    return () if row["broker"] is None else (f"It is about {node(row['broker'])}.",)


def _operation_time(joined: Joined, row: dict[str, Any]) -> tuple[int, str] | None:
    """Return when the anomaly's operation was invoked."""
    if row["op"] is None:
        return None
    found = int(joined.operations.rows_of(np.asarray([row["op"]], dtype=np.int64))[0])
    return (
        None if found == UNKNOWN else (int(joined.operations.invoked_ns[found]), f"operation {number_name(row['op'])}")
    )


def _offset_of(run: Run, value: int | None) -> int | None:
    """Find the offset of a record: by its acknowledgement, by a read, or by a log."""
    if value is None:
        return None
    for name in ("sends", "reads", "logs"):
        offsets = rows_where(run.tables[name], value=value).column("offset").drop_null()
        if len(offsets):
            found: int = pc.min(offsets).as_py()
            return found
    return None


def _evidence(text: str | None) -> object:
    try:
        found: object = json.loads(text or "null")
    except ValueError:
        return text
    return found


def _named_faults(evidence: object) -> set[int]:
    """Return the numbers of the faults that the evidence names, as numbers or as objects with a `fault`."""
    named = evidence.get("faults") if isinstance(evidence, dict) else None
    if not isinstance(named, list):
        return set()
    numbers = (item.get("fault") if isinstance(item, dict) else item for item in named)
    return {number for number in numbers if isinstance(number, int)}


def _readable(evidence: object) -> str:
    if evidence is None:
        return ""
    text = evidence if isinstance(evidence, str) else json.dumps(evidence, indent=1, ensure_ascii=False)
    return text if len(text) <= EVIDENCE_CHARACTERS else f"{text[:EVIDENCE_CHARACTERS]} …"
