"""Writes a suite's summary in Markdown, for a chat, a mail, or the page of a job."""

from __future__ import annotations

from reports.suite.loaded import GRAVEST, LoadedSuite, SuiteCell
from reports.suite.matrix import tables

_MARKS = {"valid": "✓", "invalid": "✗", "unknown": "?", "crashed": "!", "skipped": "-", "waiting": "·"}


def markdown(suite: LoadedSuite) -> str:
    """Return the summary: the verdict, the matrix, and a line for everything that is not valid."""
    lines = [f"# {suite.name}: {suite.verdict}", "", suite.sentence.capitalize(), ""]
    lines += [f"Canary: {_canary(suite)}", ""]
    for table in tables(suite):
        lines += [f"## {table.environment}", "", f"| | {' | '.join(_text(faults) for faults in table.columns)} |"]
        lines.append(f"|---|{'---|' * len(table.columns)}")
        for row in table.rows:
            marks = ["".join(_mark(cell) for cell in cells) for cells in row.cells]
            lines.append(f"| {_text(row.configuration)} | {' | '.join(marks)} |")
        lines.append("")
    listed = sorted(
        (cell for cell in suite.cells if cell.state not in ("valid", "waiting")),
        key=lambda cell: GRAVEST.index(cell.state),
    )
    for cell in listed:
        where = f" ([{'report' if cell.page else 'log'}]({cell.link}))" if cell.link else ""
        lines.append(f"- **{cell.state}** {_text(cell.title)}{where}: {_text('; '.join(cell.reasons))}")
    legend = ", ".join(f"{mark} {state}" for state, mark in _MARKS.items())
    return "\n".join([*lines, "", f"({legend})", ""])


def _canary(suite: LoadedSuite) -> str:
    if suite.canary_found is None:
        return "not run yet"
    return "found" if suite.canary_found else "**not found**"


def _mark(cell: SuiteCell) -> str:
    mark = _MARKS[cell.state]
    return f"[{mark}]({cell.link})" if cell.link else mark


def _text(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
