"""Prepares the incidents of a run for its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.wording import as_sentence, plural
from history.anomalies import CATALOGUE
from history.protocol import failure_sentences
from incidents import Cause, Incident, Span
from incidents.causes import KINDS
from incidents.headlines import gravest
from reports.data.stored_run import Run
from reports.text.totals import anomaly_totals

INCIDENTS_SHOWN = 20


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


def shown_incidents(run: Run) -> list[ShownIncident]:
    """Return the first `INCIDENTS_SHOWN` incidents."""
    listed = {total.name for total in anomaly_totals(run)}
    return [
        ShownIncident(
            number,
            incident,
            promise_of(gravest(incident.anomalies)),
            tuple(map(_cause, incident.causes)),
            _seen_as(incident, listed),
        )
        for number, incident in enumerate(run.incidents[:INCIDENTS_SHOWN], start=1)
    ]


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
        if row["anomaly"] in incident.anomalies and any(_within(span, row) for span in incident.spans or (None,))
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
    return ShownCause(cause, kind.summary if kind else "", kind.rules if kind else "")


def _seen_as(incident: Incident, listed: set[str]) -> tuple[tuple[str, str, str], ...]:
    seen = []
    for name, (violations, within) in incident.anomalies.items():
        parts = [plural(violations, "violation")] if violations else []
        parts += [f"{within:,} within the contract"] if within else []
        side = "violations" if violations else "allowed"
        seen.append((name, f"{side}-{name}" if name in listed else "", " and ".join(parts)))
    return tuple(seen)
