"""`harrow check` and `harrow report`: judge and tell what a stored run has seen."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.exits import worst
from harness.store import DEFAULT

if TYPE_CHECKING:
    from checkers.foreign.verdicts import FileVerdict

_RUN = click.Path(exists=True, file_okay=False, path_type=Path)
BROUGHT = DEFAULT / "elsewhere"
"""Where results of runs go that are on another machine."""


_HERE = click.Path(exists=True, path_type=Path)


def _places(ctx: click.Context, param: click.Parameter, places: tuple[str, ...]) -> tuple[Path | str, ...]:
    """Paths, each of which exists, and URIs for Spark, which stay text."""
    from checkers.elsewhere import is_elsewhere

    return tuple(place if is_elsewhere(place) else _HERE.convert(place, param, ctx) for place in places)


@click.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, callback=_places)
@click.option("--model", metavar="NAME", help="The sequential object that a history is held against.")
@click.option("--initial", metavar="JSON", help="What that object holds at first.")
@click.option("--profile", metavar="NAME", help="Anomalies by the rules of another checker: jepsen-kafka.")
@click.option("--format", "form", metavar="NAME", help="The format of the files; told from their content by default.")
@click.option("--master", metavar="URL", help="The Spark master; all cores of this machine by default.")
@click.option("--no-repair", is_flag=True, help="Leave unknown what became of sends whose records were read.")
@click.option(
    "--pictures",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Draw each history that no order explains there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line and file.")
def check(
    files: tuple[Path | str, ...],
    model: str | None,
    initial: str | None,
    profile: str | None,
    form: str | None,
    master: str | None,
    no_repair: bool,
    pictures: Path | None,
    as_json: bool,
) -> None:
    """Judge stored runs, and histories that other tools wrote, in one call.

    \b
    FILE is the directory of a run, or a history: EDN or text log of Jepsen, key-value file of Porcupine, JSON lines.
    A run may be on any file system that Spark reads; its results then go to store/elsewhere.
      harrow check store/latest
      harrow check store/log/*
      harrow check hdfs://names/harrow/store/log/20260105T020000Z-7
      harrow check --profile jepsen-kafka --json history.edn
      harrow check --model cas-register --pictures violations *.edn
    """  # noqa: D301 (\b is for click)
    from checkers.foreign.check import UnknownNameError, Wanted, check_files
    from harness import consoles
    from harness.judging import results_of
    from reports.terminal import summary_lines

    try:
        wanted = Wanted(model, profile, form, *_initial(initial)).validated()  # before anything is fetched
        paths = _here(files, master)
        verdicts = check_files(paths, wanted, lambda runs: results_of(runs, master=master, repair=not no_repair))
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from error
    console = consoles.results()
    for file, path, found in zip(files, paths, verdicts, strict=True):
        if as_json:
            click.echo(json.dumps(replace(found, file=str(file)).to_json()))
        elif path.is_dir() and profile is None:
            console.print(summary_lines(path), soft_wrap=True)
        else:
            console.print(f"{found.verdict:8} {found.file}  {found.reason}", soft_wrap=True, markup=False)
    if pictures is not None:
        _draw(verdicts, pictures)
    sys.exit(worst([found.verdict for found in verdicts]))


def _here(files: Sequence[Path | str], master: str | None) -> list[Path]:
    """The paths under which files can be judged here: of a run on another machine, the directory that stands for it."""
    from checkers.elsewhere import ElsewhereError, bring
    from checkers.spark import start_session

    for path in files:
        if isinstance(path, Path) and path.is_dir():
            _need_history(path)
    try:
        return [file if isinstance(file, Path) else bring(start_session(master), file, BROUGHT) for file in files]
    except ElsewhereError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{BROUGHT} cannot be written to: {error.strerror}") from error


def _draw(verdicts: Sequence[FileVerdict], directory: Path) -> None:
    """Write a picture of each history that is not known to be linearizable, and tell where on standard error."""
    from reports.linearizability import render_picture

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
        raise click.UsageError(f"--initial: expected a value of JSON, found {text}") from error


@click.command("report")
@click.argument("run", metavar="DIR", type=_RUN)
def report(run: Path) -> None:
    """Write report.html of a stored run again, and print where it is."""
    from reports import render

    _need_history(run)
    click.echo(render(run))


def _need_history(directory: Path) -> None:
    if not (directory / "history").is_dir():
        raise click.UsageError(f"{directory}: expected the directory of a run, found no history in it")
