"""`harrow check` and `harrow report`: judge and tell what a stored run has seen."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.exits import worst

_RUN = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("check")
@click.argument("runs", metavar="DIR...", nargs=-1, required=True, type=_RUN)
def check(runs: tuple[Path, ...]) -> None:
    """Judge stored runs again, all in one Spark job.

    \b
    DIR is the directory of a run, or `store/latest`:
      harrow check store/latest
      harrow check store/log/*
    """  # noqa: D301 (\b is for click)
    from harness import consoles
    from harness.judging import judge
    from reports.terminal import summary_lines

    for directory in runs:
        _need_history(directory)
    verdicts = judge(runs)
    console = consoles.results()
    for directory in runs:
        console.print(summary_lines(directory), soft_wrap=True)
    sys.exit(worst(verdicts))


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
