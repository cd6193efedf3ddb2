"""`harrow diff`: shows what differs between two stored runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from harness.commands.shared import run_of, store_option
from harness.terminal.exits import ExitStatus


@click.command("diff", short_help="Show what differs between two stored runs.")
@click.argument("one", metavar="RUN")
@click.argument("other", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
@store_option
def diff(one: str, other: str, as_json: bool, store: Path) -> None:
    """Show two runs side by side: configuration, schedule, metrics, anomalies and incidents; only what differs.

    RUN is the directory of a run, its name in the store, or `latest`. Nothing is run or checked for it.

    \b
    harrow diff 20260105T020000Z-local-log-usual-seed-7 latest
    harrow diff store/latest other-store/latest --json

    Exit status: 0 nothing differs, 1 something does, 2 usage.
    """  # noqa: D301 (\b is for click)
    from reports.text.difference import compare

    comparison = compare(run_of(store, one), run_of(store, other))
    if as_json:
        click.echo(json.dumps(comparison.to_json(), indent=2))
    else:
        for line in comparison.lines():
            click.echo(line)
        for problem in comparison.problems:
            click.echo(f"incomplete: {problem}", err=True)
    sys.exit(ExitStatus.ANOMALIES if comparison.sections else ExitStatus.VALID)
