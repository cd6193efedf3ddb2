"""Collects the outcomes of one operation's records."""

from __future__ import annotations

import itertools

from workloads.clients.base import Done, SendOutcome


class OutcomeCollector:
    """Calls `done` once, when every record has its outcome. Outcomes may come from several threads."""

    def __init__(self, count: int, done: Done) -> None:
        self._outcomes: list[SendOutcome] = [SendOutcome("info")] * count
        self._count = count
        self._done = done
        self._set_count = itertools.count(1)  # next() is atomic: exactly one thread sees the last number

    def set(self, index: int, outcome: SendOutcome) -> None:
        """Set the outcome of the record at `index`. Call it exactly once per index."""
        self._outcomes[index] = outcome
        if next(self._set_count) == self._count:
            self._done(self._outcomes)
