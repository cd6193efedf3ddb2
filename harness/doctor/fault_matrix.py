"""Prints which environment can inject which fault, and by which mechanism: `harrow doctor --faults`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from harness.environments.base import Capabilities
from harness.environments.possible_faults import CAPABILITIES
from nemesis.faults import KINDS
from nemesis.faults.base import FaultKind

ALWAYS = "always"
NEVER = "-"


def cell(kind: FaultKind, offers: Capabilities) -> str:
    """The mechanisms by which an environment injects a kind: alternatives with commas, joint ones with "and"."""
    choices = offers.mechanisms_for(kind.needs)
    if any(not choice for choice in choices):
        return NEVER
    return " and ".join(", ".join(choice) for choice in choices) or ALWAYS


def markdown() -> str:
    """The matrix for the documentation; it does not depend on the machine."""
    lines = [f"| fault | {' | '.join(CAPABILITIES)} |", "|---|" + "---|" * len(CAPABILITIES)]
    for kind in KINDS.values():
        cells = (cell(kind, offers) for offers in CAPABILITIES.values())
        lines.append(f"| `{kind.name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def here() -> str:
    """The matrix for this machine: mechanisms are probed, and the reasons for missing ones are listed below."""
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    rows = [("", *CAPABILITIES)]
    for kind in KINDS.values():
        cells = []
        for name, offers in CAPABILITIES.items():
            reason = offers.lacking(kind.needs)
            cells.append(f"no   {NEVER}" if reason else f"yes  {cell(kind, offers)}")
            if reason:
                reasons[name, reason].append(kind.name)
        rows.append((kind.name, *cells))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*table, *_explain(reasons)])


def _explain(reasons: Mapping[tuple[str, str], list[str]]) -> list[str]:
    return [
        f"no {'fault' if len(kinds) == len(KINDS) else ', '.join(kinds)} in {environment}: {reason}"
        for (environment, reason), kinds in reasons.items()
    ]
