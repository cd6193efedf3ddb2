"""Prepares the incidents of a run for its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.wording import as_sentence, plural
from history.anomalies import CATALOGUE
from history.protocol import broken_clause, failure_sentences
from incidents import Cause, Incident, Span
from incidents.causes import KINDS
from incidents.doubled import NOT_IDEMPOTENT
from incidents.early_designs import GAP_OF_ZOOKEEPER
from incidents.headlines import gravest
from reports.data.stored_run import Run
from reports.text.anomaly_groups import section_of
from reports.text.totals import anomaly_totals

INCIDENTS_SHOWN = 20
RELATED_MAX = 5


@dataclass(frozen=True)
class ShownCause:
    """A cause with the mistake that it is, in words."""

    cause: Cause
    mistake: str
    rules: str
    """Ids of the rules of the protocol that forbid it."""


@dataclass(frozen=True)
class ShownIncident:
    """An incident as the page shows it."""

    number: int
    incident: Incident
    promised: str
    """What the cluster owes its clients, and did not keep."""
    causes: tuple[ShownCause, ...]
    seen_as: tuple[tuple[str, str, str], ...]
    """Anomaly, the anchor of its section, and how often."""
    related: tuple[tuple[int, str], ...]
    """Numbers of other incidents that may have the same root, and why they may."""


def shown_incidents(run: Run) -> list[ShownIncident]:
    """Return the first `INCIDENTS_SHOWN` incidents."""
    listed = {total.name for total in anomaly_totals(run)}
    shown = list(enumerate(run.incidents[:INCIDENTS_SHOWN], start=1))
    return [
        ShownIncident(
            number,
            incident,
            promise_to(incident),
            tuple(map(_cause, incident.causes)),
            _seen_as(incident, listed),
            tuple((other, why) for other, one in shown if one is not incident and (why := _relation(incident, one)))[
                :RELATED_MAX
            ],
        )
        for number, incident in shown
    ]


def _relation(incident: Incident, other: Incident) -> str:
    """Why an incident may have the same root as another; empty if nothing suggests it."""
    side = "within the contract" if other.within_contract else "a violation"
    faults, others = (one.causes[0].faults[:1] if one.causes else () for one in (incident, other))
    if faults and faults == others:
        return f"after the same fault (fault #{faults[0]}), {side}"
    if incident.within_contract == other.within_contract:
        return ""
    kinds, other_kinds = ({cause.kind for cause in one.causes} for one in (incident, other))
    where, elsewhere = ({(span.topic, span.partition) for span in one.spans} for one in (incident, other))
    is_near = bool(kinds & other_kinds) and bool(where & elsewhere)
    return f"in the same partition, by a cause of the same kind, {side}" if is_near else ""


def promise_to(incident: Incident) -> str:
    """Return what an incident breaks, or what it would break if the contract did not allow it; may be empty."""
    if {cause.kind for cause in incident.causes} == {NOT_IDEMPOTENT}:
        return "With an idempotent producer a record is in the log once; these producers were not idempotent."
    name = gravest(incident.anomalies)
    parts = (broken_clause(name, finding) for finding in incident.findings if finding.startswith(name))
    part = next((one for one in parts if one), "")
    return as_sentence(part) if part else promise_of(name)


def promise_of(name: str) -> str:
    """Return what an anomaly, or a finding of the simulator, breaks: a sentence; empty if it breaks nothing."""
    if name in CATALOGUE:
        return CATALOGUE[name].promise
    rule = failure_sentences().get(name, "")
    return as_sentence(rule) if rule else ""


def incidents_of_fault(run: Run, number: int | None) -> list[int]:
    """Return the numbers of the listed incidents that a fault made possible, or may have."""
    return [
        index
        for index, incident in enumerate(run.incidents[:INCIDENTS_SHOWN], start=1)
        if any(number in cause.faults for cause in incident.causes)
    ]


def incidents_of_record(run: Run, row: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the listed incidents that an anomaly belongs to.

    That of a finding of the simulator, or of a run that an earlier release checked, goes by its name and where it was
    found.
    """
    own = run.incident_of_place.get(row["place"])
    if own is not None:
        return [own] if own <= INCIDENTS_SHOWN else []
    return [
        index
        for index, incident in enumerate(run.incidents[:INCIDENTS_SHOWN], start=1)
        if row["anomaly"] in incident.anomalies
        and (row["anomaly"] not in CATALOGUE or any(_within(span, row) for span in incident.spans or (None,)))
    ]


def _within(span: Span | None, row: Mapping[str, Any]) -> bool:
    if span is None or span.topic is None:
        return True
    if (span.topic, span.partition) != (row["topic"], row["partition"]):
        return False
    if row["offset"] is None or span.first_offset is None or span.last_offset is None:
        return True
    return bool(span.first_offset <= row["offset"] <= span.last_offset)


def _cause(cause: Cause) -> ShownCause:
    kind = KINDS.get(cause.kind)
    rules = kind.rules if kind and GAP_OF_ZOOKEEPER not in cause.allowed_by else ""
    return ShownCause(cause, kind.summary if kind else "", rules)


def _seen_as(incident: Incident, listed: set[str]) -> tuple[tuple[str, str, str], ...]:
    seen = []
    for name, (violations, within) in incident.anomalies.items():
        parts = [plural(violations, "violation")] if violations else []
        parts += [f"{within:,} within the contract"] if within else []
        least = "at least " if name in incident.at_least else ""
        section = section_of(name, within_contract=not violations)
        seen.append((name, section if name in listed else "", least + " and ".join(parts)))
    return tuple(seen)
