"""Where the clients of this harness see more, or less, of a flaw than the catalogue says, and why."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from broker.core.rules.flaws.flaw import Visibility
from simulation.known_flaws.hunt import HISTORIES_PER_FLAW, Hunt
from simulation.runs.findings import Layer

_EXPECTED = frozenset({Visibility.DIRECT, Visibility.LATE, Visibility.ADMINISTRATION})

_MISSING_PROGRESS = "unavailable"

_DESCRIBED = "a client would have to ask the administration who is in sync, and these histories hold reads and writes"

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "believe-fetch-offset": "the leader's account of broker 1 is wrong, and afterwards the cluster does not become "
        "whole, so that nobody can read it to its end; what is lost is seen only where it does",
        "answer-before-commit": "the leader waits with the high watermark until the shrunken ISR has come as metadata "
        "(HW-3, MD-4), and a controller without a majority never sends it: the record is not acknowledged",
        "stale-broker-epoch-obeyed": "broker epochs are looked at in KRaft where ZooKeeper had none: a living broker "
        "loses its place until its next heartbeat, and nothing else",
        "high-watermark-not-kept": "a follower's log is cut by epochs and no longer to the high watermark, so that one "
        "of 0 costs nothing but waiting (HW-9), and only its place below the log start is wrong",
        "delete-above-high-watermark": "what is deleted too early was not acknowledged yet, and deleting was what the "
        "client had asked for",
        "session-forgets-epoch": "the catalogue looks at the fetch alone; here the harm goes on until a record is gone "
        "that was read",
        "high-watermark-not-reconsidered": "the schedule's client waits for its acknowledgement with a deadline, which "
        "is what the catalogue calls missing progress",
        "fenced-joins-isr": _DESCRIBED,
        "reassignment-ends-early": _DESCRIBED,
        "vote-not-remembered": "a second vote is seen at once, and two leaders of one epoch still have to decide "
        "differently before any client could tell",
        "quorum-ack-before-flush": "what gets lost is a decision of the controller, before any client has written what "
        "depends on it",
        "fence-together": _DESCRIBED,
        "exact-recovery-quorum": "the catalogue looks at the rule alone; a partition that waits for more "
        "replicas than there are has no leader, and clients that go on trying notice",
    }
)
"""By flaw."""

BEYOND_CHECKERS: Mapping[str, str] = MappingProxyType(
    {
        "idle-isr-not-repaired": "the client sees one answer that does not come in time, and an outcome that nobody "
        "knows is no anomaly; the next send wakes the leader up",
        "acks0-error-silent": "the client misses a record that it sent with acks=0, which promises nothing",
    }
)
"""By flaw: why clients notice something in its schedule that breaks no promise of the contract."""


def is_felt(hunted: Hunt) -> bool:
    """Whether clients alone have seen it: in a seed, by the checkers, or in its schedule.

    That a service does not come back is the missing progress by which the catalogue's LIVE flaws are known.
    """
    found = {*hunted.anomalies, *hunted.scheduled}
    if hunted.flaw is not None and hunted.flaw.visible is Visibility.LIVENESS:
        found.discard(_MISSING_PROGRESS)
    return Layer.HISTORY in hunted.sights or bool(found) or hunted.clients


def only_by_schedule(hunted: Hunt) -> str | None:
    """How the checkers on Spark find a flaw that clients can feel and that they have found in no seed; else None."""
    flaw = hunted.flaw
    if flaw is None or hunted.anomalies or flaw.visible not in (Visibility.DIRECT, Visibility.LATE):
        return None
    judged = min(len(hunted.failing), HISTORIES_PER_FLAW)
    seeds = f"nothing in {judged} failing seeds" if judged else "no failing seed"
    if hunted.scheduled:
        return f"{flaw.number} `{flaw.name}`: {seeds}; by its schedule {', '.join(hunted.scheduled)}"
    if is_felt(hunted):
        why = BEYOND_CHECKERS.get(flaw.name, "this is not explained yet")
    else:
        why = "clients do not see it, see below"
    return f"{flaw.number} `{flaw.name}`: {seeds}; nothing by its schedule: {why}"


def difference(hunted: Hunt) -> str | None:
    """Why what clients saw is not what the catalogue says; None if it is."""
    flaw = hunted.flaw
    if flaw is None or is_felt(hunted) == (flaw.visible in _EXPECTED):
        return None
    told = "clients see it" if is_felt(hunted) else "clients do not see it"
    why = REASONS.get(flaw.name, "this is not explained yet")
    return f"{flaw.number} `{flaw.name}`, {flaw.visible.value} in the catalogue; {told}: {why}"
