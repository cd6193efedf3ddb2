"""Counts what was done in a run and the anomalies that were found, and words its verdict, for page and terminal."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from history.anomalies import CATALOGUE, MALFORMED
from reports.data.joined import Joined
from reports.data.stored_run import Run, counts_by, is_one_of
from reports.text.wording import count, enumeration, plural

Word = Literal["valid", "invalid", "unknown"]

STATUSES = ("ok", "fail", "info")


class AnomalyTotal(NamedTuple):
    """The exact number of anomalies of one name."""

    name: str
    violations: int
    within_contract: int


def anomaly_totals(run: Run) -> list[AnomalyTotal]:
    """Return the totals by name: those with violations first, and among them losses before the rest.

    `results.json` may count more than the table holds (the checkers may keep only so many rows), so for each number
    the larger of the two is the total.
    """
    tabled = _tabled(run)
    stated = _stated(run)
    totals = [
        AnomalyTotal(
            name,
            *(max(pair) for pair in zip(tabled.get(name, (0, 0)), stated.get(name, (0, 0)), strict=True)),
        )
        for name in tabled.keys() | stated.keys()
    ]
    found = [total for total in totals if total.violations or total.within_contract]
    order = {name: rank for rank, name in enumerate(CATALOGUE)}
    return sorted(found, key=lambda total: (total.violations == 0, order.get(total.name, len(order)), total.name))


def allowed_total(totals: Iterable[AnomalyTotal]) -> int:
    """Count what is within the contract."""
    return sum(total.within_contract for total in totals if total.name != MALFORMED)


def disagreements(run: Run) -> list[str]:
    """Return where `results.json` counts fewer anomalies than there are, or calls a run valid that has violations."""
    tabled = _tabled(run)
    stated = _stated(run)
    problems = [
        f"results.json counts {sum(stated.get(name, (0, 0)))} of {name}, the table of anomalies has {sum(pair)}."
        for name, pair in sorted(tabled.items())
        if run.results and sum(stated.get(name, (0, 0))) < sum(pair)
    ]
    violations = sum(total.violations for total in anomaly_totals(run))
    if violations and run.results.get("verdict") == "valid":
        problems.append(f"results.json says valid although there are {violations} violations.")
    return problems


def _tabled(run: Run) -> Mapping[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for (name, within), rows in counts_by(run.tables["anomalies"], "anomaly", "within_contract").items():
        violations, allowed = counts.get(name, (0, 0))
        counts[name] = (violations, allowed + rows) if within == "True" else (violations + rows, allowed)
    return counts


def _stated(run: Run) -> Mapping[str, tuple[int, int]]:
    stated = run.results.get("anomalies")
    if not isinstance(stated, dict):
        return {}
    return {
        str(name): (_whole(numbers.get("violations")), _whole(numbers.get("within_contract")))
        for name, numbers in stated.items()
        if isinstance(numbers, dict)
    }


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


@dataclass(frozen=True)
class WordedVerdict:
    """What the checkers decided."""

    word: Word
    sentence: str
    reasons: tuple[str, ...]
    """The checkers' own reasons, as they stand in `results.json`."""


def verdict_of(run: Run, acknowledged: int, took_hold: int) -> WordedVerdict:
    """Word the verdict of a run with so many acknowledged writes and so many faults that took effect.

    A run without `results.json`, or with a verdict that is none of the three words, is unknown: reports decide
    nothing themselves.
    """
    stated = run.results.get("reasons")
    reasons = tuple(str(reason) for reason in stated) if isinstance(stated, list) else ()
    word = run.results.get("verdict")
    if word == "valid":
        return WordedVerdict("valid", _valid_sentence(run, acknowledged, took_hold), reasons)
    if word == "invalid":
        return WordedVerdict("invalid", _invalid_sentence(run, reasons), reasons)
    if word == "unknown":
        why = reasons[0] if reasons else "the checkers gave no reason"
        return WordedVerdict("unknown", f"Whether a promise was broken could not be decided: {why}", reasons)
    return WordedVerdict("unknown", "This run has not been checked: there is no verdict in results.json.", reasons)


def _valid_sentence(run: Run, acknowledged: int, took_hold: int) -> str:
    faults = f"{plural(took_hold, 'fault')} that took effect" if took_hold else "a run without faults"
    allowed = allowed_total(anomaly_totals(run))
    sentence = f"No promise was broken: {plural(acknowledged, 'acknowledged write')}, {faults}, no violation"
    if not allowed:
        return f"{sentence}."
    sentence = f"{sentence}, {plural(allowed, 'anomaly', 'anomalies')} within the contract."
    if run.flag("volatile"):
        sentence += f" {run.text('system')} keeps its records in memory alone: what ends a node's process ends them."
    return sentence


def _invalid_sentence(run: Run, reasons: tuple[str, ...]) -> str:
    broken = [total for total in anomaly_totals(run) if total.violations]
    if not broken:
        return reasons[0] if reasons else "The checkers found a violation and did not record which."
    kinds = enumeration([f"{_breach(total.name)} ({count(total.violations)})" for total in broken])
    return f"{'A promise was' if len(broken) == 1 else 'Promises were'} broken: {kinds}."


def _breach(name: str) -> str:
    known = CATALOGUE.get(name)
    return known.breach if known is not None and known.breach else name


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
    return Summary(
        verdict=verdict_of(run, acknowledged, sum(fault.took_hold for fault in faults)),
        name=run.text("name") or run.directory.parent.name,
        seed=run.text("seed") or "unknown",
        started=_started(run),
        duration_ns=run.span_ns[1] - run.span_ns[0],
        operations=_operations(run),
        sent=run.tables["sends"].num_rows,
        acknowledged=acknowledged,
        read=run.tables["reads"].num_rows,
        distinct_read=len(values.drop_null().unique()),
        faults=faults,
        anomalies=tuple(anomaly_totals(run)),
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
    return tuple(
        (str(name).replace("_", " "), f"{value:,.6g}" if isinstance(value, float) else str(value))
        for name, value in sorted(metrics.items())
        if isinstance(value, int | float | str)
    )


def _started(run: Run) -> str:
    started_ms = run.number("started_unix_ms")
    if started_ms is None:
        return ""
    try:
        started = datetime.datetime.fromtimestamp(started_ms / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return started.strftime("%Y-%m-%d %H:%M:%S UTC")
