"""Formats the results for all known flaws as a table, and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from broker.core.rules.flaws.flaw import Visibility
from simulation.exhaustive.models import HUNTS
from simulation.known_flaws.hunt import HISTORIES_PER_FLAW, OBSERVED, Hunt
from simulation.runs.failures import Layer

_EXPECTED = frozenset({Visibility.DIRECT, Visibility.LATE, Visibility.ADMINISTRATION})

_MISSING_PROGRESS = "unavailable"

_DESCRIBED = "a client would have to query the in-sync replicas, and these histories hold reads and writes"
_LOOKED_UP = "a client would have to look records up by time, and these histories hold reads and writes"

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
        "former-replica-elected": _DESCRIBED,
        "first-replica-for-longest-log": "where an unclean election is allowed, the contract excuses what it loses, "
        "and no client can tell that another replica would have lost less",
        "lookup-unfolds-anything": _LOOKED_UP,
        "lookup-blind-to-codecs": _LOOKED_UP,
        "recovery-forgets-the-others": "what its schedule loses was committed, but written with acks=1 and not read "
        "before, so that no client was promised it; in a seed the election is seen before a client could notice",
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


NOTHING = "-"

HEADINGS = (
    "id",
    "flaw",
    "breaks",
    "visible",
    "seeds",
    "observer",
    "logs",
    "history",
    "checkers",
    "checkers, by schedule",
    "smallest",
    "directed",
    "exhaustive",
)

_PAGE = """\
# Known flaws

Every known flaw of the protocol, put into the simulated broker one at a time, and what `harrow known-flaws` found. A
flaw is one rule taken out; `harrow flaws` lists them. This page was written by

    {command}

The file of `--notes` adds the findings of earlier runs.

- *visible*: what reveals it according to the catalogue: clients (BB), clients once the bad candidate leads (BB-late),
  administration (BB-adm), only missing progress (LIVE), only the state of nodes (WB)
- *observer*: the property that the observer saw broken (or a crash, or missing liveness), and with which seed
- *logs*: whether the replicas' final logs differed, and with which seed
- *history*: the anomaly that the simple checks of the clients' history find, and with which seed
- *checkers*: anomalies that the checkers on Spark found in the clients' histories of up to {histories} failing seeds
- *checkers, by schedule*: those in the history of its directed schedule, and not in that of the correct build
- *smallest*: faults and sends of the shrunk simulation, and its steps as a model counts them (`model_steps`)
- *seeds*: how many were tried; a hunt ends soon after it has found its flaw
- *directed*: layers that find it when its directed schedule is played, which the correct build passes
- *exhaustive*: whether [exhaustive search](exhaustive.md) finds it too

{summary}

{table}

## What random seeds did not find

{missed}

## Where the checkers need more than a seed

Flaws that clients can notice, and in whose failing seeds the checkers on Spark have found nothing: the observer sees a
broken rule at once, clients only when it has done harm. A directed schedule continues until it has.

{later}

## What clients see, and what the catalogue says

The catalogue states what reveals each flaw. Clients here notice it by what they wrote and read in a seed, or in the
flaw's schedule. Where the two differ:

{differences}
"""


class Control(NamedTuple):
    """The correct build on the same seeds."""

    seeds: int
    failed: int


def row(hunted: Hunt) -> tuple[str, ...]:
    """One line of the table, without markup."""
    flaw = hunted.flaw
    assert flaw is not None
    small = hunted.small
    return (
        flaw.number,
        flaw.name,
        ", ".join(flaw.properties),
        flaw.visible.value,
        f"{hunted.seeds:,}",
        _first_finding(hunted, OBSERVED),
        _first_finding(hunted, (Layer.LOGS,)),
        _first_finding(hunted, (Layer.HISTORY,)),
        ", ".join(hunted.anomalies) or NOTHING,
        ", ".join(hunted.scheduled) or NOTHING,
        f"{small.faults} / {small.sends} / {small.transitions}" if small else NOTHING,
        ", ".join(hunted.directed) or NOTHING,
        "yes" if flaw.name in HUNTS else NOTHING,
    )


def is_explained(hunted: Hunt) -> bool:
    """Whether a flaw was found, or cannot be found because another rule masks it."""
    flaw = hunted.flaw
    return hunted.found or bool(hunted.directed) or (flaw is not None and (flaw.name in HUNTS or bool(flaw.masked_by)))


def summary(hunts: Sequence[Hunt], control: Control) -> str:
    """One sentence for each result."""
    flaws = [one for one in hunts if one.flaw is not None]
    found = [one for one in flaws if one.found]
    tried = sum(one.seeds > 0 for one in flaws)
    either = [one for one in flaws if one.found or one.directed or (one.flaw and one.flaw.name in HUNTS)]
    noticeable = [one for one in flaws if one.flaw and one.flaw.visible in (Visibility.DIRECT, Visibility.LATE)]
    seen = [one for one in noticeable if is_noticed(one)]
    checked = [one for one in noticeable if one.anomalies or one.scheduled]
    return (
        f"{len(found)} of {len(flaws)} flaws found by random seeds ({tried} were tried), "
        f"{len(either)} by these, a directed schedule or "
        f"exhaustive search; of {len(noticeable)} that clients can notice, clients have seen {len(seen)}, "
        f"and the checkers on Spark {len(checked)}. "
        f"The correct build: {control.failed} of {control.seeds:,} seeds failed."
    )


def page(hunts: Sequence[Hunt], control: Control, command: str, histories: int) -> str:
    """The page."""
    flaws = [one for one in hunts if one.flaw is not None]
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    lines += [f"| {' | '.join(row(one))} |" for one in flaws]
    missed = [f"- {_missed(one)}" for one in flaws if not one.found]
    later = [f"- {text}" for one in flaws if (text := only_by_schedule(one)) is not None]
    differences = [f"- {text}" for one in flaws if (text := difference(one)) is not None]
    return _PAGE.format(
        command=command,
        histories=histories,
        summary=summary(hunts, control),
        table="\n".join(lines),
        missed="\n".join(missed) or "Nothing.",
        later="\n".join(later) or "None.",
        differences="\n".join(differences) or "Nowhere.",
    )


def _missed(hunted: Hunt) -> str:
    flaw = hunted.flaw
    assert flaw is not None
    found_by = [f"by its directed schedule ({', '.join(hunted.directed)})"] if hunted.directed else []
    found_by += ["by exhaustive search"] if flaw.name in HUNTS else []
    text = f": found {' and '.join(found_by)}" if found_by else ": found by no search alone"
    masked = f"; masked by {flaw.masked_by}" if flaw.masked_by else ""
    tried = f"{hunted.seeds:,} seeds" if hunted.seeds else "not tried"
    return f"{flaw.number} `{flaw.name}` ({tried}){text}{masked}"


def _first_finding(hunted: Hunt, layers: Sequence[Layer]) -> str:
    first_findings = [hunted.first_findings[layer] for layer in layers if layer in hunted.first_findings]
    if not first_findings:
        return NOTHING
    first = min(first_findings, key=lambda first_finding: first_finding.seed)
    return f"{first.finding.property_id} @{first.seed}"
