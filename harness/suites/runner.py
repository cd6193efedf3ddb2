"""A whole suite: the canary, then cell after cell while there is time, each kept as it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.run.stopping import Stop
from harness.store.heal import heal
from harness.suites.cell_runner import Judge, perform
from harness.suites.cells import Cell
from harness.suites.definition import Suite
from harness.suites.state import Result, State
from harness.terminal.exits import Exit

OUT_OF_TIME = "the suite's budget was spent before"


@dataclass(frozen=True)
class Hands:
    """What a suite works with."""

    judge: Judge
    stop: Stop
    note: Callable[[Cell, Result], None]  # tells what came of a cell
    draw: Callable[[Path], object]  # renders the suite's page


@dataclass(frozen=True)
class Ended:
    """How a suite ended."""

    canary_found: bool
    results: tuple[Result, ...]  # of all cells that ended
    interrupted: bool

    @property
    def status(self) -> Exit:
        """An anomaly outweighs what did not work, which outweighs what could not be decided."""
        verdicts = {result.verdict for result in self.results}
        if "invalid" in verdicts:
            return Exit.ANOMALIES
        if "crashed" in verdicts or not (self.canary_found or self.interrupted):
            return Exit.FAILED
        late = any(OUT_OF_TIME in result.reasons for result in self.results)
        return Exit.UNKNOWN if self.interrupted or late or "unknown" in verdicts else Exit.VALID


def conduct(suite: Suite, state: State, hands: Hands) -> Ended:
    """Perform what has not ended yet; the page is drawn after each cell."""
    if state.resumed:
        heal(state.directory)
    found = _tried_canary(suite, state, hands)
    results = []
    for cell in suite.cells:
        result = state.result(cell)
        if result is None and not hands.stop.requested:
            result = _performed(cell, suite, state, hands)
        if result is not None:
            results.append(result)
    interrupted = hands.stop.requested
    state.spent(0.0, "interrupted" if interrupted else "finished")
    hands.draw(state.directory)
    return Ended(found, tuple(results), interrupted)


def _tried_canary(suite: Suite, state: State, hands: Hands) -> bool:
    for cell in suite.canary:
        result = state.result(cell)
        if result is None and not hands.stop.requested:
            result = _performed(cell, suite, state, hands)
        if result is not None and result.canary_found:
            return True
    return False


def _performed(cell: Cell, suite: Suite, state: State, hands: Hands) -> Result | None:
    if state.spent_s >= suite.budget_s:
        result: Result | None = Result("skipped", (OUT_OF_TIME,), 0.0, None, None, {}, {}, "")
    else:
        began_s = time.monotonic()
        result = perform(cell, state.directory, hands.judge, hands.stop)
        state.spent(time.monotonic() - began_s)
    if result is not None:
        state.ended(cell, result)
        hands.note(cell, result)
        hands.draw(state.directory)
    return result
