"""Writes a suite as a page, with the matrix of its runs and their course over the nights."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final, NamedTuple

import jinja2

from common import wording
from reports import templating
from reports.rules import with_rules
from reports.suite.cell import CHANGES, GRAVEST, STATES, SuiteCell
from reports.suite.loaded import LoadedSuite, night_text

MARKS: Final = {"valid": "✓", "invalid": "✗", "unknown": "?", "crashed": "!", "skipped": "-", "waiting": "·"}
"""A letter for each state."""

CHANGES_LISTED_MAX: Final = 6
"""Runs of one kind of change on the first screen; the others are below."""


class MatrixRow(NamedTuple):
    """One configuration; for each column its runs, by seed."""

    configuration: str
    cells: Sequence[Sequence[SuiteCell]]


class Matrix(NamedTuple):
    """One environment."""

    environment: str
    columns: Sequence[str]  # faults
    rows: Sequence[MatrixRow]


def tables(suite: LoadedSuite) -> Sequence[Matrix]:
    """Return the tables in the order in which the suite names its environments."""
    return [_table(environment, suite.cells) for environment in dict.fromkeys(cell.environment for cell in suite.cells)]


def _table(environment: str, cells: Sequence[SuiteCell]) -> Matrix:
    own = [cell for cell in cells if cell.environment == environment]
    columns = list(dict.fromkeys(cell.faults for cell in own))
    rows = []
    for configuration in dict.fromkeys(cell.configuration for cell in own):
        mine = [cell for cell in own if cell.configuration == configuration]
        rows.append(MatrixRow(configuration, [[cell for cell in mine if cell.faults == faults] for faults in columns]))
    return Matrix(environment, columns, rows)


def page(suite: LoadedSuite) -> str:
    """Return the page; it is self-contained, except for the reports that it links to."""
    troubles = [cell for cell in suite.cells if cell.state not in ("valid", "waiting", "skipped")]
    skipped: dict[str, list[str]] = {}
    for cell in suite.cells:
        if cell.state == "skipped":
            skipped.setdefault("; ".join(cell.reasons), []).append(cell.title)
    template = _environment().get_template("suite/page.html")
    shown = template.render(
        suite=suite,
        since=night_text(suite.earlier.night) if suite.earlier.night else "",
        meanings=CHANGES,
        listed_max=CHANGES_LISTED_MAX,
        tables=tables(suite),
        states=STATES,
        marks=MARKS,
        trend=[suite.summary, *reversed(suite.earlier.nights)],
        troubles=sorted(troubles, key=lambda cell: GRAVEST.index(cell.state)),
        skipped=skipped,
    )
    return with_rules(shown)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = templating.environment()
    environment.filters["night"] = night_text
    environment.filters["seconds"] = lambda seconds: wording.duration(round(seconds * 1e9))
    return environment
