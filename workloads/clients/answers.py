"""Collects the outcomes of one operation's records."""

from __future__ import annotations

import itertools

from workloads.clients.base import Done, SendOutcome


class Answers:
    """Calls `done` once, when every record has its outcome. Outcomes may come from several threads."""

    def __init__(self, count: int, done: Done) -> None:
        self._outcomes: list[SendOutcome] = [SendOutcome("info")] * count
        self._count = count
        self._done = done
        self._given = itertools.count(1)  # next() is atomic: exactly one thread sees the last number

    def give(self, index: int, outcome: SendOutcome) -> None:
        """Set the outcome of the record at `index`. Call it exactly once per index."""
        self._outcomes[index] = outcome
        if next(self._given) == self._count:
            self._done(self._outcomes)
