"""The command `harrow suite`: runs a matrix of runs and reports it on one page."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from common.wording import plural, printable
from harness.commands.groups import OneOf
from harness.commands.shared import command_for, store_option
from harness.shipped import SUITES
from harness.suites.fail_on import FailOn

if TYPE_CHECKING:
    from checkers.verdict.verdict import RunResult
    from harness.store.progress import ProgressFile
    from harness.suites.cells import Cell
    from harness.suites.definition import Suite
    from harness.suites.runner import SuiteOutcome
    from harness.suites.share_done import ShareDone
    from harness.suites.suite_state import CellResult, SuiteState
    from harness.terminal.console import RunProgress

_ADDRESS: Final = re.compile(r"(?:https?|file)://\S+\Z")
_LISTED_MAX: Final = 5
_STYLES = {"valid": "green", "invalid": "bold red", "unknown": "yellow", "crashed": "bold magenta", "skipped": "dim"}


@click.command("suite")
@click.argument("named", metavar="SUITE")
@store_option
@click.option("--fresh", is_flag=True, help="Start again, even if the last execution was interrupted.")
@click.option(
    "--since",
    metavar="NIGHT",
    help="Compare with this night: the time in its directory's name, or the beginning. Default: the last finished one.",
)
@click.option(
    "--fail-on",
    type=OneOf([each.value for each in FailOn], "which failures decide the exit status"),
    default=FailOn.ALL.value,
    show_default=True,
    help="new: only failures that the earlier night did not have decide the exit status.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Sweeps of the simulator that run side by side; runs of real clusters always run alone.",
)
@click.option("--build", default="", metavar="TEXT", help="What is tested, for the page, the JUnit file, later nights.")
@click.option(
    "--base-url",
    default="",
    metavar="URL",
    help="Where the suite's directory will be found: makes the links in summary.md and junit.xml absolute.",
)
def suite(
    named: str, store: Path, fresh: bool, since: str | None, fail_on: str, jobs: int, build: str, base_url: str
) -> None:
    """Run all cells of a suite, check them, and write one page, a JUnit file and a summary in Markdown.

    SUITE is a name (see `harrow suites`) or a TOML file; see docs/guide/suites.md. An interrupted suite is resumed:
    cells that have ended are not run again. A suite that has been run before is compared with its last night.

    \b
    harrow suite smoke            a few minutes
    harrow suite nightly          hours; cells that this machine cannot run are skipped with the reason
    harrow suite mine.toml        your own
    harrow suite smoke --jobs 2   sweeps of the simulator side by side, real clusters one at a time
    harrow suite nightly --fail-on new --build 4f2a91c

    Exit status: 0 all valid, 1 anomalies, 2 usage, 3 undecided or interrupted, 4 a run crashed or the canary was not
    found. Known failures do not count until they expire.
    """  # noqa: D301 (\b is for click)
    from harness.run.judging import need_java
    from harness.store.progress import ProgressFile
    from harness.suites import definition
    from harness.suites.nights import check_since, compare_with_earlier
    from harness.suites.suite_state import Night, resume_or_start
    from harness.terminal.console import RunProgress, progress_console

    if base_url and not _ADDRESS.match(base_url):
        raise click.UsageError(f"--base-url: expected an address like https://ci.example/night/, found {base_url!r}")
    wanted = definition.load(SUITES.find(named))
    check_since(store, wanted.name, since)
    if not all(cell.is_simulated for cell in (*wanted.canary, *wanted.cells)):
        need_java()
    state = resume_or_start(store, wanted, fresh=fresh, night=Night(build, base_url))
    compare_with_earlier(state.directory, since)
    with (
        ProgressFile(store, "suite", wanted.name, state.directory) as file,
        RunProgress(progress_console()) as progress,
    ):
        outcome = _run_suite(wanted, state, progress, file, command_for(store, "heal"), FailOn(fail_on), jobs)
    beside = ("--jobs", str(jobs)) if jobs > 1 else ()
    _print_outcome(state, outcome, command_for(store, "suite", named, *beside))
    sys.exit(outcome.status)


def _run_suite(
    wanted: Suite,
    state: SuiteState,
    progress: RunProgress,
    file: ProgressFile,
    heal: str,
    fail_on: FailOn = FailOn.ALL,
    jobs: int = 1,
) -> SuiteOutcome:
    from harness.run.judging import WarmSpark, results_of, write_report
    from harness.run.stopping import Stop, on_signals
    from harness.suites.runner import SuiteHooks, run_suite
    from reports.suite import render_suite

    spark = WarmSpark()
    action = "resumes" if state.resumed else "starts"
    progress.log(f"suite {wanted.name} {action}: {len(wanted.cells)} runs and a canary; {state.directory}/index.html")

    def tell(done: ShareDone) -> None:
        file.tell("runs", *done, at_once=True)

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
        if result.attempts:
            failed = sum(attempt["verdict"] != "valid" for attempt in result.attempts)
            why = f", failed {failed} of {len(result.attempts)} times{why}"
        line = f"{result.verdict}  {cell.environment}, {cell.configuration}, {cell.faults}, {cell.seeds}{why}"
        progress.log(line, style=_STYLES[result.verdict])

    stop = Stop()
    file.tell("canary", "a planted flaw must be found")
    with on_signals(stop, heal):
        return run_suite(wanted, state, SuiteHooks(judge, stop, log, render_suite, tell), fail_on, jobs)


def _print_outcome(state: SuiteState, outcome: SuiteOutcome, command: str) -> None:
    from reports.suite.loaded import load_suite, night_text

    suite = load_suite(state.directory)
    click.echo(suite.sentence)
    if suite.earlier.night:
        click.echo(
            f"since {night_text(suite.earlier.night)}{f', build {suite.earlier.build}' if suite.earlier.build else ''}:"
        )
    for change, cells in suite.changes.items():
        if not suite.earlier.night and change not in ("flaky", "known"):
            continue
        click.echo(f"  {len(cells)} {'still failing' if change == 'still' else change}")
        for cell in cells[:_LISTED_MAX]:
            click.echo(printable(f"    {'; '.join((cell.title, *cell.notes, *cell.anomalies))}"))
        if len(cells) > _LISTED_MAX:
            click.echo(f"    {plural(len(cells) - _LISTED_MAX, 'more run')}")
    if outcome.interrupted:
        click.echo(f"harrow: interrupted; `{command}` resumes the suite", err=True)
    click.echo(f"page: {state.directory / 'index.html'}")
