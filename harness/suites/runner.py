"""Runs a suite: the canary, then each cell until the budget is spent; every result is stored at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.run.stopping import Stop
from harness.store.heal import heal
from harness.suites.cell_runner import Judge, run_cell
from harness.suites.cells import Cell
from harness.suites.definition import Suite
from harness.suites.fail_on import FailOn
from harness.suites.reruns import must_run_again, run_again
from harness.suites.share_done import ShareDone, share_done
from harness.suites.side_by_side import groups, run_side_by_side
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
    tell: Callable[[ShareDone], None] = lambda _: None  # is told how far the suite has come


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


def run_suite(
    suite: Suite, state: SuiteState, hooks: SuiteHooks, fail_on: FailOn = FailOn.ALL, jobs: int = 1
) -> SuiteOutcome:
    """Run the cells that have no result yet, up to `jobs` sweeps at a time; write the suite's page after each cell."""
    if state.resumed:
        heal(state.directory)
    found = _run_canary(suite, state, hooks)
    results = {cell.name: result for cell in suite.cells if (result := state.result(cell)) is not None}
    failed_before = {cell.name for cell in load_suite(state.directory).cells if cell.before and cell.before.failing}
    for group in groups([cell for cell in suite.cells if cell.name not in results], jobs):
        if hooks.stop.requested:
            break
        beside = min(jobs, len(group))
        watch = _Watch(state)
        work = _Work(suite, state.directory, hooks, watch.spent_s, failed_before, beside)

        def began(running: Sequence[Cell]) -> None:
            hooks.tell(share_done(suite.cells, results, running))

        def ended(cell: Cell, result: CellResult | None, watch: _Watch = watch) -> None:
            watch.settle()
            if result is not None:
                results[cell.name] = result
                _keep(cell, result, state, hooks)

        if beside == 1:
            for cell in group:
                began([cell])
                ended(cell, work(cell))
        else:
            run_side_by_side(group, beside, work, began, ended, hooks.stop)
    results = {cell.name: results[cell.name] for cell in suite.cells if cell.name in results}
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
            watch = _Watch(state)
            result = _Work(suite, state.directory, hooks, watch.spent_s, frozenset(), 1)(cell)
            watch.settle()
            if result is not None:
                _keep(cell, result, state, hooks)
        if result is not None and result.canary_found:
            return True
    return False


def _keep(cell: Cell, result: CellResult, state: SuiteState, hooks: SuiteHooks) -> None:
    state.store_result(cell, result)
    hooks.log(cell, result)
    hooks.draw(state.directory)


class _Watch:
    """The time that a suite has spent, with that of the cells that run now; side by side, the same time counts once."""

    def __init__(self, state: SuiteState) -> None:
        self._state = state
        self._since_s = time.monotonic()

    def spent_s(self) -> float:
        """Seconds until now."""
        return self._state.spent_s + time.monotonic() - self._since_s

    def settle(self) -> None:
        """Store the time until now."""
        now_s = time.monotonic()
        self._state.add_time(now_s - self._since_s)
        self._since_s = now_s


@dataclass(frozen=True)
class _Work:
    """Runs one cell, as often as it must; changes nothing but the files of that cell's processes."""

    suite: Suite
    directory: Path
    hooks: SuiteHooks
    spent_s: Callable[[], float]
    failed_before: Collection[str]
    beside: int  # how many cells run at a time

    def __call__(self, cell: Cell) -> CellResult | None:
        """The result; None if it was interrupted."""
        if self._is_late():
            return CellResult("skipped", (OUT_OF_TIME,), 0.0, None, None, {}, {}, "")
        result = self._once(cell, 1)
        failed_before = cell.name in self.failed_before
        if result is None or not self.suite.reruns or result.canary_found is not None:
            return result
        if not must_run_again(cell, result, failed_before=failed_before):
            return result
        return run_again(
            result, self.suite.reruns, lambda attempt: self._once(cell, attempt), lambda: not self._is_late()
        )

    def _is_late(self) -> bool:
        return self.spent_s() >= self.suite.budget_s

    def _once(self, cell: Cell, attempt: int) -> CellResult | None:
        if self.hooks.stop.requested:
            return None
        return run_cell(cell, self.directory, self.hooks.judge, self.hooks.stop, attempt, self.beside)
