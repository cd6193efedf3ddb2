"""Which runs of the store a page of the browser is about: filters, search, the passing run nearest to a failing one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reports.browser.entries import RunEntry

PASSED = "valid"
_NOT_COMPARED = frozenset({"seed", "name", "reproduce", "flaws"})


class Selection(NamedTuple):
    """What the reader of a list has chosen; empty is everything."""

    words: str = ""
    """Each must be in the name, verdict, headline, environment, flaws, anomalies or faults of a run."""
    verdict: str = ""
    environment: str = ""

    def of(self, entries: Sequence[RunEntry]) -> list[RunEntry]:
        """The chosen runs, in their order."""
        words = self.words.lower().split()
        return [
            entry
            for entry in entries
            if (not self.verdict or entry.verdict == self.verdict)
            and (not self.environment or entry.environment == self.environment)
            and all(word in entry.searched for word in words)
        ]

    def query(self) -> Mapping[str, str]:
        """The parameters of a link to the same selection."""
        named = {"q": self.words, "verdict": self.verdict, "environment": self.environment}
        return {name: value for name, value in named.items() if value}


def nearest_passing(run: RunEntry, entries: Sequence[RunEntry]) -> RunEntry | None:
    """The run that passed and whose settings agree most with those of this run; the newest of several."""

    def agreement(other: RunEntry) -> tuple[int, str]:
        agreeing = sum(
            other.settings.get(name) == value for name, value in run.settings.items() if name not in _NOT_COMPARED
        )
        return agreeing, other.name

    return max(
        (entry for entry in entries if entry.verdict == PASSED and entry.name != run.name), key=agreement, default=None
    )
