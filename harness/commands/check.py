"""The commands `harrow check`, `report` and `replay`: check stored histories, write reports, run stored runs again."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from harness.commands.shared import need_history, run_of, store_option
from harness.store.run_directories import find_run
from harness.terminal.exits import ExitStatus, worst

if TYPE_CHECKING:
    from checkers.foreign.check import FileVerdict

RESULTS_ELSEWHERE: Final = "elsewhere"
"""Directory in the store for the results of remote runs."""


@click.command("check")
@click.argument("places", metavar="[FILE...]", nargs=-1)
@click.option("--model", metavar="NAME", help="Sequential model to check the history against.")
@click.option("--initial", metavar="JSON", help="Initial value of the model.")
@click.option("--profile", metavar="NAME", help="Use the anomaly rules of another checker: jepsen-kafka.")
@click.option("--format", "form", metavar="NAME", help="Format of the files; recognised from their content by default.")
@click.option("--master", metavar="URL", help="Spark master; all cores of this machine by default.")
@click.option(
    "--no-repair", is_flag=True, help="Do not resolve sends of unknown outcome from the records that were read."
)
@click.option(
    "--pictures",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for a picture of each history that is not linearizable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per file, one per line.")
@store_option
def check(
    places: tuple[str, ...],
    model: str | None,
    initial: str | None,
    profile: str | None,
    form: str | None,
    master: str | None,
    no_repair: bool,
    pictures: Path | None,
    as_json: bool,
    store: Path,
) -> None:
    """Check stored runs, and histories that other tools wrote.

    \b
    FILE is the directory of a run, its name in the store, or a history: EDN or text log of Jepsen, key-value file of
    Porcupine, JSON lines. Without FILE the newest run of the store is checked.
    A run may be on any file system that Spark reads; its results then go into the store, below elsewhere/, as do
    those of a run that is read-only. A page that the run has is written again.
      harrow check
      harrow check store/runs/*
      harrow check hdfs://names/harrow/store/runs/20260105T020000Z-local-log-usual-seed-7
      harrow check --profile jepsen-kafka --json history.edn
      harrow check --model cas-register --pictures violations *.edn
    """  # noqa: D301 (\b is for click)
    from checkers.foreign.check import UnknownNameError, Wanted, check_files
    from checkers.spark import archive_classes_later
    from harness.run.judging import results_of, write_report
    from harness.terminal.console import results_console
    from reports.text.terminal import summary_lines

    try:
        wanted = Wanted(model, profile, form, *_initial(initial)).validated()  # before anything is fetched
        files = _found(places, store)
        paths = _local_paths(files, master, store)
        verdicts = check_files(paths, wanted, lambda runs: results_of(runs, master=master, repair=not no_repair))
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from error
    console = results_console()
    for file, path, found in zip(files, paths, verdicts, strict=True):
        if as_json:
            click.echo(json.dumps(replace(found, file=str(file)).to_json()))
        elif path.is_dir() and profile is None:
            console.print(summary_lines(path), soft_wrap=True)
        else:
            console.print(f"{found.verdict:8} {found.file}  {found.reason}", soft_wrap=True, markup=False)
        if (path / "report.html").exists():
            write_report(path, partial(click.echo, err=True))
    if pictures is not None:
        _draw(verdicts, pictures)
    archive_classes_later()
    sys.exit(worst([found.verdict for found in verdicts]))


def _found(places: Sequence[str], store: Path) -> Sequence[Path | str]:
    """Existing files and directories as paths, and URIs for Spark as strings. Raises `StoreError`."""
    from checkers.input.remote import is_remote

    if not places:
        return [find_run(store)]
    return [
        place
        if is_remote(place)
        else Path(place)
        if Path(place).exists()
        else find_run(store, place, "a history or a run")
        for place in places
    ]


def _local_paths(files: Sequence[Path | str], master: str | None, store: Path) -> list[Path]:
    """Local paths of all files: for a run that is remote or read-only, a directory in the store for its results."""
    from checkers.input.read_only import is_read_only, linked
    from checkers.input.remote import RemoteRunError, bring
    from checkers.spark import start_session

    for path in files:
        if isinstance(path, Path) and path.is_dir():
            need_history(path)
    results = store / RESULTS_ELSEWHERE

    def local(file: Path | str) -> Path:
        if isinstance(file, str):
            return bring(start_session(master), file, results)
        if not (file / "history").is_dir() or not is_read_only(file):
            return file
        directory = linked(file, results)
        click.echo(f"{file} is read-only: its results go into {directory}", err=True)
        return directory

    try:
        return [local(file) for file in files]
    except RemoteRunError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{results} cannot be written to: {error.strerror}") from error


def _draw(verdicts: Sequence[FileVerdict], directory: Path) -> None:
    """Draw each history that is not known to be linearizable, and print the paths of the pictures on standard error."""
    from reports.pictures.linearizability import render_picture

    try:
        directory.mkdir(parents=True, exist_ok=True)
        for number, found in enumerate(verdicts):
            if found.decision is not None and found.decision["evidence"]:
                page = directory / f"{number:03}-{Path(found.file).stem}.html"
                click.echo(render_picture(found.decision, page, found.file), err=True)
    except OSError as error:
        raise click.UsageError(f"--pictures: {directory} cannot be written to: {error.strerror}") from error


def _initial(text: str | None) -> tuple[object, bool]:
    if text is None:
        return None, False
    try:
        return json.loads(text), True
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--initial: expected a JSON value, found {text}") from error


@click.command("report")
@click.argument("what", metavar="[RUN]", required=False)
@store_option
def report(what: str | None, store: Path) -> None:
    """Write the report.html of a stored run again, and print its path.

    RUN is its directory, or its name in the store; by default the newest run of the store.
    """
    from reports import render

    click.echo(render(run_of(store, what)))


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


def _simulated(run: Path) -> ExitStatus:
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
        return ExitStatus.VALID
    click.echo(f"different: hash {replayed.digest}, stored {replayed.stored_digest}")
    if replayed.difference is not None:
        click.echo(f"first difference, stored and now: {replayed.difference}")
    return ExitStatus.ANOMALIES


def _real(run: Path) -> ExitStatus:
    specification, schedule = run / "spec.json", run / "schedule.json"
    for path in (specification, schedule):
        if not path.is_file():
            raise click.UsageError(f"{run}: expected the directory of a run, found no {path.name} in it")
    click.echo("a real run; its schedule is repeated, its timing can't be:")
    again = ["harrow", "run", str(specification.absolute()), "--schedule", str(schedule.absolute())]
    click.echo(f"  {shlex.join(again)}")
    return ExitStatus.VALID
