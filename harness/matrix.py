"""Which environment can inject which fault, and by what: `harrow doctor --faults`."""

from __future__ import annotations

from harness.environments.local import offers
from nemesis.faults import KINDS
from nemesis.faults.base import Kind

ENVIRONMENTS = ("local",)
"""Columns of the matrix."""

ALWAYS = "always"


def cell(kind: Kind) -> str:
    """By which mechanisms the environment `local` injects a kind: alternatives with commas, both needed with "and"."""
    choices = offers.ways(kind.needs)
    if any(not choice for choice in choices):
        return "-"
    return " and ".join(", ".join(choice) for choice in choices) or ALWAYS


def markdown() -> str:
    """The matrix as it stands in the documentation; it does not depend on the machine."""
    lines = [f"| fault | {' | '.join(ENVIRONMENTS)} |", "|---|" + "---|" * len(ENVIRONMENTS)]
    lines += [f"| `{kind.name}` | {cell(kind)} |" for kind in KINDS.values()]
    return "\n".join(lines)


def here() -> str:
    """The matrix with what this machine can do: each mechanism is tried, and what is missing has its reason."""
    rows = [(kind.name, cell(kind), offers.lacking(kind.needs)) for kind in KINDS.values()]
    widths = [max(len(row[column] or "") for row in rows) for column in (0, 1)]
    return "\n".join(
        f"{'no ' if lack else 'yes'}  {name:<{widths[0]}}  {way:<{widths[1]}}  {lack or ''}".rstrip()
        for name, way, lack in rows
    )
