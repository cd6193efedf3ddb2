"""`python -m harness.simulation.directed.table`: every flaw, and who finds it, as the table of `docs/flaws.md`.

The directed schedules are played anew each time. Random seeds take long: `--seeds N` searches N of them for each flaw;
without it the numbers that the table has are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from broker.core.rules.flaws import FLAWS, OUTSIDE, Flaw
from harness.simulation.directed.files import schedules
from harness.simulation.directed.runner import run
from harness.simulation.sweep import simulate

PAGE = Path("docs/flaws.md")
_BEGIN, _END = "<!-- table -->", "<!-- end of table -->"
_HEAD = ("number", "flaw", "generations", "breaks", "at random, after", "by its schedule", "clients see it", "zoo")


class Row(NamedTuple):
    """One flaw. `random` is told as it stands in the table."""

    flaw: Flaw
    random: str
    directed: str
    clients: str


def rows(random: Mapping[str, str]) -> list[Row]:
    """Play all schedules on the flawed build."""
    files = schedules()
    found = []
    for flaw in FLAWS.values():
        results = [run(path, flawed=True) for path in files.get(flaw.name, ())]
        first = [result.findings[0] for result in results if result.findings]
        directed = ", ".join(dict.fromkeys(f"{finding.layer.value} {finding.property_id}" for finding in first))
        seen = any(result.clients_know for result in results)
        found.append(Row(flaw, random.get(flaw.name, "–"), directed or "masked", "yes" if seen else "no"))  # noqa: RUF001
    return found


def search(flaw: Flaw, seeds: int) -> str:
    """Look for a flaw at random: what the table says of it. Seeds that trouble the correct build too do not count."""
    generation = flaw.generations[-1]
    for seed in range(seeds):
        result = simulate(seed, {"generation": generation, "flaws": (flaw.name,)}, observed=True)
        if result.findings and not simulate(seed, {"generation": generation}, observed=True).findings:
            return f"{seed + 1}: {result.findings[0].property_id}"
    return f"not in {seeds}"


def kept(page: str) -> dict[str, str]:
    """What a page says of random seeds, by flaw."""
    found = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(_HEAD):
            found[cells[1].strip("`")] = cells[4]
    return found


def render(table: Sequence[Row]) -> str:
    """The table in Markdown, and what is not in it."""
    lines = [f"| {' | '.join(_HEAD)} |", f"|{'---|' * len(_HEAD)}"]
    for row in table:
        flaw = row.flaw
        first, last = flaw.generations[0], flaw.generations[-1]
        cells = (
            flaw.number,
            f"`{flaw.name}`",
            first if first == last else f"{first} … {last}",
            ", ".join(flaw.properties),
            row.random,
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
    """The page with another table."""
    return re.sub(f"{_BEGIN}.*{_END}", lambda _: f"{_BEGIN}\n\n{table}\n\n{_END}", page, flags=re.DOTALL)


@click.command()
@click.option("--seeds", default=0, help="Search so many seeds for each flaw.")
@click.option("--page", default=PAGE, type=click.Path(exists=True, dir_okay=False, path_type=Path), show_default=True)
def main(seeds: int, page: Path) -> None:
    """Write the table of flaws."""
    text = page.read_text()
    random = {name: search(flaw, seeds) for name, flaw in FLAWS.items()} if seeds else kept(text)
    page.write_text(with_table(text, render(rows(random))))


if __name__ == "__main__":
    main()
