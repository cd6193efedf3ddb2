"""`harrow shrink`: makes a failing simulation as small as possible."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from common.wording import plural
from harness.commands.shared import store_option
from harness.commands.simulation.sim import TimeLimit, configuration_flags, overrides_of
from harness.run.stopping import Stop, on_signals
from harness.store.run_directories import LATEST, find_run
from harness.terminal.exits import ExitStatus
from simulation.runs import choice_files
from simulation.runs.failures import SimulationFinding
from simulation.runs.pool import cores
from simulation.scenario.case import Case
from simulation.scenario.phases import SimulationOutcome
from simulation.shrinking.reduce import NOISE, SHAPE, CannotShrink, ShrinkTarget, Shrunk, failing, reduce
from simulation.shrinking.shrinker import Lanes

TIME_LIMIT_S = 110.0
PLAIN_EVERY_S = 10.0


@click.command("shrink", short_help="Make a failing simulation as small as possible.")
@click.argument("what", metavar="[RUN|SEED|FILE]", required=False)
@configuration_flags
@store_option
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the choice file here."
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes (one per core).")
@click.option(
    "--time-limit", type=TimeLimit(), default=TIME_LIMIT_S, metavar="TIME", help="Stop after this time (110 s)."
)
def shrink(
    what: str | None,
    faults: str | None,
    generation: str | None,
    flaws: tuple[str, ...],
    settings_given: tuple[str, ...],
    client: str | None,
    search: str | None,
    out: Path | None,
    jobs: int | None,
    time_limit: float,
    store: Path,
) -> None:
    """Reduce a failing simulation to a minimal one that breaks the same property.

    RUN is the directory of a simulated run, or its name in the store; without any the newest of the store is reduced.
    Fewer and simpler parts first (brokers, clients, operations, faults), then a simpler network and disk, then lower
    numbers. The result is a choice file with the complete simulation and its trace; `harrow sim --schedule` runs it.

    \b
    harrow shrink 18 --generation K3
    harrow shrink 4 --flaw ack-before-replication --out smallest.json
    harrow shrink store/latest
    harrow shrink smallest.json --time-limit 10m      continue where an earlier one stopped

    Exit status: 0 shrunk, 2 usage, 3 nothing fails that could be shrunk.
    """  # noqa: D301 (\b is for click)
    what = LATEST if what is None else what
    case = _case(what, store, overrides_of(generation, flaws, settings_given, faults, client, search))
    console = Console(stderr=True, highlight=False)
    outcome, finding = failing(case)
    if finding is None:
        click.echo(f"harrow: {what}: nothing fails, so there is nothing to shrink", err=True)
        sys.exit(ExitStatus.UNKNOWN)
    console.print(Text(f"to be preserved: {finding}"), soft_wrap=True)
    try:
        smallest = shrink_failure(outcome, finding, jobs or cores(), time_limit, console)
    except CannotShrink as error:
        raise click.UsageError(f"{what}: {error}") from error
    path = out or Path(f"shrunk-{_name(outcome.seed, what)}.json")
    path.write_text(smallest.shrunk.choice_file.dumps(), encoding="utf-8")
    for line in smallest.shrunk.choice_file.happens:
        click.echo(line)
    click.echo(str(smallest))
    click.echo(f"harrow sim --schedule {path}")


class Smallest(NamedTuple):
    """A shrunk failure, how long the search took, and whether it came to its own end."""

    shrunk: Shrunk
    seconds: float
    was_cut_short: bool
    """Whether the time limit or a signal ended it, so that a smaller one may be found."""

    def __str__(self) -> str:
        choice_file = self.shrunk.choice_file
        configuration = choice_file.configuration
        return (
            f"{plural(len(choice_file.faults), 'fault')}, {plural(configuration.brokers, 'broker')}, "
            f"{plural(configuration.partitions, 'partition')}, {plural(configuration.operations, 'send')}, "
            f"{plural(self.shrunk.steps, 'transition')}; "
            f"{plural(self.shrunk.tried, 'candidate')} tried in {self.seconds:.0f} s"
            f"{', when it was ended: there may be a smaller one' if self.was_cut_short else ''}"
        )


def shrink_failure(
    outcome: SimulationOutcome, finding: SimulationFinding, jobs: int, time_limit_s: float, console: Console
) -> Smallest:
    """Shrink a failure until it is minimal, the time is over or a signal comes; shows the progress on a console.

    Raises `CannotShrink`.
    """
    stop = Stop()
    began_s = time.monotonic()
    was_cut_short = False

    def stopped() -> bool:
        nonlocal was_cut_short
        was_cut_short = stop.requested or time.monotonic() - began_s >= time_limit_s
        return was_cut_short

    with on_signals(stop), _ShrinkProgress(console, began_s) as progress:
        shrunk = reduce(
            outcome,
            ShrinkTarget(finding.layer, finding.property_id),
            jobs,
            stopped=stopped,
            on_better=progress.show,
        )
    return Smallest(shrunk, time.monotonic() - began_s, was_cut_short)


def _case(what: str, store: Path, overrides: dict[str, object]) -> Case:
    if what.isdigit():
        return Case(int(what), overrides)
    if overrides:
        raise click.UsageError("a choice file has all settings: expected no other settings")
    path = Path(what)
    if not path.is_file():
        path = choice_files.file_in(find_run(store, None if what == LATEST else what))
    if not path.is_file():
        raise click.UsageError(f"{what}: expected a seed, a simulated run, or a choice file, found another run")
    return case_in(path)


def case_in(path: Path) -> Case:
    """The case of a choice file. Raises `click.UsageError`."""
    try:
        return choice_files.load(path).case()
    except choice_files.ChoiceFileError as error:
        raise click.UsageError(str(error)) from error


def _name(seed: int | None, what: str) -> str:
    return str(seed) if seed is not None else Path(what).stem


class _ShrinkProgress:
    """Shows the size of the smallest failure so far."""

    def __init__(self, console: Console, began_s: float) -> None:
        self._console = console
        self._began_s = self._shown_s = began_s
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> _ShrinkProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, tried: int, lanes: Lanes) -> None:
        now_s = time.monotonic()
        faults = len(lanes["schedule"]) // SHAPE["schedule"].width
        draws = sum(sum(map(bool, lanes[name])) for name in NOISE)
        line = Text(
            f"{now_s - self._began_s:4.0f} s  {tried:,} candidates tried · {faults} faults, "
            f"{draws:,} random choices and {sum(lanes['configuration'])} settings left to simplify",
            style="cyan",
        )
        if self._live is not None:
            self._live.update(line, refresh=True)
        elif now_s - self._shown_s >= PLAIN_EVERY_S:
            self._shown_s = now_s
            self._console.print(line, soft_wrap=True)
