"""`harrow known-flaws`: tests whether Harrow finds every known flaw."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from harness.commands.simulation.sim import TimeLimit
from harness.run.stopping import Stop, on_signals
from harness.terminal.exits import ExitStatus
from simulation.known_flaws import page
from simulation.known_flaws.hunt import (
    HISTORIES_PER_FLAW,
    Hunt,
    HuntTask,
    all_played,
    chosen,
    histories,
    hunt,
    judged,
    limits,
    load_hunts,
    save_hunts,
    shrunk,
    work,
)
from simulation.runs.compiled_copy import Compiled, CopyChoice
from simulation.runs.pool import Pool, cores
from simulation.runs.sweep import SeedResult
from simulation.scenario.search import USUAL, check_search


@click.command("known-flaws", short_help="Search for every known flaw in simulation.")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=500, show_default=True, help="Seeds for each flaw at most."
)
@click.option("--flaw", "flaws", multiple=True, metavar="NAME", help="Only this flaw. Repeatable.")
@click.option("--search", default=USUAL, show_default=True, metavar="NAME", help="Which simulations the seeds are.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes (one per core).")
@click.option(
    "--compiled",
    type=click.Choice([Compiled.AUTO.value, Compiled.NEVER.value]),
    default=Compiled.AUTO.value,
    show_default=True,
    help="Whether long hunts run a copy compiled by mypyc, as of `harrow sim`.",
)
@click.option("--time-limit", type=TimeLimit(), metavar="TIME", help="Begin no seed after this time.")
@click.option(
    "--shrink", "shrink_s", type=TimeLimit(), default=20.0, metavar="TIME", help="Time to shrink each (20 s)."
)
@click.option("--check/--no-check", default=True, help="Have Spark check the failing histories (on).")
@click.option(
    "--notes",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Save the findings here, and continue from those that are here already.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the page here.")
def known_flaws(
    seeds: int,
    flaws: tuple[str, ...],
    search: str,
    jobs: int | None,
    time_limit: float | None,
    shrink_s: float,
    check: bool,
    notes: Path | None,
    out: Path | None,
    compiled: str,
) -> None:
    """Put each known flaw into the broker: which layer finds it, after how many seeds, and how small its failure gets.

    The correct build runs the same seeds, and must pass. Hunts go in rounds of 20, 100, 300, 1,500 seeds, so that a
    time limit cuts off only the flaws that are hardest to find.

    \b
    harrow known-flaws --seeds 200 --no-check             a first overview
    harrow known-flaws --flaw unclean-election --flaw late-cut
    harrow known-flaws --search mixed                     … with more faults, closer together, as of `harrow sim`
    harrow known-flaws --seeds 5000 --out docs/reference/flaws-by-seed.md   the documentation's page; takes hours
    harrow known-flaws --seeds 5000 --notes hunts.json    … and continues where it was interrupted

    Exit status: 0 every flaw was found, but for those that a rule masks, and the correct build passed, 1 otherwise,
    2 usage, 3 interrupted.
    """  # noqa: D301 (\b is for click)
    try:
        check_search(search)
        wanted = [None, *chosen(flaws)]
        fresh = [Hunt(flaw, 0, 0.0, search=search) for flaw in wanted]
        begun = fresh if notes is None else load_hunts(notes, wanted, search)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    console = Console(stderr=True, highlight=False)
    deadline_s = None if time_limit is None else time.monotonic() + time_limit
    stop = Stop()

    def stopped() -> bool:
        return stop.requested or (deadline_s is not None and time.monotonic() >= deadline_s)

    with on_signals(stop):
        with (
            CopyChoice(Compiled(compiled), seeds * len(wanted), deadline_s) as copy,
            Pool[HuntTask, SeedResult](work, jobs or cores(), imports=copy.imports) as pool,
        ):
            correct, *hunts = _hunted(pool, begun, seeds, stopped, notes, console, copy)
        hunts = all_played(hunts, jobs or cores())
        for index, hunted in enumerate(hunts if shrink_s else ()):
            smaller = _shrunk(hunted, jobs or cores(), shrink_s, lambda: stop.requested)
            if stop.requested:
                break
            hunts[index] = smaller
            if notes is not None and smaller != hunted:
                save_hunts(notes, hunts)
    if check and not stop.requested:
        hunts = _checked(hunts, console)
        if notes is not None:
            save_hunts(notes, hunts)
    control = page.Control(correct.seeds, len(correct.failing))
    _print(hunts, control)
    if out is not None:
        out.write_text(page.page(hunts, control, _command(), HISTORIES_PER_FLAW), encoding="utf-8")
    sys.exit(_status(hunts, control, complete=all(one.seeds >= seeds or one.is_over for one in hunts)))


def _hunted(
    pool: Pool[HuntTask, SeedResult],
    begun: Sequence[Hunt],
    seeds: int,
    stopped: Callable[[], bool],
    notes: Path | None,
    console: Console,
    copy: CopyChoice,
) -> list[Hunt]:
    """Run the rounds; the correct build runs as many seeds as any flaw does."""
    hunts = list(begun)
    for limit in limits(seeds):
        for index, hunted in reversed(list(enumerate(hunts))):
            reached = limit if hunted.flaw is not None else max((one.seeds for one in hunts[1:]), default=0)
            if stopped() or hunted.seeds >= reached or (hunted.flaw is not None and hunted.is_over):
                continue
            hunts[index] = hunt(pool, hunted, reached, stopped, copy)
            console.print(Text(_line(hunts[index])), soft_wrap=True)
            if notes is not None:
                save_hunts(notes, hunts)
    return hunts


def _shrunk(hunted: Hunt, jobs: int, limit_s: float, stopped: Callable[[], bool]) -> Hunt:
    end_s = time.monotonic() + limit_s
    return shrunk(hunted, jobs, lambda: stopped() or time.monotonic() >= end_s)


def _checked(hunts: Sequence[Hunt], console: Console) -> list[Hunt]:
    from harness.run.judging import need_java
    from harness.run.stopping import RunFailed
    from simulation.runs.checked_histories import check_histories, write_dataset

    named = list(histories(hunts))
    if not named:
        return list(hunts)
    console.print(f"Spark checks {len(named)} histories", style="bold")
    with tempfile.TemporaryDirectory(prefix="harrow-zoo-") as scratch:
        write_dataset(Path(scratch), named)
        try:
            need_java()
            judgements = check_histories(Path(scratch))
        except RunFailed as failed:
            console.print(f"not checked: {failed}", style="yellow")
            return list(hunts)
    return judged(hunts, {run_id: judgement.anomalies for run_id, judgement in judgements.items()})


def _line(hunted: Hunt) -> str:
    first = hunted.first
    result = f"seed {first.seed}: {first.finding}" if first else "not found" if hunted.flaw else "no failures"
    name = f"{hunted.flaw.number} {hunted.flaw.name}" if hunted.flaw is not None else "correct build"
    return f"{name}: {result} ({hunted.seeds:,} seeds, {hunted.seconds:.0f} s)"


def _print(hunts: Sequence[Hunt], control: page.Control) -> None:
    rows = [page.HEADINGS, *(page.row(hunted) for hunted in hunts)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    click.echo(page.summary(hunts, control))


def _status(hunts: Sequence[Hunt], control: page.Control, *, complete: bool) -> ExitStatus:
    if control.failed or not all(page.is_explained(one) for one in hunts):
        return ExitStatus.ANOMALIES
    return ExitStatus.VALID if complete else ExitStatus.UNKNOWN


def _command() -> str:
    return shlex.join(["harrow", *sys.argv[1:]])
