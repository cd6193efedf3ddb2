"""Writes a suite as a summary in Markdown: what is new, fixed, flaky and known, the matrix, everything not valid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from reports.suite.cell import GRAVEST, SuiteCell
from reports.suite.documents import MARKS, tables
from reports.suite.links import linked
from reports.suite.loaded import LoadedSuite, night_text

_ACTIVE: Final = re.compile(r"([\\`*_\[\]<>|#&!])")
"""What Markdown, or HTML within it, would act on."""


def markdown(suite: LoadedSuite) -> str:
    """Return the summary. Its links are absolute if the suite has a base."""
    build = f"Build {_text(suite.build)}, s" if suite.build else "S"
    lines = [f"# {_text(suite.name)}: {suite.verdict}", "", suite.sentence.capitalize(), ""]
    lines += [f"{build}tarted {suite.started}. Canary: {_canary_text(suite)}", ""]
    lines += [*_changes(suite), ""]
    for table in tables(suite):
        lines += [f"## {table.environment}", "", f"| | {' | '.join(_text(faults) for faults in table.columns)} |"]
        lines.append(f"|---|{'---|' * len(table.columns)}")
        for row in table.rows:
            marks = ["".join(_mark(cell, suite) for cell in cells) for cells in row.cells]
            lines.append(f"| {_text(row.configuration)} | {' | '.join(marks)} |")
        lines.append("")
    listed = sorted(
        (cell for cell in suite.cells if cell.state not in ("valid", "waiting")),
        key=lambda cell: GRAVEST.index(cell.state),
    )
    lines += [f"- **{cell.state}** {_line(cell, suite)}" for cell in listed]
    legend = ", ".join(f"{mark} {state}" for state, mark in MARKS.items())
    return "\n".join([*lines, "", f"({legend})", ""])


def _changes(suite: LoadedSuite) -> Iterator[str]:
    earlier = suite.earlier
    build = f" (build {_text(earlier.build)})" if earlier.build else ""
    yield f"## Since {night_text(earlier.night)}{build}" if earlier.night else "## First night"
    yield ""
    yield ", ".join(f"**{len(cells)} {change}**" for change, cells in suite.changes.items())
    yield ""
    for change, cells in suite.changes.items():
        yield from (f"- **{change}** {_line(cell, suite)}" for cell in cells)
    yield from (f"- **not run** {_text(title)}: it failed in that night" for title in suite.lost)
    yield from (f"- **did not show** the known failure {_text(str(entry))}" for entry in suite.idle)


def _line(cell: SuiteCell, suite: LoadedSuite) -> str:
    kind = "report" if cell.page else "log"
    where = f" ([{kind}]({linked(cell.link, suite.base)}))" if cell.link else ""
    why = "; ".join((*cell.notes, *cell.reasons))
    return f"{_text(cell.title)}{where}{f': {_text(why)}' if why else ''}"


def _canary_text(suite: LoadedSuite) -> str:
    if suite.canary_found is None:
        return "not run yet"
    return "found" if suite.canary_found else "**not found**"


def _mark(cell: SuiteCell, suite: LoadedSuite) -> str:
    mark = MARKS[cell.state]
    return f"[{mark}]({linked(cell.link, suite.base)})" if cell.link else mark


def _text(text: str) -> str:
    return " ".join(_ACTIVE.sub(r"\\\1", text).split())
