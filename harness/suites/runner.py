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
from harness.suites.fail_on import FailOn
from harness.suites.reruns import must_run_again, run_again
from harness.suites.suite_state import CellResult, SuiteState
from harness.terminal.exits import ExitStatus
from reports.suite.loaded import load_suite

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
    counting: tuple[CellResult, ...]  # of those that decide the exit status

    @property
    def status(self) -> ExitStatus:
        """An anomaly outweighs a crash, which outweighs an undecided verdict."""
        verdicts = {result.verdict for result in self.counting}
        if "invalid" in verdicts:
            return ExitStatus.ANOMALIES
        if "crashed" in verdicts or not (self.canary_found or self.interrupted):
            return ExitStatus.FAILED
        late = any(OUT_OF_TIME in result.reasons for result in self.results)
        return ExitStatus.UNKNOWN if self.interrupted or late or "unknown" in verdicts else ExitStatus.VALID


def run_suite(suite: Suite, state: SuiteState, hooks: SuiteHooks, fail_on: FailOn = FailOn.ALL) -> SuiteOutcome:
    """Run the cells that have no result yet; write the suite's page after each."""
    if state.resumed:
        heal(state.directory)
    found = _run_canary(suite, state, hooks)
    failed_before = {cell.name for cell in load_suite(state.directory).cells if cell.before and cell.before.failing}
    results = {}
    for cell in suite.cells:
        result = state.result(cell)
        if result is None and not hooks.stop.requested:
            result = _run_and_store(cell, suite, state, hooks, failed_before=cell.name in failed_before)
        if result is not None:
            results[cell.name] = result
    interrupted = hooks.stop.requested
    state.add_time(0.0, "interrupted" if interrupted else "finished")
    hooks.draw(state.directory)
    left_out = {
        cell.name
        for cell in load_suite(state.directory).cells
        if cell.known or (fail_on is FailOn.NEW and cell.failing and not cell.is_new)
    }
    counting = tuple(result for name, result in results.items() if name not in left_out)
    return SuiteOutcome(found, tuple(results.values()), interrupted, counting)


def _run_canary(suite: Suite, state: SuiteState, hooks: SuiteHooks) -> bool:
    for cell in suite.canary:
        result = state.result(cell)
        if result is None and not hooks.stop.requested:
            result = _run_and_store(cell, suite, state, hooks, failed_before=False)
        if result is not None and result.canary_found:
            return True
    return False


def _run_and_store(
    cell: Cell, suite: Suite, state: SuiteState, hooks: SuiteHooks, *, failed_before: bool
) -> CellResult | None:
    if state.spent_s >= suite.budget_s:
        result: CellResult | None = CellResult("skipped", (OUT_OF_TIME,), 0.0, None, None, {}, {}, "")
    else:
        result = _timed(cell, state, hooks, 1)
        if (
            result is not None
            and suite.reruns
            and result.canary_found is None
            and must_run_again(cell, result, failed_before=failed_before)
        ):
            result = run_again(
                result,
                suite.reruns,
                lambda attempt: _timed(cell, state, hooks, attempt),
                lambda: state.spent_s < suite.budget_s,
            )
    if result is not None:
        state.store_result(cell, result)
        hooks.log(cell, result)
        hooks.draw(state.directory)
    return result


def _timed(cell: Cell, state: SuiteState, hooks: SuiteHooks, attempt: int) -> CellResult | None:
    """Run a cell once, and add the time to that of the suite; None if it was interrupted."""
    if hooks.stop.requested:
        return None
    began_s = time.monotonic()
    result = run_cell(cell, state.directory, hooks.judge, hooks.stop, attempt)
    state.add_time(time.monotonic() - began_s)
    return result
