"""Counts what was done in a run and the anomalies that were found, and words its verdict, for page and terminal."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reports.data.joined import Joined
from reports.data.stored_run import Run, counts_by, is_one_of
from reports.text.totals import AnomalyTotal, allowed_total, anomaly_totals
from reports.text.verdict import WordedVerdict, verdict_of

METRICS: Mapping[str, str] = {"without_acknowledged_writes_ms_max": "longest write outage (ms)"}
"""Metrics whose names in `results.json` are no words for a reader."""
OF_AN_ENSEMBLE: Mapping[str, str] = {
    "controllers": "ZooKeeper servers",
    "controller_elections": "elections of the ensemble's leader",
}
"""Metrics of the quorum, where that is a ZooKeeper ensemble."""
STATUSES = ("ok", "fail", "info")


@dataclass(frozen=True)
class OperationCount:
    """Operations of one kind by how they ended."""

    kind: str
    ok: int
    fail: int
    info: int

    @property
    def total(self) -> int:
        """All operations of this kind."""
        return self.ok + self.fail + self.info


@dataclass(frozen=True)
class FaultCount:
    """Faults of one kind: fired, of these took effect, of these were healed."""

    kind: str
    fired: int
    took_hold: int
    healed: int


@dataclass(frozen=True)
class Summary:
    """The numbers of a run, all of them counted from its tables."""

    verdict: WordedVerdict
    name: str
    seed: str
    started: str
    """UTC, to the second; empty if not known."""
    duration_ns: int
    start_up_ns: int
    """What passed on the run's clock before anything was recorded."""
    operations: tuple[OperationCount, ...]
    sent: int
    acknowledged: int
    """Records whose send completed ok."""
    read: int
    """Records that polls returned, each as often as it was returned."""
    distinct_read: int
    faults: tuple[FaultCount, ...]
    anomalies: tuple[AnomalyTotal, ...]
    mechanisms: tuple[tuple[str, str], ...]
    """What a fault needs → the mechanism in this environment."""
    versions: tuple[tuple[str, str], ...]
    metrics: tuple[tuple[str, str], ...]
    """Simple metrics of `results.json`, unchanged."""

    @property
    def allowed(self) -> int:
        """Anomalies within the contract."""
        return allowed_total(self.anomalies)

    @property
    def took_hold(self) -> int:
        """Faults that took effect."""
        return sum(fault.took_hold for fault in self.faults)


def summarize(run: Run, joined: Joined) -> Summary:
    """Count what was done."""
    faults = _faults(run)
    acknowledged = int(joined.acknowledged.value.size)
    values = run.tables["reads"].column("value")
    totals = tuple(anomaly_totals(run))
    return Summary(
        verdict=verdict_of(run, totals, acknowledged, sum(fault.took_hold for fault in faults)),
        name=run.text("name") or run.directory.parent.name,
        seed=run.text("seed") or "unknown",
        started=_started(run),
        duration_ns=run.span_ns[1] - run.span_ns[0],
        start_up_ns=run.span_ns[0],
        operations=_operations(run),
        sent=run.tables["sends"].num_rows,
        acknowledged=acknowledged,
        read=run.tables["reads"].num_rows,
        distinct_read=len(values.drop_null().unique()),
        faults=faults,
        anomalies=totals,
        mechanisms=_pairs(run, "mechanisms"),
        versions=_pairs(run, "versions"),
        metrics=_metrics(run),
    )


def _operations(run: Run) -> tuple[OperationCount, ...]:
    """Count operations; a status that is none of the three (a torn row) is as unknown as an info."""
    by_kind: dict[str, dict[str, int]] = {}
    for (kind, status), rows in counts_by(run.tables["operations"], "kind", "status").items():
        counts = by_kind.setdefault(kind, dict.fromkeys(STATUSES, 0))
        counts[status if status in STATUSES else "info"] += rows
    return tuple(OperationCount(kind, **counts) for kind, counts in sorted(by_kind.items()))


def _faults(run: Run) -> tuple[FaultCount, ...]:
    table = run.tables["faults"]
    took_hold = is_one_of(table, "took_hold", True)
    healed = is_one_of(table, "healed", True)
    kinds = np.asarray([kind or "unknown" for kind in table.column("kind").to_pylist()], dtype=np.str_)
    counts = []
    for kind in sorted(set(kinds.tolist())):
        mine = kinds == kind
        held = mine & took_hold
        counts.append(FaultCount(kind, int(mine.sum()), int(held.sum()), int((held & healed).sum())))
    return tuple(counts)


def _pairs(run: Run, key: str) -> tuple[tuple[str, str], ...]:
    """Return what the runner recorded under `key`: in the specification, its environment, or the results."""
    environment = run.spec.get("environment")
    for source in (run.spec, environment, run.results):
        recorded = source.get(key) if isinstance(source, Mapping) else None
        if isinstance(recorded, Mapping) and recorded:
            return tuple((str(name), str(what)) for name, what in sorted(recorded.items()))
    return ()


def _metrics(run: Run) -> tuple[tuple[str, str], ...]:
    metrics = run.results.get("metrics")
    if not isinstance(metrics, Mapping):
        return ()
    words = {**METRICS, **(OF_AN_ENSEMBLE if run.on_zookeeper else {})}
    return tuple(
        (
            words.get(str(name)) or str(name).replace("_", " "),
            f"{value:,.6g}" if isinstance(value, float) else str(value),
        )
        for name, value in sorted(metrics.items())
        if isinstance(value, int | float | str)
    )


def _started(run: Run) -> str:
    started_ms = run.number("started_unix_ms")
    if not started_ms:  # a simulation has no date
        return ""
    try:
        started = datetime.datetime.fromtimestamp(started_ms / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return started.strftime("%Y-%m-%d %H:%M:%S UTC")
