"""The command `harrow suite`: runs a matrix of runs and reports it on one page."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.shared import command_for, store_option
from harness.shipped import SUITES

if TYPE_CHECKING:
    from checkers.verdict.verdict import RunResult
    from harness.suites.cells import Cell
    from harness.suites.definition import Suite
    from harness.suites.runner import SuiteOutcome
    from harness.suites.suite_state import CellResult, SuiteState
    from harness.terminal.console import RunProgress

_STYLES = {"valid": "green", "invalid": "bold red", "unknown": "yellow", "crashed": "bold magenta", "skipped": "dim"}


@click.command("suite")
@click.argument("named", metavar="SUITE")
@store_option
@click.option("--fresh", is_flag=True, help="Start again, even if the last execution was interrupted.")
def suite(named: str, store: Path, fresh: bool) -> None:
    """Run all cells of a suite, check them, and write one page, a JUnit file and a summary in Markdown.

    SUITE is a name (see `harrow suites`) or a TOML file; see docs/guide/suites.md. An interrupted suite is resumed:
    cells that have ended are not run again.

    \b
    harrow suite smoke            a few minutes
    harrow suite nightly          hours; cells that this machine cannot run are skipped with the reason
    harrow suite mine.toml        your own

    Exit status: 0 all valid, 1 anomalies, 2 usage, 3 undecided or interrupted, 4 a run crashed or the canary was not
    found.
    """  # noqa: D301 (\b is for click)
    from harness.run.judging import need_java
    from harness.suites import definition
    from harness.suites.suite_state import resume_or_start
    from harness.terminal.console import RunProgress, progress_console

    wanted = definition.load(SUITES.find(named))
    if not all(cell.is_simulated for cell in (*wanted.canary, *wanted.cells)):
        need_java()
    state = resume_or_start(store, wanted, fresh=fresh)
    with RunProgress(progress_console()) as progress:
        outcome = _run_suite(wanted, state, progress, command_for(store, "heal"))
    _print_outcome(state, outcome, command_for(store, "suite", named))
    sys.exit(outcome.status)


def _run_suite(wanted: Suite, state: SuiteState, progress: RunProgress, heal: str) -> SuiteOutcome:
    from harness.run.judging import WarmSpark, results_of, write_report
    from harness.run.stopping import Stop, on_signals
    from harness.suites.runner import SuiteHooks, run_suite
    from reports.suite import render_suite

    spark = WarmSpark()
    action = "resumes" if state.resumed else "starts"
    progress.log(f"suite {wanted.name} {action}: {len(wanted.cells)} runs and a canary; {state.directory}/index.html")

    def judge(run: Path) -> RunResult:
        spark.start_once()
        progress.phase("check", run.name.partition("-")[2])
        result = results_of([run], spark.session())[0]
        write_report(run, partial(progress.log, style="yellow"))
        return result

    def log(cell: Cell, result: CellResult) -> None:
        if result.canary_found is not None:
            found = "found" if result.canary_found else "NOT found"
            progress.log(f"the canary was {found} with {cell.seeds}", style="green" if result.canary_found else "red")
            return
        why = f": {result.reasons[0]}" if result.reasons else ""
        line = f"{result.verdict}  {cell.environment}, {cell.configuration}, {cell.faults}, {cell.seeds}{why}"
        progress.log(line, style=_STYLES[result.verdict])

    stop = Stop()
    with on_signals(stop, heal):
        return run_suite(wanted, state, SuiteHooks(judge, stop, log, render_suite))


def _print_outcome(state: SuiteState, outcome: SuiteOutcome, command: str) -> None:
    from reports.suite.loaded import load_suite

    click.echo(f"{load_suite(state.directory).sentence}")
    if outcome.interrupted:
        click.echo(f"harrow: interrupted; `{command}` resumes the suite", err=True)
    click.echo(f"page: {state.directory / 'index.html'}")
