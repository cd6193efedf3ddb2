"""Writes the pages of the store browser. They have no script; everything that a run's files say is escaped."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

import jinja2

from common.wording import count, printable
from reports import templating
from reports.browser.charts import HEIGHT, WIDTH, charts
from reports.browser.entries import VERDICTS, RunEntry
from reports.browser.selection import Selection
from reports.suite.loaded import LoadedSuite, night_text
from reports.text.difference import Comparison

ROWS_MAX: Final = 100
"""Runs on one page of the list."""


class SuiteNights(NamedTuple):
    """A suite and its nights, newest first."""

    name: str
    nights: Sequence[LoadedSuite]
    damaged: Sequence[str]
    """Directories that cannot be read."""


class StoredFile(NamedTuple):
    """A file of a run that can be opened."""

    path: str
    size_bytes: int


def list_page(entries: Sequence[RunEntry], selection: Selection, page: int, *, running: bool = False) -> str:
    """The list of runs, newest first; `page` counts from 1. `running`: whether something is under way."""
    chosen = selection.of(entries)
    pages = max(1, -(-len(chosen) // ROWS_MAX))
    page = min(max(page, 1), pages)
    counted = {verdict: sum(entry.verdict == verdict for entry in chosen) for verdict in VERDICTS}
    return render(
        "list.html",
        entries=chosen[(page - 1) * ROWS_MAX : page * ROWS_MAX],
        found=len(chosen),
        total=len(entries),
        counted={verdict: number for verdict, number in counted.items() if number},
        selection=selection,
        environments=sorted({entry.environment for entry in entries if entry.environment}),
        verdicts=VERDICTS,
        page=page,
        pages=pages,
        running=running,
    )


def run_page(
    run: RunEntry,
    results: Mapping[str, object],
    files: Sequence[StoredFile],
    nearest: RunEntry | None,
    others: Sequence[RunEntry],
) -> str:
    """One run: verdict, incidents, figures, settings, files, and with which runs to compare it."""
    incidents = results.get("incidents")
    headlines = [
        str(incident.get("headline", ""))
        for incident in (incidents if isinstance(incidents, list) else ())
        if isinstance(incident, dict)
    ]
    return render("run.html", run=run, headlines=headlines, files=files, nearest=nearest, others=others)


def compare_page(one: str, other: str, comparison: Comparison) -> str:
    """What differs between two runs."""
    return render("compare.html", one=one, other=other, comparison=comparison)


def suites_page(suites: Sequence[SuiteNights]) -> str:
    """All suites with their nights."""
    return render("suites.html", suites=suites)


def trends_page(entries: Sequence[RunEntry], selection: Selection) -> str:
    """The figures of the chosen runs over time."""
    chosen = selection.of(entries)
    return render(
        "trends.html",
        charts=charts(chosen),
        found=len(chosen),
        selection=selection,
        environments=sorted({entry.environment for entry in entries if entry.environment}),
        verdicts=VERDICTS,
        width=WIDTH,
        height=HEIGHT,
    )


def error_page(status: int, line: str) -> str:
    """A page that says what is wrong with a request."""
    return render("error.html", status=status, line=line)


def render(template: str, **values: object) -> str:
    """A page from one of the browser's templates."""
    return _environment().get_template(f"browser/{template}").render(**values)


@functools.cache
def _environment() -> jinja2.Environment:
    made = templating.environment()
    made.filters.update(
        path=lambda text: quote(str(text), safe="/"),
        night=night_text,
        figure=_figure,
        shown=_shown,
    )
    made.globals.update(link=_link)
    return made


def _link(path: str, **parameters: object) -> str:
    given = {name: str(value) for name, value in parameters.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def _figure(value: float) -> str:
    return count(round(value)) if value >= 100 else f"{value:.3g}"


def _shown(value: object) -> str:
    """A setting as text, without what would hide or turn other text."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else "-" if value is None else str(value)
    return printable(text)
