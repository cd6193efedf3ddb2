"""docs/internals/spec-tests.md names only tests and schedules that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "internals" / "spec-tests.md"
SCHEDULES = ROOT / "simulation" / "directed" / "schedules"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text())
    assert len(named) > 20
    for file, function in named:
        text = (ROOT / file).read_text()
        assert not function or f"def {function}(" in text, f"{file}::{function}"


def test_every_schedule_that_the_page_names_exists() -> None:
    named = re.findall(r"`([\w-]+\.toml)`", PAGE.read_text())
    assert named
    assert [name for name in named if not list(SCHEDULES.rglob(name))] == []


def test_every_row_of_the_page_names_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    assert [row for row in rows if "`tests/" not in row] == []
