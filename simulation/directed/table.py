"""Writes the table of `docs/reference/flaws.md`: every flaw, and which layers find it in its directed schedule.

Run with `python -m simulation.directed.table`; it plays all schedules.
`docs/reference/flaws-by-seed.md` has what random seeds find.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from broker.core.rules.flaws import FLAWS, OUTSIDE, Flaw
from simulation.directed.files import schedules
from simulation.directed.runner import play_schedule

PAGE = Path("docs/reference/flaws.md")
_BEGIN, _END = "<!-- table -->", "<!-- end of table -->"
_HEAD = ("number", "flaw", "protocol versions", "breaks", "by its schedule", "clients see it", "catalogue")


class FlawRow(NamedTuple):
    """One flaw."""

    flaw: Flaw
    directed: str
    clients: str


def rows() -> list[FlawRow]:
    """Play all schedules on the flawed builds."""
    files = schedules()
    found = []
    for flaw in FLAWS.values():
        results = [play_schedule(path, flawed=True) for path in files.get(flaw.name, ())]
        first = [result.findings[0] for result in results if result.findings]
        directed = ", ".join(dict.fromkeys(f"{finding.layer.value} {finding.property_id}" for finding in first))
        seen = any(result.clients_know for result in results)
        found.append(FlawRow(flaw, directed or "masked", "yes" if seen else "no"))
    return found


def render(table: Sequence[FlawRow]) -> str:
    """The table in Markdown, and the list of flaws that are not in it."""
    lines = [f"| {' | '.join(_HEAD)} |", f"|{'---|' * len(_HEAD)}"]
    for row in table:
        flaw = row.flaw
        first, last = flaw.generations[0], flaw.generations[-1]
        cells = (
            flaw.number,
            f"`{flaw.name}`",
            first if first == last else f"{first} … {last}",
            ", ".join(flaw.properties),
            row.directed,
            row.clients,
            flaw.visible.value,
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "Not among them:", ""]
    reasons: dict[str, list[str]] = {}
    for number, reason in OUTSIDE.items():
        reasons.setdefault(reason, []).append(number)
    lines += [f"- {', '.join(numbers)}: {reason}." for reason, numbers in reasons.items()]
    return "\n".join(lines)


def with_table(page: str, table: str) -> str:
    """The page with its table replaced."""
    return re.sub(f"{_BEGIN}.*{_END}", lambda _: f"{_BEGIN}\n\n{table}\n\n{_END}", page, flags=re.DOTALL)


@click.command()
@click.option("--page", default=PAGE, type=click.Path(exists=True, dir_okay=False, path_type=Path), show_default=True)
def main(page: Path) -> None:
    """Write the table of flaws."""
    page.write_text(with_table(page.read_text(), render(rows())))


if __name__ == "__main__":
    main()
