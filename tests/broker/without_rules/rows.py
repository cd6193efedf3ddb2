"""Reads docs/internals/spec-tests.md: which test replays which table, for which rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from docs.protocol import ROOT, named_in

PAGE = ROOT / "docs" / "internals" / "spec-tests.md"


@dataclass(frozen=True)
class Row:
    """A row of the page."""

    title: str
    rules: tuple[str, ...]
    test: str
    """What the test's node id is or begins with."""


def rows(page: Path = PAGE) -> list[Row]:
    """The rows of the page's first table, in order."""
    found = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| "):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        test = re.search(r"`(tests/[\w/]+\.py(?:::\w+)?)`", cells[-1])
        if test:
            found.append(Row(cells[0], tuple(sorted(named_in(cells[-2]))), test[1]))
    return found
