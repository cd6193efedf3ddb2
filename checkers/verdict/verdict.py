"""Forms the verdict of a run, with its reasons: `valid`, `invalid` or `unknown`, never a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from checkers.anomalies.objects import Decided
from checkers.input.run_facts import RunFacts, SeenVersion
from checkers.input.tables import LARGE_TABLES, RunFiles
from checkers.verdict.collect import Collected
from checkers.verdict.metrics import GROUPS
from common.wording import plural
from history.anomalies import MALFORMED, Extent
from incidents import Incident

Verdict = Literal["valid", "invalid", "unknown"]

ACKNOWLEDGED_MIN = 100
"""A run with fewer acknowledged records has tested too little to be called valid."""

GROUP_WORKLOAD: Final = "groups"
"""The workload that must have left commits."""
OBJECT_WORKLOADS: Final = frozenset({"register", "queue"})
"""Workloads whose histories must have commands."""

PARTITIONS_NAMED_MAX = 5


@dataclass(frozen=True)
class AnomalyCount:
    """How often an anomaly was found, breaking the contract or within it. Exact."""

    violations: int
    within_contract: int
    partitions: tuple[Extent, ...] = ()
    """Where they lie, if the table of anomalies has not all of them."""


@dataclass(frozen=True)
class RunResult:
    """The result of checking one run."""

    run_id: str
    directory: Path
    verdict: Verdict
    reasons: tuple[str, ...]
    anomalies: Mapping[str, AnomalyCount]
    counts: Mapping[str, int]
    metrics: Mapping[str, Any]
    incidents: tuple[Incident, ...] = ()
    """What went wrong, by cause; empty where the history is not beside the results (data sets, remote runs)."""
    versions: tuple[SeenVersion, ...] = ()
    """What each node ran, and since when; empty for a run without an upgrade."""

    def to_json(self) -> dict[str, Any]:
        """Return what `results.json` holds."""
        return {
            "run_id": self.run_id,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "anomalies": {
                name: {
                    "violations": count.violations,
                    "within_contract": count.within_contract,
                    **({"partitions": [extent._asdict() for extent in count.partitions]} if count.partitions else {}),
                }
                for name, count in self.anomalies.items()
            },
            "counts": dict(self.counts),
            "metrics": dict(self.metrics),
            "incidents": [incident.to_json() for incident in self.incidents],
            "versions": [asdict(each) for each in self.versions],
        }


@dataclass(frozen=True)
class Metrics:
    """The numbers of `checkers.verdict.metrics` for one run, by metric, name and partition."""

    numbers: Mapping[tuple[str, str, str | None, int | None], int]

    def get(self, metric: str, name: str) -> int:
        """Return a number of the whole run, 0 if there is none."""
        return self.numbers.get((metric, name, None, None), 0)

    def named(self, metric: str) -> dict[str, int]:
        """Return all numbers of one metric by name."""
        return {name: number for (kind, name, _, _), number in sorted(self.numbers.items(), key=str) if kind == metric}

    def partitions(self) -> dict[tuple[str, int], dict[str, int]]:
        """Return the metrics of FINAL, per partition."""
        by_partition: dict[tuple[str, int], dict[str, int]] = {}
        for (metric, name, topic, partition), number in self.numbers.items():
            if metric == "final" and topic is not None and partition is not None:
                by_partition.setdefault((topic, partition), {})[name] = number
        return dict(sorted(by_partition.items()))


def judge(
    files: RunFiles,
    facts: RunFacts,
    measured: Metrics,
    found: Collected,
    acknowledged_min: int,
    resolved: int = 0,
    objects: Decided | None = None,
) -> RunResult:
    """Form the verdict: a violation beats what is undecided, and what is undecided beats valid."""
    anomalies = _counted(found)
    broken = {name: count.violations for name, count in anomalies.items() if count.violations}
    undecided = [
        *_incomplete(files, facts, measured),
        *_malformed(anomalies),
        *_undecided_answers(found),
        *_too_little(facts, measured, acknowledged_min),
        *_unread(measured),
        *_undecided_objects(objects, facts.settings.workload, acknowledged_min),
        *_undecided_groups(
            facts.settings.workload,
            measured.get(GROUPS, "commits_ok"),
            measured.get(GROUPS, "not_asked"),
            acknowledged_min,
        ),
    ]
    violations = [f"{name}: {plural(number, 'violation')}" for name, number in broken.items()]
    verdict: Verdict = "invalid" if broken else "unknown" if undecided else "valid"
    return RunResult(
        run_id=files.run_id,
        directory=files.directory,
        verdict=verdict,
        reasons=(*violations, *undecided),
        anomalies=anomalies,
        counts={
            **_counts(facts, measured),
            "sends_repaired": resolved,
            **({"sent_again_by_clients": len(facts.resent)} if facts.resent else {}),
            **_counts_of_objects(objects),
            **_counts_of_groups(measured),
        },
        metrics=_metrics(facts, measured),
        versions=facts.versions,
    )


def _counted(found: Collected) -> dict[str, AnomalyCount]:
    names = sorted({name for name, _ in found.totals})
    return {
        name: AnomalyCount(
            found.totals.get((name, False), 0), found.totals.get((name, True), 0), tuple(found.extents.get(name, ()))
        )
        for name in names
    }


def _incomplete(files: RunFiles, facts: RunFacts, measured: Metrics) -> list[str]:
    reasons = [gap.reason for gap in files.gaps]
    for table in LARGE_TABLES:
        promised, read = files.large[table].rows, measured.get("rows", table)
        if read < promised:
            reasons.append(
                f"{promised - read:,} of {promised:,} rows of the table {table} are unreadable or of no known run"
            )
    wanted = facts.settings.workers
    if wanted is not None and facts.workers_closed < wanted:
        reasons.append(f"{facts.workers_closed} of {wanted} workers closed their history")
    if "final" not in facts.phases:
        reasons.append("the run did not get through its final phase")
    reasons += [
        f"fault #{fault.number} ({fault.kind}) was not seen to heal"
        for fault in facts.faults
        if not facts.is_healed(fault)
    ]
    reasons += [f"in the phase {trouble.phase}: {trouble.text}" for trouble in facts.troubles if trouble.undecides]
    return reasons


def _malformed(anomalies: Mapping[str, AnomalyCount]) -> list[str]:
    count = anomalies.get(MALFORMED)
    return [f"{count.within_contract:,} rows of the history are malformed"] if count else []


def _undecided_answers(found: Collected) -> list[str]:
    return [
        f"{name}: of {plural(number, 'answer')} it is undecided whether the contract allows it: no sample and no log"
        " tells the leader epoch"
        for name, number in sorted(found.undecided.items())
    ]


def _too_little(facts: RunFacts, measured: Metrics, acknowledged_min: int) -> list[str]:
    reasons = []
    acknowledged = measured.get("acked", "records")
    if acknowledged < acknowledged_min:
        reasons.append(
            f"only {acknowledged:,} records were acknowledged, {acknowledged_min:,} are needed for a verdict"
        )
    if facts.settings.faults_wanted and not any(fault.took_hold for fault in facts.faults):
        reasons.append("faults were wanted, and none took effect")
    return reasons


def _unread(measured: Metrics) -> list[str]:
    incomplete = {key: final for key, final in measured.partitions().items() if not final.get("complete")}
    reasons = [_why_unread(*key, final) for key, final in list(incomplete.items())[:PARTITIONS_NAMED_MAX]]
    if len(incomplete) > PARTITIONS_NAMED_MAX:
        reasons.append(f"… and {len(incomplete) - PARTITIONS_NAMED_MAX} more partitions were not read to their end")
    return reasons


def _why_unread(topic: str, partition: int, final: Mapping[str, int]) -> str:
    if "end_offset" not in final:
        why = "no end was recorded for it"
    elif not final.get("agreed"):
        why = "its replicas did not agree on an end"
    else:
        read_to = final.get("read_to", 0)
        why = f"no client read it from its start to its end at {final['end_offset']} (at most to {read_to})"
    unseen = final.get("unseen", 0)
    never = f"; {unseen:,} acknowledged records were never seen" if unseen else ""
    return f"{topic}-{partition} was not read completely at the end: {why}{never}"


def _undecided_objects(decided: Decided | None, workload: str | None, ok_min: int) -> list[str]:
    """Return why the objects of a run leave its verdict open."""
    if decided is None:
        return [f"the workload {workload} left no commands"] if workload in OBJECT_WORKLOADS else []
    reasons = []
    if not decided.whole:
        reasons.append("commands are missing, so nothing is decided of the objects that clients kept")
    elif decided.keys_unknown:
        reasons.append(f"{decided.keys_unknown:,} of {decided.keys:,} objects are undecided")
    if decided.ok < ok_min:
        reasons.append(f"only {decided.ok:,} commands had a known outcome, {ok_min:,} are needed for a verdict")
    return reasons


def _undecided_groups(workload: str | None, commits_ok: int, not_asked: int, commits_min: int) -> Sequence[str]:
    """Say why the groups of a run leave its verdict open."""
    reasons = []
    if workload == GROUP_WORKLOAD and commits_ok < commits_min:
        reasons.append(f"only {commits_ok:,} commits were acknowledged, {commits_min:,} are needed for a verdict")
    if not_asked:
        reasons.append(f"the committed offsets of {not_asked:,} partitions were not asked for at the end")
    return reasons


def _counts(facts: RunFacts, measured: Metrics) -> dict[str, int]:
    sends = measured.named("sends")
    return {
        "operations": sum(measured.named("operations").values()),
        **{f"sends_{status}": sends.get(status, 0) for status in ("ok", "fail", "info")},
        "records_read": measured.get("rows", "reads"),
        "partition_polls": measured.get("rows", "polls"),
        "faults": len(facts.faults),
        "faults_took_hold": sum(fault.took_hold for fault in facts.faults),
    }


def _counts_of_objects(objects: Decided | None) -> dict[str, int]:
    return {} if objects is None else {"commands_ok": objects.ok, "objects": objects.keys}


def _counts_of_groups(measured: Metrics) -> dict[str, int]:
    commits = measured.get(GROUPS, "commits_ok")
    return {"commits_ok": commits, "ownerships": measured.get("rows", "ownerships")} if commits else {}


def _metrics(facts: RunFacts, measured: Metrics) -> dict[str, Any]:
    acked = measured.named("acked")
    latency = measured.named("latency_ns")
    span_ns = acked.get("last_ns", 0) - acked.get("first_ns", 0)
    metrics: dict[str, Any] = {}
    if facts.settings.controllers is not None:
        metrics["controllers"] = facts.settings.controllers
        metrics["controller_elections"] = facts.controller_elections
    if span_ns > 0:
        metrics["acknowledged_per_s"] = round(acked["records"] / (span_ns / 1e9), 1)
    for quantile, name in (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"), ("1.0", "max")):
        if quantile in latency:
            metrics[f"send_latency_{name}_ms"] = round(latency[quantile] / 1e6, 3)
    silence, recovery = measured.named("silence_ns"), measured.named("recovery_ns")
    metrics["faults"] = [
        {
            "fault": fault.number,
            "kind": fault.kind,
            "targets": list(fault.targets),
            "without_acknowledged_writes_ms": round(silence.get(str(fault.number), 0) / 1e6, 1),
            "to_recover_ms": round(recovery.get(str(fault.number), 0) / 1e6, 1),
        }
        for fault in facts.faults
    ]
    if facts.faults:
        metrics["without_acknowledged_writes_ms_max"] = max(
            each["without_acknowledged_writes_ms"] for each in metrics["faults"]
        )
    return metrics
