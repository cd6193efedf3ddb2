"""`harrow replay`: repeats a stored run and compares."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from harness.commands.parts.stores import store_option
from harness.store.store import find_run
from harness.terminal.exits import Exit


@click.command("replay", short_help="Run a stored run again.")
@click.argument("what", metavar="[RUN]", required=False)
@store_option
def replay(what: str | None, store: Path) -> None:
    """Run a stored run again: RUN is its directory, or its name in the store; without it the newest of the store.

    A simulated run is repeated event by event; the first event that differs is printed. A real run can't be repeated
    exactly: the command is printed that fires its faults again at the same times.

    Exit status: 0 the replay was identical, 1 something differed, 2 usage.
    """
    from simulation.runs import choice_files

    run = find_run(store, what)
    if choice_files.file_in(run).is_file():
        sys.exit(_simulated(run))
    sys.exit(_real(run))


def _simulated(run: Path) -> Exit:
    from simulation.runs.choice_files import ChoiceFileError
    from simulation.runs.stored import replay_run

    try:
        replayed = replay_run(run)
    except ChoiceFileError as error:
        raise click.UsageError(str(error)) from error
    for finding in replayed.findings:
        click.echo(f"{finding.layer}: {finding}")
    if replayed.equal:
        click.echo(f"equal: every event was repeated, hash {replayed.digest}")
        return Exit.VALID
    click.echo(f"different: hash {replayed.digest}, stored {replayed.stored_digest}")
    if replayed.difference is not None:
        click.echo(f"first difference, stored and now: {replayed.difference}")
    return Exit.ANOMALIES


def _real(run: Path) -> Exit:
    specification, schedule = run / "spec.json", run / "schedule.json"
    for path in (specification, schedule):
        if not path.is_file():
            raise click.UsageError(f"{run}: expected the directory of a run, found no {path.name} in it")
    click.echo("a real run; its schedule is repeated, its timing can't be:")
    again = ["harrow", "run", str(specification.absolute()), "--schedule", str(schedule.absolute())]
    click.echo(f"  {shlex.join(again)}")
    return Exit.VALID
