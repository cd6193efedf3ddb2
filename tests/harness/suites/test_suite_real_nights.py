"""Two nights of a suite of real sweeps: one regression, one repair, one flaky and one known failure at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from harness.run.stopping import Stop
from harness.suites import cell_runner
from harness.suites.cell_runner import ProcessResult, run_process
from harness.suites.definition import load
from harness.suites.nights import compare_with_earlier
from harness.suites.runner import SuiteHooks, SuiteOutcome, run_suite
from harness.suites.suite_state import Night, SuiteState, resume_or_start
from harness.terminal.exits import ExitStatus
from reports.suite import render_suite
from reports.suite.loaded import load_suite
from tests.support.html_check import Page

SUITE = """
name = "real"
budget = "1h"
reruns = 1
[canary]
environment = "simulation"
faults = "kill"
seeds = "1:2"
settings = {{ flaws = ["ack-before-replication"], simulation = {small} }}
[configurations.regression]
flaws = {regression}
[configurations.repair]
flaws = {repair}
[configurations.fragile]
flaws = []
[configurations.excused]
flaws = ["ack-before-replication"]
[[matrix]]
environments = ["simulation"]
faults = ["kill"]
seeds = "1:2"
settings = {{ simulation = {small} }}
[[known-failures]]
configurations = ["excused"]
anomalies = ["P-12", "P-15", "P-1", "P-2", "lost-acked-write"]
owner = "storage team"
expires = 2026-03-31
reason = "acknowledged too early"
"""
SMALL = "{ operations = 20, polls = 20, duration_ms = 6000, group_members = 0, side_topics = false }"
SOUND, FLAWED = "[]", '["ack-before-replication"]'
CUT_SHORT_S = 0.1


@pytest.mark.slow
def test_the_page_of_the_second_night_tells_all_four_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short: list[str] = []

    def run(arguments: Sequence[str], directory: Path, limit_s: float, stop: Stop) -> ProcessResult:
        """Run a real process; the fragile cell's first one of the second night is not given the time that it needs."""
        is_second = bool(list((tmp_path / "store/suites/real").glob("20260105*")))
        if is_second and "fragile" in directory.name and not cut_short:
            cut_short.append(directory.name)
            return run_process(arguments, directory, CUT_SHORT_S, stop)
        return run_process(arguments, directory, limit_s, stop)

    monkeypatch.setattr(cell_runner, "run_process", run)
    play(tmp_path, datetime(2026, 1, 4, 2, tzinfo=UTC), regression=SOUND, repair=FLAWED)
    state, outcome = play(tmp_path, datetime(2026, 1, 5, 2, tzinfo=UTC), regression=FLAWED, repair=SOUND)
    assert cut_short
    suite = load_suite(state.directory)
    changes = {change: [cell.configuration for cell in cells] for change, cells in suite.changes.items() if cells}
    assert changes == {"new": ["regression"], "flaky": ["fragile"], "fixed": ["repair"], "known": ["excused"]}
    assert outcome.status != ExitStatus.VALID
    page = Page(state.directory / "index.html")
    first = page.source[page.source.index("<h1>") : page.source.index("<h2>Canary")]
    for words in ("1 new", "1 flaky", "0 still failing", "1 fixed", "1 known", "failed 1 of 2 times", "storage team"):
        assert words in first


def play(directory: Path, now: datetime, *, regression: str, repair: str) -> tuple[SuiteState, SuiteOutcome]:
    file = directory / "real.toml"
    file.write_text(SUITE.format(small=SMALL, regression=regression, repair=repair))
    suite = load(file)
    state = resume_or_start(directory / "store", suite, fresh=False, now=now, night=Night())
    compare_with_earlier(state.directory, None)
    hooks = SuiteHooks(never_judged, Stop(), lambda *_: None, render_suite)
    return state, run_suite(suite, state, hooks)


def never_judged(run: Path) -> NoReturn:
    raise AssertionError(f"expected sweeps alone, found the run {run}")
