"""`harrow explain`: says what went wrong in a seed, a stored run or a file, and why, and shrinks it."""

from __future__ import annotations

import shlex
import sys
import time
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from common.wording import printable
from harness.commands.shared import need_history, store_option
from harness.commands.simulation.shrink import case_in, shrink_failure
from harness.commands.simulation.sim import TimeLimit, configuration_flags, overrides_of
from harness.run.judging import judge, write_report
from harness.store.run_directories import find_run, make_run_directory
from harness.store.run_names import of_simulation, plain
from harness.terminal.exits import VERDICTS, ExitStatus
from incidents import needed
from incidents.needed import Needed
from reports.data.stored_run import load_run
from reports.text.configuration import reproduce_command
from reports.text.explanation import Explanation, explain_run
from simulation.directed import DirectedScheduleError
from simulation.directed.files import DIRECTED_SCHEDULES
from simulation.runs import choice_files, stored
from simulation.runs.failures import SimulationFinding
from simulation.runs.pool import cores
from simulation.scenario.case import Case
from simulation.scenario.phases import SimulationOutcome
from simulation.shrinking.needed import needed_within
from simulation.shrinking.reduce import CannotShrink, failing

TIME_LIMIT_S = 50.0
"""With it the command takes less than a minute: the run itself and the last attempt come on top."""
_NEEDED_SHARE = 0.4
"""The part of the time limit after which no simulation begins that tries which faults are needed."""
_NAMES_WIDTH = 9


@click.command("explain", short_help="Say what went wrong in a seed, a run or a file, and why.")
@click.argument("what", metavar="SEED|RUN|FILE")
@configuration_flags
@store_option
@click.option("--shrink/--no-shrink", "shrinks", default=True, help="Make a failing simulation small, too (on).")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes for shrinking (one per core).")
@click.option(
    "--time-limit",
    type=TimeLimit(),
    default=TIME_LIMIT_S,
    metavar="TIME",
    help="Begin no attempt to find what is needed, or to shrink, after this time (50 s).",
)
def explain(
    what: str,
    faults: str | None,
    generation: str | None,
    flaws: tuple[str, ...],
    settings_given: tuple[str, ...],
    client: str | None,
    search: str | None,
    shrinks: bool,
    jobs: int | None,
    time_limit: float,
    store: Path,
) -> None:
    """Say what went wrong, and why: the incidents with their causes, what speaks for them, and where to read on.

    A SEED is simulated with the same flags as for `harrow sim`. RUN is the directory of a stored run, its name in the
    store, or `latest`; one that has no results yet is checked first. FILE is a choice file or a schedule in steps. What
    fails goes into the store with its report, and then once more, shrunk. A simulated failure is simulated again
    without some of its faults, and without its flaws, to tell which of them it needs.

    \b
    harrow explain 4 --flaw ack-before-replication
    harrow explain 12 --generation K3 --time-limit 10m
    harrow explain latest                             the newest run of the store, real or simulated
    harrow explain smallest.json --no-shrink
    harrow explain unclean-election                   a schedule; see `harrow schedules`

    Exit status: 0 nothing wrong, 1 a violation, 2 usage, 3 a stored run that could not be decided.
    """  # noqa: D301 (\b is for click)
    overrides = overrides_of(generation, flaws, settings_given, faults, client, search)
    explainer = _Explainer(store, shrinks, jobs or cores(), time_limit)
    if what.isdigit():
        sys.exit(explainer.case(f"seed {what}", Case(int(what), overrides)))
    if overrides:
        raise click.UsageError(f"{what} has all settings: expected no other settings")
    path = Path(what)
    if path.suffix == ".toml" or (not path.exists() and DIRECTED_SCHEDULES.name_of(what) is not None):
        sys.exit(explainer.schedule(DIRECTED_SCHEDULES.find(what)))
    if path.is_file():
        sys.exit(explainer.case(what, case_in(path)))
    sys.exit(explainer.run(find_run(store, what, "a seed, a run, a choice file or a schedule in steps")))


class _Explainer:
    """Explains one thing, and stores what it had to simulate for that."""

    def __init__(self, store: Path, shrinks: bool, jobs: int, time_limit_s: float) -> None:
        self._store = store
        self._shrinks = shrinks
        self._jobs = jobs
        self._time_limit_s = time_limit_s
        self._until_s = time.monotonic() + time_limit_s
        self._console = Console(stderr=True, highlight=False)

    def case(self, name: str, case: Case) -> ExitStatus:
        """Simulate a case; one that fails is stored, explained and shrunk."""
        outcome, finding = failing(case)
        if finding is None:
            click.echo(f"{name}: nothing wrong, hash {outcome.digest}")
            return ExitStatus.VALID
        directory = make_run_directory(self._store, of_simulation(case.overrides), case.seed)
        stored.store(directory, case, needs=partial(self._needs, case))
        explanation = _explained(directory)
        _print_next(directory)
        self._shrink(outcome, finding, directory)
        return VERDICTS[explanation.word]

    def schedule(self, path: Path) -> ExitStatus:
        """Play a schedule in steps with its flaws, store it and explain it."""
        try:
            directory = make_run_directory(self._store, plain(["schedule", path.stem]), None)
            stored.store_schedule_run(directory, path, flawed=True)
        except DirectedScheduleError as error:
            raise click.UsageError(str(error)) from error
        explanation = _explained(directory)
        _print_next(directory)
        return VERDICTS[explanation.word]

    def run(self, directory: Path) -> ExitStatus:
        """Explain a stored run, after a check if it was not checked; a simulated one that fails is shrunk."""
        need_history(directory)
        if not (directory / "results.json").is_file():
            judge([directory])
        choice_file = choice_files.file_in(directory)
        case = case_in(choice_file) if choice_file.is_file() else None
        if case is None or load_run(directory).results.get("verdict") != "invalid":
            explanation = _explained(directory)
            _print_next(directory)
            return VERDICTS[explanation.word]
        outcome, finding = failing(case)
        known = needed.read(directory)
        if finding is not None and (known is None or known.untested):
            needed.write(directory, self._needs(case, outcome, finding))
            stored.write_results(directory, directory.name, stored.found_in(directory))
        explanation = _explained(directory)
        _print_next(directory)
        if finding is not None:
            self._shrink(outcome, finding, directory)
        elif self._shrinks:
            self._console.print(f"not shrunk: the simulator alone finds nothing wrong in {directory}", markup=False)
        return VERDICTS[explanation.word]

    def _needs(self, case: Case, outcome: SimulationOutcome, finding: SimulationFinding) -> Needed:
        return needed_within(_NEEDED_SHARE * self._time_limit_s, case, outcome, finding)

    def _shrink(self, outcome: SimulationOutcome, finding: SimulationFinding, origin: Path) -> None:
        """Shrink a failure, store what is left, and explain that."""
        if not self._shrinks:
            return
        try:
            smallest = shrink_failure(outcome, finding, self._jobs, self._until_s - time.monotonic(), self._console)
        except CannotShrink as error:
            self._console.print(f"not shrunk: {error}", markup=False, soft_wrap=True)
            return
        case = smallest.shrunk.choice_file.case()
        directory = make_run_directory(self._store, plain([of_simulation(case.overrides), "shrunk"]), case.seed)
        stored.store(directory, case, needs=partial(self._needs, case))
        click.echo()
        _print_place("smallest", str(smallest))
        _print_place("of", str(origin))
        _explained(directory)
        _print_next(directory)
        needed.write_smallest(origin, directory.name, was_cut_short=smallest.was_cut_short)
        write_report(origin, partial(click.echo, err=True))  # once more, with what is left


def _explained(directory: Path) -> Explanation:
    """Write the report of a run and print its explanation."""
    report = write_report(directory, partial(click.echo, err=True))
    explanation = explain_run(directory)
    for line in explanation.lines:
        click.echo(line)
    if report is not None:
        _print_place("report", str(report))
    return explanation


def _print_next(directory: Path) -> None:
    """Print the command that shows a simulation step by step, or repeats the run of a real cluster."""
    choice_file = choice_files.file_in(directory)
    if choice_file.is_file():
        _print_place("trace", shlex.join(["harrow", "sim", "--schedule", str(choice_file), "--trace"]))
        return
    run = load_run(directory)
    command = printable(reproduce_command(run, str(directory)))
    if run.text("environment") == "simulation":
        _print_place("trace", f"{command} --trace")
    else:
        _print_place("again", command)


def _print_place(name: str, what: str) -> None:
    click.echo(f"{name:<{_NAMES_WIDTH}} {what}")
