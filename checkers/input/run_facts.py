"""Interprets the small tables of a run: its settings, faults and phases, and whether its history is complete."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.input.resent import Resent, resent_records
from checkers.input.tables import RunFiles
from history.contract import CRASHING_FIRST, ENDING_KINDS, LOSSY_KINDS, must_come_back

_NS_PER_MS = 1_000_000
_BOUND_MS_MAX = 10**9
"""Eleven days; a longer bound is a mistake, and no run lasts to its end."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class RecordedSettings:
    """The row of `runs`. An unknown setting counts as the weakest promise, so that no violation rests on a guess."""

    brokers: int | None
    controllers: int | None
    replication_factor: int | None
    min_insync_replicas: int
    acks: int | None
    idempotence: bool
    unclean_election: bool
    workers: int | None
    faults_wanted: bool
    unavailable_after_ns: int | None
    workload: str | None
    """What clients did, as the specification says."""
    volatile: bool
    """The system keeps nothing beyond the end of a node's process: every end of one is a lossy shutdown."""


@dataclass(frozen=True)
class RecordedFault:
    """One fault that was fired."""

    number: int
    kind: str
    targets: tuple[int, ...]
    started_ns: int
    ended_ns: int | None
    """When it was healed; None if that was not observed."""
    crashed_by_ns: int | None
    """When the targets had crashed at the latest, if they did; None if that was not observed."""
    took_hold: bool
    healed: bool
    lossy: bool
    """Whether the targets may have lost what they had not synced, or all that a system keeps only in memory."""


@dataclass(frozen=True)
class RecordedEnd:
    """The end of one partition that the final reads had to reach."""

    topic: str
    partition: int
    offset: int
    agreed: bool


@dataclass(frozen=True)
class Trouble:
    """Something that went wrong beside what clients saw: an error of the harness, or a node that ended by itself."""

    phase: str
    source: str
    text: str
    """One line."""

    @property
    def undecides(self) -> bool:
        """Whether the run may prove less because of it; failures after everything is recorded do not matter."""
        return self.source != "cluster" and self.phase != "tear-down"


@dataclass(frozen=True)
class RecordedLoss:
    """A node that ended by itself, and did not come back."""

    node: int
    at_ns: int
    exit_status: int | None
    last_words: str
    fault: RecordedFault | None
    """The last fault before it that hit the node."""
    excuse: RecordedFault | None
    """The last fault that hit the node and after which it need not come back."""


@dataclass(frozen=True)
class SeenVersion:
    """A node was first seen to run a version of the system."""

    node: int
    at_ns: int
    version: str


@dataclass(frozen=True)
class RunFacts:
    """What the small tables record of one run."""

    run_id: str
    settings: RecordedSettings
    faults: tuple[RecordedFault, ...]
    phases: Mapping[str, tuple[int, int | None]]
    """Start and end of each phase, in nanoseconds."""
    ends: tuple[RecordedEnd, ...]
    controller_elections: int
    """How often one of the controllers was seen to have become the leader of the quorum."""
    workers_closed: int
    malformed: tuple[tuple[str, str], ...]
    """Table and problem of each row that could not be used."""
    deleted_topics: frozenset[str]
    """Topics that a client has deleted, or may have."""
    troubles: tuple[Trouble, ...]
    losses: tuple[RecordedLoss, ...]
    versions: tuple[SeenVersion, ...]
    """In the order of their times; empty for a run without an upgrade."""
    resent: tuple[Resent, ...]
    """The records of which the logs hold several copies, all of different epochs of one producer."""
    sends_known: bool
    """Whether every value that was sent, and every commit, is in the history; else a missing send proves nothing."""

    def is_healed(self, fault: RecordedFault) -> bool:
        """Whether nothing is left of a fault: it healed, or each node that it hit is lost."""
        lost = {loss.node for loss in self.losses if loss.at_ns >= fault.started_ns}
        return fault.healed or (bool(fault.targets) and lost.issuperset(fault.targets))

    @property
    def healed_ns(self) -> int | None:
        """When the last fault was healed; None if that is not known."""
        if any(trouble.source == "harness" and trouble.undecides for trouble in self.troubles):
            return None  # what the harness broke, or did not mend, is not the cluster's failure to recover
        if self.losses:
            return None  # a cluster that lacks a node need not have full ISRs
        if not self.faults:
            return self.phases["main"][0] if "main" in self.phases else None
        if any(fault.ended_ns is None or not fault.healed for fault in self.faults):
            return None
        return max(fault.ended_ns for fault in self.faults if fault.ended_ns is not None)


def facts_of(files: RunFiles) -> RunFacts:
    """Interpret the small tables of a run. Never raises: malformed rows are listed in `malformed`."""
    malformed: list[tuple[str, str]] = []
    settings = _settings(files.small["runs"], malformed)
    workers = {row["worker"] for row in files.small["workers"] if row["worker"] is not None}
    broken = {gap.table for gap in files.gaps}
    faults = tuple(_faults(files.small["faults"], malformed, settings.volatile))
    losses = tuple(_losses(files.small["losses"], faults, malformed))
    versions = tuple(_versions(files.small["versions"], malformed))
    resent = tuple(resent_records(files.small["repeats"], malformed))
    deletions = (row for row in files.small["administration"] if row["action"] == "delete" and row["status"] != "fail")
    return RunFacts(
        run_id=files.run_id,
        settings=settings,
        faults=faults,
        phases=_phases(files.small["phases"], malformed),
        ends=tuple(_ends(files.small["ends"], malformed)),
        controller_elections=len({row["epoch"] for row in files.small["quorum"] if row["role"] == "leader"}),
        workers_closed=len(workers),
        malformed=tuple(malformed),
        deleted_topics=frozenset(row["topic"] for row in deletions if row["topic"] is not None),
        troubles=tuple(_troubles(files.small["troubles"])),
        losses=losses,
        versions=versions,
        resent=resent,
        sends_known=(
            broken.isdisjoint({"operations", "sends", "runs", "commits"})
            and settings.workers is not None
            and len(workers) >= settings.workers
        ),
    )


def _settings(rows: Iterable[Row], malformed: list[tuple[str, str]]) -> RecordedSettings:
    rows = list(rows)
    if len(rows) > 1:
        malformed.append(("runs", f"{len(rows)} rows for one run"))
    row: Row = rows[0] if rows else {}
    bound_ms = _positive(row.get("unavailable_after_ms"))
    return RecordedSettings(
        brokers=_positive(row.get("brokers")),
        controllers=_positive(row.get("controllers")),
        replication_factor=_positive(row.get("replication_factor")),
        min_insync_replicas=_positive(row.get("min_insync_replicas")) or 1,
        acks=row.get("acks"),
        idempotence=row.get("idempotence") is True,
        unclean_election=row.get("unclean_election") is not False,
        workers=row.get("workers"),
        faults_wanted=row.get("faults_wanted") is True,
        unavailable_after_ns=bound_ms * _NS_PER_MS if bound_ms is not None and bound_ms <= _BOUND_MS_MAX else None,
        workload=_workload(row.get("spec")),
        volatile=row.get("volatile") is True,
    )


def _workload(spec: str | None) -> str | None:
    try:
        read = json.loads(spec or "null")
    except (ValueError, RecursionError):
        return None
    name = read.get("workload") if isinstance(read, dict) else None
    return name if isinstance(name, str) else None


def _positive(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None


def _faults(rows: Iterable[Row], malformed: list[tuple[str, str]], volatile: bool) -> Iterable[RecordedFault]:
    lossy_kinds = LOSSY_KINDS | ENDING_KINDS if volatile else LOSSY_KINDS
    faults = []
    for row in rows:
        number, started, ended = row["fault"], row["started_ns"], row["ended_ns"]
        if number is None or started is None or started < 0:
            malformed.append(("faults", f"fault {number} without a number or a start"))
            continue
        if ended is not None and ended < started:
            malformed.append(("faults", f"fault {number} ended before it started"))
            ended = None
        held = row["held_ns"]
        is_known = row["kind"] in CRASHING_FIRST and held is not None and started <= held <= (ended or held)
        faults.append(
            RecordedFault(
                number=number,
                kind=row["kind"] or "unknown",
                targets=tuple(target for target in row["targets"] or () if target is not None),
                started_ns=started,
                ended_ns=ended,
                crashed_by_ns=held if is_known else ended,
                took_hold=row["took_hold"] is True,
                healed=row["healed"] is True,
                lossy=row["kind"] in lossy_kinds and row["took_hold"] is True,
            )
        )
    return sorted(faults, key=lambda fault: (fault.started_ns, fault.number))


def _phases(rows: Iterable[Row], malformed: list[tuple[str, str]]) -> dict[str, tuple[int, int | None]]:
    phases: dict[str, tuple[int, int | None]] = {}
    for row in rows:
        phase, started, ended = row["phase"], row["started_ns"], row["ended_ns"]
        if phase is None or started is None or (ended is not None and ended < started):
            malformed.append(("phases", f"phase {phase} from {started} to {ended}"))
        else:
            phases[phase] = (started, ended)
    return phases


def _troubles(rows: Iterable[Row]) -> Iterable[Trouble]:
    """Yield the troubles; a row that lacks something still counts."""
    for row in rows:
        first_line = next(iter((row["text"] or "").splitlines()), "") or "something that was not recorded"
        yield Trouble(row["phase"] or "", row["source"] or "harness", first_line)


def _losses(
    rows: Iterable[Row], faults: Sequence[RecordedFault], malformed: list[tuple[str, str]]
) -> Iterable[RecordedLoss]:
    for row in rows:
        node, at_ns = row["node"], row["at_ns"]
        if node is None or at_ns is None:
            malformed.append(("losses", f"node {node} lost at {at_ns}"))
            continue
        before = [fault for fault in faults if node in fault.targets and fault.started_ns <= at_ns]
        exempt = {kind for kind in row["exempt"] or () if kind is not None}
        excuses = [fault for fault in before if not must_come_back(fault.kind, exempt)]
        yield RecordedLoss(
            node=node,
            at_ns=at_ns,
            exit_status=row["exit_status"],
            last_words=row["last_words"] or "",
            fault=next(reversed(before), None),
            excuse=next(reversed(excuses), None),
        )


def _versions(rows: Iterable[Row], malformed: list[tuple[str, str]]) -> Iterable[SeenVersion]:
    seen = []
    for row in rows:
        node, at_ns, version = row["node"], row["at_ns"], row["version"]
        if node is None or at_ns is None or version is None:
            malformed.append(("versions", f"version {version} of node {node} at {at_ns}"))
        else:
            seen.append(SeenVersion(node, at_ns, version))
    return sorted(seen, key=lambda each: (each.at_ns, each.node))


def _ends(rows: Iterable[Row], malformed: list[tuple[str, str]]) -> Iterable[RecordedEnd]:
    ends: dict[tuple[str, int], RecordedEnd] = {}
    for row in rows:
        topic, partition, offset = row["topic"], row["partition"], row["end_offset"]
        if topic is None or partition is None or offset is None or offset < 0:
            malformed.append(("ends", f"end {offset} of {topic}-{partition}"))
        elif (topic, partition) in ends:
            malformed.append(("ends", f"two ends of {topic}-{partition}"))
            ends[topic, partition] = RecordedEnd(topic, partition, offset, agreed=False)
        else:
            ends[topic, partition] = RecordedEnd(topic, partition, offset, row["agreed"] is True)
    return ends.values()
