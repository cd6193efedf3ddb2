"""Counts the anomalies of a run by name, from its table and from `results.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from history.anomalies import CATALOGUE, MALFORMED
from reports.data.stored_run import Run, counts_by


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
    stated = run.stated_totals
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
    stated = run.stated_totals
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
