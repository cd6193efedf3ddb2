"""Forms the incidents of a run: attributes each anomaly and each finding to one cause, and words what happened."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from history.anomalies import CATALOGUE
from history.reader import load_table
from incidents.doubled import NOT_IDEMPOTENT, is_doubled, is_retried
from incidents.early_designs import with_known_gaps
from incidents.elections import decisive_election
from incidents.evidence import Evidence, Finding, as_the_simulator_found
from incidents.exact_numbers import Counted, ExactNumbers, Extents, Totals
from incidents.groups import (
    Group,
    Keyed,
    cuts_united,
    divergences_told,
    key_of,
    leaders_united,
    losses_together,
    merged,
    sides_united,
    with_same_fault,
)
from incidents.headlines import gravest, headline
from incidents.kept_out import outages_united
from incidents.later_losses import with_later_losses
from incidents.losses import causes_of
from incidents.model import Cause, Election, Incident, Span
from incidents.reads import COMMITS, OF_ANSWERS, STALE, causes_of_row
from incidents.rows import Row, details_of
from incidents.simulated import OWN_LAYERS, causes_of_finding
from incidents.takeovers import LOST, cuts_to_follow, elsewhere, losses_in, still_held_in_part
from incidents.uncommitted import EARLY

SYMPTOMS: Final = frozenset({
    *("inconsistent-offset", "reordered-send", "nonmonotonic-send", "wrong-offset", "divergent-replicas"),
    *("epoch-regression", "stale-read", "end-offset-regression", "nonmonotonic-poll", "skipped-poll", "duplicate"),
    *("unseen", "aborted-read", "two-leaders", "dirty-read", "nonlinearizable"),
})  # fmt: skip
"""Anomalies that a loss of records can show itself by, too."""
INCIDENTS_MAX = 200
_PLACE: Final = "place"
"""Key of a row: its place in the table of anomalies."""


def diagnose(directory: Path, totals: Totals | None = None, extents: Extents | None = None) -> list[Incident]:
    """Return the incidents of a run, violations first, the gravest first.

    `totals`: name → exact numbers of violations and of anomalies within the contract, where the table of anomalies has
    fewer rows than were found: if all rows of a name on one side belong to one incident, it gets all of them.
    `extents`: name → how many there are in each partition, and between which offsets; an incident that alone has such
    anomalies in a partition has all of that partition.
    No content of a directory raises.
    """
    evidence = Evidence(directory)
    table = as_the_simulator_found(load_table(directory, "anomalies").table, evidence.findings).to_pylist()
    rows: list[Row] = [{**row, _PLACE: place} for place, row in enumerate(table)]
    groups = merged(evidence, [*losses_together(evidence, _losses(evidence, rows)), *_findings(evidence)])
    groups = cuts_united(evidence, _with_others(evidence, groups, rows))
    groups = outages_united(divergences_told(evidence, sides_united(leaders_united(groups))))
    found = [_incident(evidence, group) for group in groups if group.rows or group.findings]
    exact = ExactNumbers(rows, found, totals or {}, extents or {})
    found = [_counted(incident, exact.of(incident)) for incident in found]
    return sorted(found, key=_gravity)[:INCIDENTS_MAX]


_NUMBER = re.compile(r"\d[\d,]*")


def _losses(evidence: Evidence, rows: Iterable[Row]) -> Keyed:
    found = []
    for loss in losses_in(evidence, rows):
        causes = causes_of(evidence, loss)
        group = Group(causes, list(loss.rows), losses=[loss])
        apart = (loss.topic, loss.partition, loss.takeover and loss.takeover[:2])
        found.append((group.early_leader or key_of(causes, apart), group))
    return found


def _findings(evidence: Evidence) -> Keyed:
    """Make one incident of what the simulator found: it stops at the first violation, and the rest follows from it."""
    own = [finding for finding in evidence.findings if finding.layer in OWN_LAYERS]
    if not evidence.findings:
        return []
    first = own[0] if own else evidence.findings[0]
    causes = causes_of_finding(evidence, first)
    if not causes:
        row = {**_row(first), "evidence": None}
        losses = losses_in(evidence, [row])
        causes = causes_of(evidence, losses[0]) if losses else causes_of_row(evidence, row)
    causes = with_later_losses(evidence, evidence.findings, causes)
    return [(("simulator", first.property_id), Group(causes, [], list(evidence.findings)))]


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "anomaly": finding.property_id,
        "within_contract": False,
        "topic": finding.topic,
        "partition": finding.partition,
        "offset": finding.offset,
        "broker": finding.brokers[0] if finding.brokers else None,
        "at_ns": finding.at_ns,
    }


def _with_others(evidence: Evidence, groups: list[Group], rows: Sequence[Row]) -> list[Group]:
    """Add the anomalies that are no loss: to the loss that they retell, or else to incidents of their own."""
    losses = [group for group in groups if group.losses]
    simulated = next((group for group in groups if group.findings), None)
    if simulated is not None:  # the simulator's finding is the first sign of what Spark found later
        for loss in losses:
            simulated.rows += loss.rows
        groups, losses = [simulated], []
    hosts = [_as_host(evidence, group) for group in ([simulated] if simulated is not None else losses)]
    own: Keyed = []
    for row in rows:
        if row["anomaly"] in LOST and row["topic"] is not None:
            continue
        host = simulated if simulated is not None and not row["within_contract"] else _host(hosts, row)
        if host is None or (host is not simulated and row["anomaly"] in STALE):
            causes = causes_of_row(evidence, row) if row["topic"] is not None or row["broker"] is not None else ()
            if row["anomaly"] in COMMITS and not row["within_contract"]:
                host = with_same_fault(losses, causes)
            if [cause.kind for cause in causes] == ["acknowledged-early"]:
                host = None  # by its leader itself, whatever was lost at another time
        if host is not None:
            host.rows.append(row)
            continue
        family = "stale" if row["anomaly"] in STALE else "commits" if row["anomaly"] in COMMITS else row["anomaly"]
        family = "duplicate" if is_doubled(row) else family
        apart = (family, row["topic"], row["partition"], row["broker"] if family == "node-lost" else None)
        if family == "stale" and [cause.kind for cause in causes] == ["acknowledged-early"]:
            apart = (family, "acknowledged-early", causes[0].node, None)  # one mistake of one leader, in any partition
        if [cause.kind for cause in causes] == [NOT_IDEMPOTENT]:
            apart = (family, NOT_IDEMPOTENT, None, None)
        if [cause.kind for cause in causes] == ["no-progress"] and causes[0].node is not None:
            # one node that fails in the same way, in any partition, and whatever service is missing for it
            what, _, why = causes[0].sentence.partition("; ")
            apart = (family, "no-progress", causes[0].node, _NUMBER.sub("#", why or what))
        key: Hashable = (family, row["within_contract"], key_of(causes, apart))
        if [cause.kind for cause in causes] == ["dirty-read"]:  # by one leader, in any partition
            where = (row["topic"], row["partition"]) if causes[0].node is None else None
            key = ("dirty-read", row["within_contract"], causes[0].node, where)
        own.append((key, Group(causes, [row])))
    own.sort(key=lambda keyed: _rank(keyed[1].rows[0]["anomaly"]))  # a group has the causes of its gravest anomaly
    return [*groups, *merged(evidence, own)]


@dataclass
class _Host:
    """A loss that may show itself by other anomalies, with what decides whether it does."""

    group: Group
    first_lost: Mapping[tuple[object, object], int]
    """Topic and partition → the first lost offset."""
    began_ns: int | None
    elected_ns: Mapping[tuple[object, object], int]
    """Topic and partition → when who was elected without the records was first seen.

    What was promised later was not lost by that."""


def _as_host(evidence: Evidence, group: Group) -> _Host:
    first: dict[tuple[object, object], int] = {}
    for row in group.rows:
        if row["anomaly"] in LOST and row["offset"] is not None:
            where = (row["topic"], row["partition"])
            first[where] = min(row["offset"], first.get(where, row["offset"]))
    elected: dict[tuple[object, object], int] = {}
    for loss in group.losses:
        if loss.takeover is not None:
            where = (loss.topic, loss.partition)
            elected[where] = max(loss.takeover.seen_ns, elected.get(where, 0))
            # all that came after the end of its log is gone, and what others cut off to follow it
            gone = [cut.log_end for cut in cuts_to_follow(evidence, loss, loss.takeover)]
            for end in (*gone, loss.takeover.log_end):
                if end is not None:
                    first[where] = min(end, first.get(where, end))
    for loss in group.losses:
        if loss.takeover is None:  # of some of the records no election shows how they went
            elected.pop((loss.topic, loss.partition), None)
    began_ns = min((cause.at_ns for cause in group.causes if cause.at_ns is not None), default=None)
    return _Host(group, first, began_ns, elected)


def _host(hosts: Iterable[_Host], row: Row) -> Group | None:
    """Return the loss that an anomaly retells: same partition, not before the first lost offset, not earlier.

    Of several the first one after what the anomaly is about was known to be there; if that is not told, the one with
    the latest records.
    """
    if row["anomaly"] not in SYMPTOMS or is_retried(row):
        return None
    offset, where = _offset_in_question(row), (row["topic"], row["partition"])
    promised_ns = _promised_ns(row)
    found: list[tuple[int, int, int, Group]] = []
    for place, host in enumerate(hosts):
        first = host.first_lost.get(where)
        late_enough = (
            row["at_ns"] is None
            or host.began_ns is None
            or row["at_ns"] >= host.began_ns
            or row["anomaly"] not in STALE
        )
        elected_ns = host.elected_ns.get(where)
        in_time = promised_ns is None or elected_ns is None or promised_ns <= elected_ns
        if first is not None and late_enough and in_time and (offset is None or offset >= first):
            after_ns = 0 if promised_ns is None or elected_ns is None else elected_ns
            found.append((-after_ns, first, -place, host.group))
    return max(found, key=lambda one: one[:3])[3] if found else None


def _promised_ns(row: Row) -> int | None:
    """When it was known that a record, which an anomaly contradicts, is there; None if the anomaly does not tell."""
    before = _one_before(row)
    known_ns = _number_of(before, "completed_ns")
    if known_ns is not None:
        return None if before.get("status") == "info" else known_ns  # then it was only read
    entries = details_of(row).get("entries")
    known = [_acknowledged_ns(one, row["offset"]) for one in entries] if isinstance(entries, list) else []
    times = [at_ns for at_ns in known if at_ns is not None]
    return min(times) if times and len(times) == len(known) else None


def _acknowledged_ns(entry: object, offset: int | None) -> int | None:
    """When one of the values of an offset was acknowledged there; None if it was only read there."""
    if not isinstance(entry, dict) or entry.get("acknowledged_offset") != offset:
        return None
    at_ns = entry.get("known_ns")
    return at_ns if isinstance(at_ns, int) else None


def _offset_in_question(row: Row) -> int | None:
    own: int | None = row["offset"]
    before = _number_of(_one_before(row), "offset")
    return own if before is None else before


def _one_before(row: Row) -> dict[str, Any]:
    """Return what an anomaly tells of the operation that it contradicts; empty if it tells of none."""
    details = details_of(row)
    return next((one for key in ("witness", "earlier") if isinstance(one := details.get(key), dict)), {})


def _number_of(entries: Mapping[str, Any], name: str) -> int | None:
    found = entries.get(name)
    return found if isinstance(found, int) else None


def _incident(evidence: Evidence, group: Group) -> Incident:
    anomalies: dict[str, tuple[int, int]] = {}
    for row in group.rows:
        violations, within = anomalies.get(row["anomaly"], (0, 0))
        anomalies[row["anomaly"]] = (violations, within + 1) if row["within_contract"] else (violations + 1, within)
    for finding in group.findings:
        violations, within = anomalies.get(finding.property_id, (0, 0))
        same = sum(one.number for one in group.findings if one.property_id == finding.property_id)
        anomalies[finding.property_id] = (violations or same, within)
    name = gravest(anomalies)
    spans = _spans(group, name)
    election = decisive_election(evidence, group.losses, name)
    times = [cause.at_ns for cause in group.causes if cause.at_ns is not None]
    if not times or {cause.kind for cause in group.causes} <= OF_ANSWERS | {NOT_IDEMPOTENT}:
        times = [row["at_ns"] for row in group.rows if row["at_ns"] is not None] or times
    incident = Incident(
        headline="",
        within_contract=all(violations == 0 for violations, _ in anomalies.values()),
        anomalies=dict(sorted(anomalies.items(), key=lambda pair: _rank(pair[0]))),
        spans=spans,
        causes=with_known_gaps(evidence, _with_more(evidence, group, _of_the_election(evidence, group, election))),
        at_ns=min(times, default=None),
        findings=tuple(str(finding) for finding in group.findings),
        election=election,
        rows=_stretches(row[_PLACE] for row in group.rows),
    )
    known = sum(row["anomaly"] == name for row in group.rows)
    if not known:
        named = [finding for finding in group.findings if finding.property_id == name]
        known = sum(finding.number if finding.ranges else 1 for finding in named)
    return _worded(incident, first=known if known < sum(anomalies[name]) else 0)


def _with_more(evidence: Evidence, group: Group, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return causes with what else they did: a single one with what it did to the other partitions."""
    also = tuple(group.also)
    if len(causes) == 1:
        also += elsewhere(group.losses, causes[0].evidence)
        also += still_held_in_part(evidence, group.losses)
    return tuple(replace(cause, evidence=(*cause.evidence, *also)) for cause in causes) if also else causes


def _of_the_election(evidence: Evidence, group: Group, election: Election | None) -> tuple[Cause, ...]:
    """Return a group's causes, a single one with the evidence of the partition of the decisive election."""
    if election is None or len(group.causes) != 1 or group.causes[0].kind in EARLY:
        return group.causes
    cause = group.causes[0]
    for loss in group.losses:
        if (loss.topic, loss.partition) == (election.topic, election.partition) and loss.takeover is not None:
            own = causes_of(evidence, loss)
            if [(one.kind, one.node) for one in own] == [(cause.kind, cause.node)]:
                faults = tuple(dict.fromkeys((*cause.faults, *own[0].faults)))
                # of lost storage the sentence speaks of all partitions
                sentence = cause.sentence if cause.kind == "storage-loss" else own[0].sentence
                return (replace(cause, sentence=sentence, evidence=own[0].evidence, faults=faults),)
    return group.causes


def _worded(incident: Incident, *, first: int, of_run: int = 0) -> Incident:
    """Return an incident with its headline; `first`: its spans are those of so many of its gravest anomalies."""
    words = headline(
        incident.anomalies,
        incident.spans,
        incident.causes,
        incident.election,
        first=first,
        at_least=incident.at_least,
        found_first=incident.found_first,
        of_run=of_run,
    )
    return replace(incident, headline=words)


def _counted(incident: Incident, counted: Counted | None) -> Incident:
    return incident if counted is None else _worded(counted.incident, first=counted.first, of_run=counted.of_run)


def _stretches(places: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return the first and the last of each stretch of numbers that follow one another."""
    found: list[tuple[int, int]] = []
    for place in sorted(places):
        if found and place == found[-1][1] + 1:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return tuple(found)


def _spans(group: Group, name: str) -> tuple[Span, ...]:
    """Return the partitions and offsets of the anomalies of one name."""
    offsets: dict[tuple[str | None, int | None], list[int]] = {}
    rows = [row for row in group.rows if row["anomaly"] == name]
    for row in rows or [_row(finding) for finding in group.findings if finding.property_id == name]:
        if row["topic"] is not None:
            known = offsets.setdefault((row["topic"], row["partition"]), [])
            if row["offset"] is not None and (name in LOST or name not in STALE):
                known.append(row["offset"])
    for finding in () if rows else group.findings:
        for partition, *ends in finding.ranges if finding.property_id == name else ():
            offsets.setdefault((finding.topic, partition), []).extend(ends)
    return tuple(
        sorted(
            (
                Span(topic, partition, min(known, default=None), max(known, default=None))
                for (topic, partition), known in offsets.items()
            ),
            key=lambda span: (str(span.topic), span.partition or 0),
        )
    )


def _rank(name: str) -> tuple[int, str]:
    order = list(CATALOGUE)
    return (order.index(name) if name in CATALOGUE else -1, name)


def _gravity(incident: Incident) -> tuple[Any, ...]:
    name = gravest(incident.anomalies)
    return (incident.within_contract, _rank(name), -sum(incident.anomalies[name]), incident.at_ns or 0)
