"""Prints the table of capabilities, causes and remedies: `harrow doctor --remedies`."""

from __future__ import annotations

from collections.abc import Iterator

from harness.doctor.remedies.rows import RemedyRow
from harness.doctor.remedies.table import ALSO, TABLE
from harness.doctor.titles import TITLES


def markdown() -> str:
    """The table for the documentation; it does not depend on the machine."""
    lines = ["| capability | cause | remedy |", "|---|---|---|"]
    for capability, rows in TABLE.items():
        title = f"`{capability}`: {TITLES[capability]}"
        lines += [f"| {title} | {_cell(row.words)} | {_remedy(row)} |" for row in rows]
        lines += [f"| {title} | what `{other}` lacks | see there |" for other in ALSO.get(capability, ())]
    return "\n".join(lines)


def plain() -> str:
    """The table for a terminal: each capability, below it its causes, below each cause its remedy."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for capability, rows in TABLE.items():
        yield f"{capability}: {TITLES[capability]}"
        for row in rows:
            yield f"  {row.words} ({row.name})"
            yield f"    {row.choose(row.example, row.here).text}"
        for other in ALSO.get(capability, ()):
            yield f"  what {other} lacks"


def _remedy(row: RemedyRow) -> str:
    remedy = row.choose(row.example, row.here)
    return f"`{_cell(remedy.text)}`" if remedy.command else _cell(remedy.text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
