"""Chooses the faults that an anomaly may be due to."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from common.wording import duration, moment, nodes
from incidents.deeds import RECIPES
from reports.data.stored_run import Run

SUSPECTS_MAX = 4
RECENT_NS = 10_000_000_000
"""A fault that ended this long before still counts as near."""
NEVER_NS = 1 << 62
"""Later than any time of a run."""


class Suspect(NamedTuple):
    """A fault, and how it relates to the anomaly in time."""

    number: int
    kind: str
    sentence: str


def suspects(
    run: Run,
    named: Collection[int],
    reference: tuple[int, str] | None,
    until_ns: int | None,
    replicas: Collection[int],
    of_incident: Collection[int] = (),
) -> list[Suspect]:
    """Return the faults to look at first, at most `SUSPECTS_MAX`.

    They are those of the anomaly's incident (`of_incident`), which come first; those whose numbers the checker's
    evidence gives (`named`); and those that overlap the time from `reference` (a time, and what happened then: "the
    acknowledgement") to `until_ns`; without any, the last one that ended within `RECENT_NS` before. Those that took
    effect come before others; among them those that had not ended before the reference, among these those that hit one
    of `replicas`, and then the earliest.
    """
    chosen = [fault for fault in run.faults if fault["fault"] in (*named, *of_incident)]
    start_ns = 0
    if reference is not None:
        start_ns = reference[0]
        end_ns = start_ns if until_ns is None else max(start_ns, until_ns)
        chosen += [fault for fault in run.faults if fault not in chosen and _overlaps(fault, start_ns, end_ns)]
        chosen = chosen or [fault for fault in run.faults if _overlaps(fault, start_ns - RECENT_NS, start_ns)][-1:]
    chosen.sort(
        key=lambda fault: (
            fault["fault"] not in of_incident,
            not fault["took_hold"],
            not _overlaps(fault, start_ns, NEVER_NS),
            not set(fault["targets"] or ()) & set(replicas),
            max(0, (fault["started_ns"] or 0) - start_ns),
        )
    )
    return [
        Suspect(fault["fault"] or 0, fault["kind"] or "unknown", _sentence(fault, reference))
        for fault in chosen[:SUSPECTS_MAX]
    ]


def recipe_of(run: Run, fault: Mapping[str, Any]) -> int | None:
    """Return the number of the recipe that a simulated fault is a part of; None if it is a fault of its own."""
    place = fault["schedule_entry"]
    if place is None or fault["kind"] in RECIPES:
        return None
    rows = (one for one in run.faults if one["schedule_entry"] == place and one["kind"] in RECIPES)
    return next((one["fault"] for one in rows), None)


def fault_role(fault: dict[str, Any]) -> str:
    """Return the role by which the targets were chosen, as the nemesis recorded it: "the leader of events-1"."""
    role = fault_parameters(fault).get("role")
    return role if isinstance(role, str) else ""


def fault_parameters(fault: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a fault; empty if they cannot be read."""
    try:
        parameters = json.loads(fault["parameters"] or "{}")
    except ValueError:
        return {}
    return parameters if isinstance(parameters, dict) else {}


def _overlaps(fault: dict[str, Any], start_ns: int, end_ns: int) -> bool:
    if fault["started_ns"] is None or fault["started_ns"] > end_ns:
        return False
    return fault["ended_ns"] is None or fault["ended_ns"] >= start_ns


def _sentence(fault: dict[str, Any], reference: tuple[int, str] | None) -> str:
    started_ns, ended_ns = fault["started_ns"], fault["ended_ns"]
    until = moment(ended_ns) if ended_ns is not None else "the end of the run"
    role = fault_role(fault)
    hit = nodes(fault["targets"]) + (f" (chosen as {role})" if role else "")
    sentence = f"{fault['kind'] or 'unknown'} on {hit}, from {moment(started_ns)} to {until}"
    if not fault["took_hold"]:
        sentence += " (did not take effect)"
    if reference is None or started_ns is None:
        return f"{sentence}."
    at_ns, what = reference
    if started_ns > at_ns:
        return f"{sentence}: it began {duration(started_ns - at_ns)} after {what}."
    if ended_ns is not None and ended_ns < at_ns:
        return f"{sentence}: it had ended {duration(at_ns - ended_ns)} before {what}."
    return f"{sentence}: it was active at the time of {what}."
