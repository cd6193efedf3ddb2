"""Results of others' tests: what failed, what was to be expected, and the table that says so."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

OUTSIDE = Path(__file__).with_name("outside.toml")
LONGEST_REASON = 160


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Class(StrEnum):
    """How a result counts. The order is that of the table."""

    FAILED = "FAILED"
    OUTSIDE = "outside"
    UNEXPECTED_PASS = "passed, though outside"
    SKIPPED = "skipped"
    PASSED = "passed"


@dataclass(frozen=True)
class Outcome:
    """What a test of a suite came to. `reason` is the suite's own, in one line; empty if it passed."""

    test: str
    status: Status
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class Outside:
    """Tests that cannot pass, since Harrow leaves out what they test, or since they want another cluster."""

    tests: tuple[str, ...]  # patterns of the shell
    subject: str
    why: str


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    outcome: Outcome
    counts_as: Class
    reason: str


def outside_of(suite: str, brokers: int, file: Path = OUTSIDE) -> list[Outside]:
    """What is outside for a suite in a cluster of so many brokers. An unknown suite has nothing."""
    return [
        Outside(tuple(each["tests"]), each["subject"], each["why"])
        for each in tomllib.loads(file.read_text()).get(suite, [])
        if brokers > 1 or not each.get("several_brokers")
    ]


def classify(outcomes: Iterable[Outcome], outside: Iterable[Outside]) -> list[Row]:
    """The table's rows, in its order: failures first."""
    known = [(pattern, each) for each in outside for pattern in each.tests]
    rows = []
    for outcome in outcomes:
        left_out = next((each for pattern, each in known if fnmatchcase(outcome.test, pattern)), None)
        because = f"{left_out.subject}: {left_out.why}" if left_out else ""
        match outcome.status:
            case Status.FAILED:
                rows.append(Row(outcome, Class.OUTSIDE if left_out else Class.FAILED, because or outcome.reason))
            case Status.SKIPPED:
                rows.append(Row(outcome, Class.SKIPPED, outcome.reason))
            case Status.PASSED:
                rows.append(Row(outcome, Class.UNEXPECTED_PASS if left_out else Class.PASSED, because))
    order = list(Class)
    return sorted(rows, key=lambda row: (order.index(row.counts_as), row.outcome.test))


def table(rows: Iterable[Row]) -> str:
    """All rows, and a last line with the counts."""
    listed = list(rows)
    width = max((len(row.outcome.test) for row in listed), default=0)
    lines = [
        f"{row.counts_as:22} {row.outcome.test:{width}} {row.outcome.seconds:6.1f} s  {_shortened(row.reason)}".rstrip()
        for row in listed
    ]
    found = Counter(row.counts_as for row in listed)
    return "\n".join([*lines, ", ".join(f"{found[each]} {each.lower()}" for each in Class) + f"; {len(listed)} tests"])


def has_failed(rows: Iterable[Row]) -> bool:
    """Whether a test failed that is not outside."""
    return any(row.counts_as is Class.FAILED for row in rows)


def _shortened(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"
