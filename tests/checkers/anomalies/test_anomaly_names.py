"""The catalogue of anomalies agrees with docs, checkers, explanations, and histories that plant anomalies."""

from __future__ import annotations

import re
from pathlib import Path

import checkers
from checkers.anomalies import ANOMALIES, GROUP_ANOMALIES, availability, objects
from checkers.anomalies.bookkeeping import RESOLVED
from checkers.explanations.sentences import EXPLANATIONS
from history.anomalies import CATALOGUE, MALFORMED, NODE_LOST, OF_THE_SYSTEM
from tests.checkers.anomalies import cases, group_cases
from tests.checkers.oracle.oracle import ORACLE

PAGE = Path(checkers.__file__).parents[1] / "docs" / "reference" / "checkers.md"


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
    assert violated == set(OF_THE_SYSTEM)


def test_every_documented_anomaly_is_explained() -> None:
    assert set(EXPLANATIONS) - {RESOLVED} == documented()


def test_every_documented_anomaly_is_in_the_catalogue() -> None:
    assert set(CATALOGUE) == documented()


def test_every_anomaly_function_has_its_row_in_the_catalogue() -> None:
    of_functions = {
        "unavailable" if function.__module__ == availability.__name__ else function.__name__.replace("_", "-")
        for function in (*ANOMALIES, *GROUP_ANOMALIES)
    }
    assert of_functions | {objects.NAME, NODE_LOST, MALFORMED} == set(CATALOGUE)


def test_every_anomaly_function_is_written_again_as_plain_loops() -> None:
    functions = {one.__name__.replace("_", "-") for one in ANOMALIES if one.__module__ != availability.__name__}
    assert functions <= set(ORACLE), "write it in tests/checkers/oracle/oracle.py"


def test_all_anomalies_but_those_of_the_history_break_a_promise() -> None:
    assert set(CATALOGUE) - set(OF_THE_SYSTEM) == {MALFORMED, "unseen"}
    assert all(anomaly.promise.endswith(".") for anomaly in CATALOGUE.values())
