"""Decides whether two incidents, of a real run and of a simulation, are the same one: the same harm by the same cause.

A real run is known from its clients' histories and from samples of its nodes, a simulation from every step: the
simulator stops at the first step that breaks a property, long before clients could notice. So the harm of an incident
is the promise that its anomalies break, or that the broken properties protect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from incidents.model import Incident

_HARMS: Final[Mapping[str, frozenset[str]]] = {
    "records are lost or replaced": frozenset({
        *("lost-acked-write", "lost-read", "unseen", "inconsistent-offset", "divergent-replicas", "wrong-offset"),
        *("reordered-send", "nonmonotonic-send", "aborted-read", "epoch-regression", "two-leaders"),
        *("P-1", "P-2", "P-3", "P-4", "P-6", "P-7", "P-8", "P-12", "P-15", "P-17", "P-25", "P-27"),
    }),
    "records are read too early": frozenset({"dirty-read", "P-11"}),
    "records are there twice": frozenset({"duplicate", "P-14", "P-28"}),
    "answers are out of date": frozenset({
        *("stale-read", "end-offset-regression", "nonmonotonic-poll", "skipped-poll", "P-9", "P-13"),
    }),
    "records are damaged": frozenset({"corrupt-record", "phantom-read"}),
    "groups lose their place": frozenset({
        *("committed-offset-regression", "lost-commit", "double-ownership", "P-G1", "P-G2", "P-G3", "P-G4"),
    }),
    "the cluster does not get on": frozenset({
        *("unavailable", "V-1", "V-2", "V-3", "V-4", "V-5", "V-6", "V-7", "V-9"),
        *("V-11", "V-12", "V-13", "V-14", "V-15"),
    }),
    "a node ends by itself": frozenset({"node-lost", "crash"}),
}  # fmt: skip
"""Harm → the anomalies and properties whose violation is or does it."""

_ONE_FROM_OUTSIDE: Final = frozenset({"acknowledged-early", "committed-without-member"})
"""Kinds of cause that are one for clients: a leader acknowledges a write when it counts it as committed."""


def harms(names: Iterable[str]) -> frozenset[str]:
    """Return the harms that anomalies and properties of these names are or do; an unknown name is its own."""
    known = {name: harm for harm, members in _HARMS.items() for name in members}
    return frozenset(known.get(name, name) for name in names)


def harms_of(incident: Incident) -> frozenset[str]:
    """Return the harms of an incident's violations."""
    return harms(name for name, (violations, _) in incident.anomalies.items() if violations)


def kinds_of(incident: Incident) -> frozenset[str]:
    """Return the kinds of an incident's cause, or of its candidates, as they can be told apart from outside."""
    kinds = frozenset(cause.kind for cause in incident.causes)
    return kinds | _ONE_FROM_OUTSIDE if kinds & _ONE_FROM_OUTSIDE else kinds


def is_like(incident: Incident, other: Incident) -> bool:
    """Return whether two incidents have a harm and a cause in common; without any known cause the harm decides."""
    if not harms_of(incident) & harms_of(other):
        return False
    return bool(kinds_of(incident) & kinds_of(other)) or not (incident.causes or other.causes)
