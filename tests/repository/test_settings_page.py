"""docs/reference/settings.md has every setting as the code has it."""

from __future__ import annotations

from pathlib import Path

from docs import settings

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_code_says():
    written = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    expected = settings.page()
    assert written.splitlines() == expected.splitlines(), "run `python -m docs.settings > docs/reference/settings.md`"


def test_a_broken_row_would_be_seen():
    rows = [line for line in settings.page().splitlines() if line.startswith("| `")]
    assert all(line.replace("\\|", "").count("|") == 6 for line in rows)
    assert len(rows) == len(settings.TOPIC_SETTINGS) + len(settings.BROKER_SETTINGS)
