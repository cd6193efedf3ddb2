"""Renders a suite's page: the verdict, the canary, the matrix with links to the reports, and what went wrong."""

from __future__ import annotations

import functools

import jinja2

from reports import templating
from reports.suite.loaded import GRAVEST, STATES, LoadedSuite
from reports.suite.matrix import tables
from reports.text import wording


def page(suite: LoadedSuite) -> str:
    """Return the page; it is self-contained, except for the reports that it links to."""
    troubles = [cell for cell in suite.cells if cell.state not in ("valid", "waiting", "skipped")]
    skipped: dict[str, list[str]] = {}
    for cell in suite.cells:
        if cell.state == "skipped":
            skipped.setdefault("; ".join(cell.reasons), []).append(cell.title)
    return (
        _environment()
        .get_template("suite.html")
        .render(
            suite=suite,
            tables=tables(suite),
            states=STATES,
            troubles=sorted(troubles, key=lambda cell: GRAVEST.index(cell.state)),
            skipped=skipped,
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    environment = templating.environment()
    environment.filters["seconds"] = lambda seconds: wording.duration(round(seconds * 1e9))
    return environment
