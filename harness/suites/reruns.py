"""Runs a cell again that failed, now or in the last night: failures are counted, as k of n, and never made green."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.suites.cells import Cell
from harness.suites.suite_state import CellResult
from reports.suite.cell import FAILING, GRAVEST


def must_run_again(cell: Cell, first: CellResult, *, failed_before: bool) -> bool:
    """Whether one attempt is not enough: it failed, or it passed and failed in the earlier night.

    A sweep of the simulator is decided by its seeds; only one that did not come to its end is run again.
    """
    if cell.is_simulated:
        return first.verdict in FAILING - {"invalid"}
    return first.verdict in FAILING or (failed_before and first.verdict == "valid")


def run_again(
    first: CellResult, times: int, attempt: Callable[[int], CellResult | None], may_go_on: Callable[[], bool]
) -> CellResult | None:
    """Make up to `times` more attempts and join all results; None if one was interrupted.

    `attempt` takes the number of the attempt. They end early when the suite may not go on, and when the cell cannot be
    run any more.
    """
    results = [first]
    for number in range(2, times + 2):
        if not may_go_on():
            break
        result = attempt(number)
        if result is None:
            return None
        if result.verdict == "skipped":
            break
        results.append(result)
    return joined(results)


def joined(results: Sequence[CellResult]) -> CellResult:
    """One result of several attempts: that of the gravest, the first of these, with the violations of all."""
    if len(results) == 1:
        return results[0]
    gravest = min(results, key=lambda result: GRAVEST.index(result.verdict))
    anomalies: dict[str, int] = {}
    for result in results:
        for name, number in result.anomalies.items():
            anomalies[name] = max(number, anomalies.get(name, 0))
    return replace(
        gravest,
        seconds=round(sum(result.seconds for result in results), 1),
        anomalies=anomalies,
        attempts=tuple(_attempt(result) for result in results),
    )


def _attempt(result: CellResult) -> Mapping[str, Any]:
    return {"verdict": result.verdict, "reasons": list(result.reasons), "run": result.run, "log": result.log}
