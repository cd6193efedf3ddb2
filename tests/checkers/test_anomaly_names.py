"""The anomalies that the documentation lists, that histories plant, that are explained, and that reports promise."""

from __future__ import annotations

import re
from pathlib import Path

import checkers
from checkers.explanations.anomalies import EXPLANATIONS
from reports.text.contract import BREACHES, PROMISES
from tests.checkers import cases, group_cases

PAGE = Path(checkers.__file__).parents[1] / "docs" / "checkers.md"
OF_THE_HISTORY = {"malformed-history", "unseen"}
"""They are about the history and not about the system, so no promise was broken."""


def documented() -> set[str]:
    section = PAGE.read_text().split("## What is found", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))


def planted() -> set[str]:
    return {name for case in (*cases.CASES, *group_cases.CASES) for name in case.expected}


def test_every_documented_anomaly_is_planted_in_some_history_and_no_other() -> None:
    assert planted() == documented()


def test_every_anomaly_of_the_system_breaks_the_contract_in_some_history() -> None:
    violated = {
        name for case in (*cases.CASES, *group_cases.CASES) for name, (broken, _) in case.expected.items() if broken
    }
    assert violated == documented() - OF_THE_HISTORY


def test_every_documented_anomaly_is_explained() -> None:
    assert set(EXPLANATIONS) - {"repaired-outcome"} == documented()


def test_every_documented_anomaly_has_a_promise_in_reports() -> None:
    assert set(PROMISES) == documented()
    assert set(BREACHES) == documented() - OF_THE_HISTORY
