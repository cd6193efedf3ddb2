"""`harrow lift`: finds a simulation that has the incident of a real run, and makes it small."""

from __future__ import annotations

import shlex
import sys
import time
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from common.wording import count, enumeration, plural, printable
from harness.commands.shared import run_of, store_option
from harness.commands.simulation.shrink import shrink_failure
from harness.commands.simulation.sim import SeedRange, TimeLimit
from harness.run.judging import judge, write_report
from harness.run.stopping import Stop, on_signals
from harness.store.run_directories import make_run_directory
from harness.store.run_names import of_simulation, plain
from harness.terminal.exits import ExitStatus
from simulation.lifting import hunt, real_run
from simulation.lifting.real_run import CannotLift, RealRun
from simulation.lifting.variations import case_of, way_of
from simulation.runs import choice_files, stored
from simulation.runs.failures import SimulationFinding, findings
from simulation.runs.pool import cores
from simulation.scenario.case import Case
from simulation.scenario.overrides import check_names
from simulation.shrinking.needed import needed_within
from simulation.shrinking.reduce import CannotShrink, failing

TIME_LIMIT_S = 600.0
SHRINK_S = 60.0
NEEDED_S = 15.0
SEEDS = range(1, 1_000_001)
SHOW_EVERY_S = 10.0
_NAMES_WIDTH = 9
_OTHERS_NAMED = 4


@click.command("lift", short_help="Find a simulation that has the incident of a real run.")
@click.argument("run", metavar="RUN")
@click.option("--seeds", type=SeedRange(), metavar="A:B", help="Try these seeds, in order (1:1000000).")
@click.option("--incident", type=click.IntRange(min=1), default=1, metavar="N", help="Its N-th violation (1).")
@click.option("--flaw", "flaws", multiple=True, metavar="NAME", help="A flaw (those of the run). Repeatable.")
@click.option(
    "--generation",
    metavar="NAME",
    help="Protocol version, K1 to K5 (that of the run; of another broker K5 with eligible leader replicas, else K3).",
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes (one per core).")
@click.option(
    "--time-limit", type=TimeLimit(), default=TIME_LIMIT_S, metavar="TIME", help="Begin no seed after this time (10m)."
)
@click.option("--shrink/--no-shrink", "shrinks", default=True, help="Make the simulation small, too (on).")
@store_option
def lift(
    run: str,
    seeds: range | None,
    incident: int,
    flaws: tuple[str, ...],
    generation: str | None,
    jobs: int | None,
    time_limit: float,
    shrinks: bool,
    store: Path,
) -> None:
    """Search the simulator for an incident of a real run, so that the failure can be repeated step by step.

    RUN is the directory of a run of a real cluster, its name in the store, or `latest`. The simulations have its
    configuration and its flaws, and its faults around the incident, varied in time, target and number; each seed is
    one of them. The first with the same harm by the same kind of cause is stored, with a report, and then once more,
    shrunk.

    \b
    harrow lift latest
    harrow lift latest --seeds 5000:9000 --jobs 1 --time-limit 3m
    harrow lift store/latest --incident 2 --no-shrink

    Exit status: 0 found, 2 usage or a run without a violation, 3 not found.
    """  # noqa: D301 (\b is for click)
    directory = run_of(store, run)
    try:
        check_names(generation or "K5", flaws)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not (directory / "results.json").is_file():
        judge([directory])
    try:
        real = real_run.read(directory, number=incident, flaws=flaws, generation=generation)
    except CannotLift as error:
        raise click.UsageError(f"{printable(run)}: {error}") from error
    lifter = _Lifter(directory, real, store, jobs or cores())
    sys.exit(lifter.lift(seeds or SEEDS, time_limit, shrinks=shrinks))


class _Lifter:
    """Searches for one incident, and stores what it finds."""

    def __init__(self, directory: Path, run: RealRun, store: Path, jobs: int) -> None:
        self._directory = directory
        self._run = run
        self._store = store
        self._jobs = jobs
        self._console = Console(stderr=True, highlight=False)
        self._shown_s = time.monotonic()

    def lift(self, seeds: range, time_limit_s: float, *, shrinks: bool) -> ExitStatus:
        """Search, store, shrink; the exit status."""
        _place("incident", printable(self._run.incident.headline))
        if self._run.left_out:
            _place("left out", f"{enumeration(self._run.left_out)}: the simulation has nothing like it")
        began_s = time.monotonic()
        stop = Stop()
        with on_signals(stop):
            found = hunt.hunt(
                self._run,
                seeds,
                self._jobs,
                stopped=lambda: stop.requested or time.monotonic() - began_s >= time_limit_s,
                on_progress=self._show,
            )
        took_s = time.monotonic() - began_s
        if found.hit is None or found.hit.shown_by is None:
            click.echo(f"harrow: {self._not_found(found, seeds, took_s)}", err=True)
            return ExitStatus.UNKNOWN
        seed = found.hit.seed
        _place("found", f"seed {seed} ({way_of(seed)}), after {plural(found.seeds, 'simulation')} in {took_s:.0f} s")
        case = _whole(case_of(self._run, seed))
        self._keep(case, "lifted")
        if shrinks:
            self._shrink(case, found.hit.shown_by)
        return ExitStatus.VALID

    def _not_found(self, found: hunt.Hunt, seeds: range, took_s: float) -> str:
        others = [f"{name} in {count(times)}" for name, times in found.others.most_common(_OTHERS_NAMED)]
        kinds = sorted({struck.entry.kind for struck in self._run.struck})
        tried = (
            f"{plural(found.seeds, 'simulation')} from seed {seeds.start} on in {took_s:.0f} s, with"
            f" {enumeration(kinds) if kinds else 'drawn faults'}"
        )
        failed = f"; what failed otherwise: {enumeration(others)}" if others else "; nothing failed"
        died = f"; {plural(found.troubled, 'simulation')} did not end" if found.troubled else ""
        return f"not found: {tried}{failed}{died}; try other --seeds or a longer --time-limit"

    def _show(self, found: hunt.Hunt) -> None:
        now_s = time.monotonic()
        if now_s - self._shown_s >= SHOW_EVERY_S:
            self._shown_s = now_s
            self._console.print(f"{plural(found.seeds, 'simulation')} tried", style="cyan")

    def _keep(self, case: Case, name: str) -> Path:
        directory = make_run_directory(
            self._store, plain([name, of_simulation(case.overrides).removeprefix("simulation-")]), case.seed
        )
        stored.store(directory, case, needs=partial(needed_within, NEEDED_S, case))
        report = write_report(directory, partial(click.echo, err=True))
        choices = choice_files.file_in(directory)
        _place("choices", str(choices))
        if report is not None:
            _place("report", str(report))
        _place("replay", shlex.join(["harrow", "sim", "--schedule", str(choices), "--trace"]))
        _place("explain", shlex.join(["harrow", "explain", str(choices)]))
        return directory

    def _shrink(self, case: Case, shown_by: SimulationFinding) -> None:
        outcome, _ = failing(case)
        try:
            smallest = shrink_failure(outcome, shown_by, self._jobs, SHRINK_S, self._console)
        except CannotShrink as error:
            self._console.print(f"not shrunk: {error}", markup=False, soft_wrap=True)
            return
        small = smallest.shrunk.choice_file.case()
        if not hunt.same_incident(self._run, small):
            self._console.print(
                f"not shrunk: the smallest simulation that breaks {shown_by.property_id} has another cause",
                soft_wrap=True,
            )
            return
        click.echo()
        _place("smallest", str(smallest))
        self._keep(small, "lifted-shrunk")


def _whole(case: Case) -> Case:
    """The same simulation with everything that its seed draws written down, as a choice file has it."""
    outcome, _ = failing(case)
    return stored.choice_file_of(outcome, findings(outcome)).case()


def _place(name: str, what: str) -> None:
    click.echo(f"{name:<{_NAMES_WIDTH}} {what}")
