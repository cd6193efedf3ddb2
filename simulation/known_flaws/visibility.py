"""Explains where the clients of this harness see more, or less, of a flaw than the catalogue says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from broker.core.rules.flaws.flaw import Visibility
from simulation.known_flaws.hunt import HISTORIES_PER_FLAW, Hunt
from simulation.runs.findings import Layer

_EXPECTED = frozenset({Visibility.DIRECT, Visibility.LATE, Visibility.ADMINISTRATION})

_MISSING_PROGRESS = "unavailable"

_DESCRIBED = "a client would have to query the in-sync replicas, and these histories hold reads and writes"

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "believe-fetch-offset": "the leader's view of broker 1 is wrong, and afterwards the cluster does not become "
        "whole, so that no client can read it to its end; what is lost is seen only where it does",
        "answer-before-commit": "the leader waits with the high watermark until the shrunken ISR has come as metadata "
        "(HW-3, MD-4), and a controller without a majority never sends it: the record is not acknowledged",
        "stale-broker-epoch-obeyed": "KRaft checks broker epochs where ZooKeeper had none: a running broker is "
        "unregistered until its next heartbeat, and nothing else",
        "high-watermark-not-kept": "a follower's log is cut by epochs and no longer to the high watermark, so that one "
        "of 0 costs nothing but waiting (HW-9), and is wrong only if it lies below the log start",
        "delete-above-high-watermark": "what is deleted too early was not acknowledged yet, and deleting was what the "
        "client had asked for",
        "session-forgets-epoch": "the catalogue considers the fetch alone; here the harm continues until a record is "
        "lost that was read",
        "high-watermark-not-reconsidered": "the schedule's client waits for its acknowledgement with a deadline, which "
        "is what the catalogue calls missing progress",
        "fenced-joins-isr": _DESCRIBED,
        "reassignment-ends-early": _DESCRIBED,
        "vote-not-remembered": "a second vote is seen at once, and two leaders of one epoch still have to decide "
        "differently before any client could notice",
        "quorum-ack-before-flush": "what gets lost is a decision of the controller, before any client has written what "
        "depends on it",
        "fence-together": _DESCRIBED,
        "exact-recovery-quorum": "the catalogue considers the rule alone; a partition that waits for more "
        "replicas than there are has no leader, and clients that keep retrying notice",
    }
)
"""By flaw."""

BEYOND_CHECKERS: Mapping[str, str] = MappingProxyType(
    {
        "idle-isr-not-repaired": "the client sees one answer that is late, and an unknown outcome is no anomaly; the "
        "next send wakes the leader up",
        "acks0-error-silent": "the client misses a record that it sent with acks=0, which promises nothing",
    }
)
"""By flaw: why clients notice something in its schedule that breaks no promise of the contract."""


def is_noticed(hunted: Hunt) -> bool:
    """Whether clients alone have noticed it: in a seed, by the checkers, or in its schedule.

    For the catalogue's LIVE flaws unavailability does not count: it is their missing progress.
    """
    found = {*hunted.anomalies, *hunted.scheduled}
    if hunted.flaw is not None and hunted.flaw.visible is Visibility.LIVENESS:
        found.discard(_MISSING_PROGRESS)
    return Layer.HISTORY in hunted.first_findings or bool(found) or hunted.clients


def only_by_schedule(hunted: Hunt) -> str | None:
    """How the checkers on Spark find a flaw that clients can notice and that they found in no seed; else None."""
    flaw = hunted.flaw
    if flaw is None or hunted.anomalies or flaw.visible not in (Visibility.DIRECT, Visibility.LATE):
        return None
    judged = min(len(hunted.failing), HISTORIES_PER_FLAW)
    seeds = f"nothing in {judged} failing seeds" if judged else "no failing seed"
    if hunted.scheduled:
        return f"{flaw.number} `{flaw.name}`: {seeds}; by its schedule {', '.join(hunted.scheduled)}"
    if is_noticed(hunted):
        why = BEYOND_CHECKERS.get(flaw.name, "this is not explained yet")
    else:
        why = "clients do not see it, see below"
    return f"{flaw.number} `{flaw.name}`: {seeds}; nothing by its schedule: {why}"


def difference(hunted: Hunt) -> str | None:
    """Why clients saw more or less than the catalogue says; None if they did not."""
    flaw = hunted.flaw
    if flaw is None or is_noticed(hunted) == (flaw.visible in _EXPECTED):
        return None
    seen = "clients see it" if is_noticed(hunted) else "clients do not see it"
    why = REASONS.get(flaw.name, "this is not explained yet")
    return f"{flaw.number} `{flaw.name}`, {flaw.visible.value} in the catalogue; {seen}: {why}"
