"""Sentences that readers of reports stumbled over do not come back."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("broker", "simulation", "harness", "checkers", "nemesis", "workloads", "reports", "incidents", "history")
RETIRED = (
    "romises were broken",
    "promise was broken",
    "outside the contract",
    "does not promise that records",
    "logs hold after the run:",
    "from its start to its agreed end do not show it",
    "awaited one after the other",
    "Counted here are",
    "are counted and not listed",
    "How, and with what",
    "Last words of the nodes",
    "Last log lines of the nodes",
    "was seen to lead",
    "hears nothing of everyone",
    "after a unclean",
    "draws that are not zero",
    "fits nowhere",
    "the simulator did it",
)


@pytest.fixture(scope="module")
def texts() -> dict[Path, str]:
    found = {
        path.relative_to(ROOT): path.read_text(encoding="utf-8")
        for package in PRODUCT
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".html", ".js", ".toml")
    }
    assert len(found) > 400
    return found


@pytest.mark.parametrize("phrase", RETIRED)
def test_a_retired_sentence_is_nowhere(texts: dict[Path, str], phrase: str) -> None:
    assert not [path for path, text in texts.items() if phrase in text]
