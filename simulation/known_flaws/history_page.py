"""Writes the history of the protocol as one HTML page to click through, which needs neither a network nor a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import jinja2

from broker.core.rules.flaws import FLAWS
from broker.core.rules.generations import GENERATIONS
from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS
from simulation.directed.files import schedule_name, schedules
from simulation.known_flaws.history import HISTORY, Cell, FlawHistory, Played, Seed, Story, check_cells, command_of

VERSIONS: Final = (*ZOOKEEPER_GENERATIONS, *GENERATIONS)
_TEMPLATE: Final = Path(__file__).with_name("history.html")
_STORIES: Final = "tests/simulation/zookeeper"


@dataclass
class ShownCell:
    """One flaw in one version. `kind` is `had`, `cured` or, where the flaw has not been seen, empty."""

    id: str
    version: str
    kind: str = ""
    label: str = ""
    says: str = ""
    command: str = ""
    before: ShownCell | None = None
    after: ShownCell | None = None


@dataclass(frozen=True)
class ShownFlaw:
    """A flaw that another row mentions, and where it begins."""

    number: str
    what: str
    id: str


def html() -> str:
    """The page."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    cells = {one.number: _cells(one) for one in HISTORY}
    first = {number: next(cell.id for cell in row if cell.kind) for number, row in cells.items()}
    shown = {one.number: ShownFlaw(one.number, one.what, first[one.number]) for one in HISTORY}
    rows = [
        {
            "number": one.number,
            "what": one.what,
            "cure": one.cure,
            "cells": cells[one.number],
            "first": first[one.number],
            "cause": [shown[number] for number in one.after],
            "left": [shown[other.number] for other in HISTORY if one.number in other.after],
        }
        for one in HISTORY
    ]
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(rows=rows, versions=VERSIONS)


def _cells(row: FlawHistory) -> Sequence[ShownCell]:
    made = [_shown(row, version) for version in VERSIONS]
    known = [cell for cell in made if cell.kind]
    for one, other in zip(known, known[1:], strict=False):
        one.after, other.before = other, one
    return made


def _shown(row: FlawHistory, version: str) -> ShownCell:
    made = ShownCell(f"{row.number}-{version}", version)
    cell: Cell = row.cells.get(version)
    match cell:
        case Seed(number):
            made.kind, made.label, made.command = "had", str(number), command_of(version, cell)
            made.says = f"The first finding of random seed {number}."
        case Story(file, name):
            made.kind, made.label = "had", "story"
            made.says = "A test stages it, step by step."
            made.command = f"python -m pytest {_STORIES}/{file}::{name}"
        case Played(name, _):
            made.kind, made.label = "had", "schedule"
            made.says = (
                f"The directed schedule {name} fails with {version} as it is, and not with the versions that have the "
                "rule. The command plays it with one of these, with and without the rule."
            )
            made.command = _play(name)
        case None if row.flaw and version in FLAWS[row.flaw].generations:
            made.kind, made.label, made.command = "cured", "kept", _play(row.flaw)
            made.says = (
                f"{version} keeps the rule. Without it (the flaw {row.flaw}) the same happens again, as a directed "
                f"schedule shows: {FLAWS[row.flaw].summary}."
            )
    return made


def _play(flaw: str) -> str:
    played: Mapping[str, list[Path]] = schedules()
    return f"harrow sim --schedule {schedule_name(played[flaw][0])}"


@click.command()
def main() -> None:
    """Check every cell of the table, and print the page."""
    check_cells()
    click.echo(html(), nl=False)


if __name__ == "__main__":
    main()
