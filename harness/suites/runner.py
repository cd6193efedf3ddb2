"""Runs a suite: the canary, then each cell until the budget is spent; every result is stored at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.run.stopping import Stop
from harness.store.heal import heal
from harness.suites.cell_runner import Judge, run_cell
from harness.suites.cells import Cell
from harness.suites.definition import Suite
from harness.suites.suite_state import CellResult, SuiteState
from harness.terminal.exits import ExitStatus

OUT_OF_TIME = "the suite's budget was already spent"


@dataclass(frozen=True)
class SuiteHooks:
    """The functions that a suite calls to check, log and report its cells."""

    judge: Judge
    stop: Stop
    log: Callable[[Cell, CellResult], None]  # logs the result of a cell
    draw: Callable[[Path], object]  # renders the suite's page


@dataclass(frozen=True)
class SuiteOutcome:
    """How a suite ended."""

    canary_found: bool
    results: tuple[CellResult, ...]  # of all cells that ended
    interrupted: bool

    @property
    def status(self) -> ExitStatus:
        """An anomaly outweighs a crash, which outweighs an undecided verdict."""
        verdicts = {result.verdict for result in self.results}
        if "invalid" in verdicts:
            return ExitStatus.ANOMALIES
        if "crashed" in verdicts or not (self.canary_found or self.interrupted):
            return ExitStatus.FAILED
        late = any(OUT_OF_TIME in result.reasons for result in self.results)
        return ExitStatus.UNKNOWN if self.interrupted or late or "unknown" in verdicts else ExitStatus.VALID


def run_suite(suite: Suite, state: SuiteState, hooks: SuiteHooks) -> SuiteOutcome:
    """Run the cells that have no result yet; write the suite's page after each."""
    if state.resumed:
        heal(state.directory)
    found = _run_canary(suite, state, hooks)
    results = []
    for cell in suite.cells:
        result = state.result(cell)
        if result is None and not hooks.stop.requested:
            result = _run_and_store(cell, suite, state, hooks)
        if result is not None:
            results.append(result)
    interrupted = hooks.stop.requested
    state.add_time(0.0, "interrupted" if interrupted else "finished")
    hooks.draw(state.directory)
    return SuiteOutcome(found, tuple(results), interrupted)


def _run_canary(suite: Suite, state: SuiteState, hooks: SuiteHooks) -> bool:
    for cell in suite.canary:
        result = state.result(cell)
        if result is None and not hooks.stop.requested:
            result = _run_and_store(cell, suite, state, hooks)
        if result is not None and result.canary_found:
            return True
    return False


def _run_and_store(cell: Cell, suite: Suite, state: SuiteState, hooks: SuiteHooks) -> CellResult | None:
    if state.spent_s >= suite.budget_s:
        result: CellResult | None = CellResult("skipped", (OUT_OF_TIME,), 0.0, None, None, {}, {}, "")
    else:
        began_s = time.monotonic()
        result = run_cell(cell, state.directory, hooks.judge, hooks.stop)
        state.add_time(time.monotonic() - began_s)
    if result is not None:
        state.store_result(cell, result)
        hooks.log(cell, result)
        hooks.draw(state.directory)
    return result
