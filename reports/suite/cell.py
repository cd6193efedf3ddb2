"""One run of a suite: its result, what excuses it, and what became of it since an earlier night."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from history.anomalies import CATALOGUE
from reports.suite.earlier import EarlierResult
from reports.suite.known import KnownFailure

State = Literal["valid", "invalid", "unknown", "crashed", "skipped", "waiting"]
Change = Literal["new", "flaky", "still", "fixed", "known"]

STATES: Mapping[State, str] = {
    "valid": "no violations",
    "invalid": "violations",
    "unknown": "could not be decided",
    "crashed": "the run did not come to its end",
    "skipped": "not run, with a reason",
    "waiting": "not run yet",
}
"""The meaning of each state, in the order of reports."""

GRAVEST: Sequence[State] = ("invalid", "crashed", "unknown", "skipped", "waiting", "valid")

FAILING: Final[frozenset[str]] = frozenset({"invalid", "crashed", "unknown"})

CHANGES: Mapping[Change, str] = {
    "new": "fails in a way in which it did not fail before",
    "flaky": "failed in some of its attempts, and counts as a failure",
    "still": "failed before, too",
    "fixed": "failed before, and passed in every attempt",
    "known": "failed as its owner expects",
}
"""What became of a run since the night that the suite is compared with, in the order of reports."""


class Attempt(NamedTuple):
    """One of several times that a run was tried."""

    state: State
    reason: str
    page: str | None
    log: str | None

    @property
    def link(self) -> str | None:
        """The page or log with the details."""
        return self.page or self.log


@dataclass(frozen=True)
class SuiteCell:
    """One run of the suite."""

    name: str
    environment: str
    configuration: str
    faults: str
    seeds: str
    state: State
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    page: str | None = None  # of the run, relative to the suite's
    log: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    anomalies: Mapping[str, int] = field(default_factory=dict)
    again: str = ""
    anomaly: str | None = None  # of a canary
    found: bool | None = None  # of a canary
    attempts: tuple[Attempt, ...] = ()  # all of them, if there was more than one
    known: tuple[KnownFailure, ...] = ()  # what excuses it
    expired: tuple[KnownFailure, ...] = ()  # what would excuse it if it had not expired
    before: EarlierResult | None = None
    trail: tuple[str, ...] = ()  # its states in earlier nights, oldest first

    @property
    def link(self) -> str | None:
        """The page or log with the details."""
        return self.page or self.log

    @property
    def title(self) -> str:
        """The cell in one line."""
        return f"{self.environment} · {self.configuration} · {self.faults} · {self.seeds}"

    @property
    def failing(self) -> bool:
        """Whether it failed in any attempt."""
        return self.state in FAILING

    @property
    def failures(self) -> int:
        """How many of its attempts failed."""
        return sum(attempt.state in FAILING for attempt in self.attempts) if self.attempts else int(self.failing)

    @property
    def flaky(self) -> bool:
        """Whether some attempts failed and others passed."""
        return any(attempt.state == "valid" for attempt in self.attempts) and self.failing

    @property
    def tried(self) -> str:
        """How many of its attempts failed, in words; empty if there was only one."""
        return f"failed {self.failures} of {len(self.attempts)} times" if self.attempts else ""

    @property
    def signature(self) -> tuple[str, ...]:
        """What failed: the anomalies, or the state of a run without any."""
        return (tuple(sorted(self.anomalies)) or (self.state,)) if self.failing else ()

    @property
    def is_new(self) -> bool:
        """Whether it is a failure that nobody excuses, and that the earlier night did not have."""
        if not self.failing or self.known:
            return False
        if self.before is None or not self.before.counted:
            return True
        return bool(set(self.signature) - set(self.before.signature) - _no_graver(self.before.signature))

    @property
    def change(self) -> Change | None:
        """What became of it since the earlier night; None if nothing did."""
        if self.failing:
            return "known" if self.known else "flaky" if self.flaky else "new" if self.is_new else "still"
        return "fixed" if self.state == "valid" and self.before is not None and self.before.failing else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of it beside its reasons: attempts, owners, days that have passed."""
        new = ("new tonight",) if self.flaky and self.is_new else ()
        known = tuple(f"known failure: {entry}" for entry in self.known)
        expired = tuple(
            f"the known failure expired on {entry.expires.isoformat()} and counts again "
            f"(owner: {entry.owner}{', ' if entry.reason else ''}{entry.reason})"
            for entry in self.expired
        )
        return (*((self.tried,) if self.tried else ()), *new, *known, *expired)


def _no_graver(signature: Sequence[str]) -> set[str]:
    """The checkers' anomalies that are no graver than the gravest of these.

    Which of them show beside the gravest differs from one run of a real cluster to the next.
    """
    order = list(CATALOGUE)
    shown = [order.index(name) for name in signature if name in CATALOGUE]
    return set(order[min(shown) :]) if shown else set()
