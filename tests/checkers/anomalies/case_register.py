"""Tiny histories, each with exactly the anomalies that must be found in it, registered under the names of functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.checkers.histories import History

Expected = dict[str, tuple[int, int]]
"""Anomaly → (violations, within the contract); everything not named must not be found."""

Build = Callable[[History], None]


@dataclass(frozen=True)
class Case:
    history: History
    expected: Expected
    verdict: str


class Decorator(Protocol):
    def __call__(
        self, expected: Expected, verdict: str | None = None, **settings: object
    ) -> Callable[[Build], None]: ...


def register(cases: list[Case]) -> Decorator:
    """Give a decorator that adds histories; the verdict follows from what is expected unless it is said."""

    def case(expected: Expected, verdict: str | None = None, **settings: object) -> Callable[[Build], None]:
        def add(build: Build) -> None:
            history = History(build.__name__.replace("_", "-"), **settings)
            build(history)
            broken = any(violations for violations, _ in expected.values())
            cases.append(Case(history, expected, verdict or ("invalid" if broken else "valid")))

        return add

    return case
