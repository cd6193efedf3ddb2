"""Counts what `checkers.verdict.metrics` has Spark count, chunk by chunk: what each chunk counts can be added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.input.run_facts import RunFacts
from checkers.screening.columns import Longs
from checkers.screening.ordinary.counting import (
    QUANTILES,
    SILENCE_NS_MIN,
    Name,
    Numbers,
    done_sends,
    operations_in,
    rows_in,
    sends_in,
    silences,
)
from checkers.screening.ordinary.loaded import LoadedHistory

BITS_OF_A_LATENCY: Final = 13
"""Latencies are counted with so many significant bits: a quantile is too low by 1/4096 at most."""

_NOTHING: Final = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Tally:
    """Numbers of one run."""

    numbers: Numbers
    latencies: Longs
    """Distinct ones, rounded down."""
    times: Longs
    """How often each of them occurs."""
    longest_ns: int
    first: Longs
    """When writes were acknowledged: the first in each stretch of time that has any, in order."""
    last: Longs

    @classmethod
    def of(cls, history: LoadedHistory) -> Tally:
        """Count a chunk, whose rows are all of one run and well formed."""
        counted = [*rows_in(history), *operations_in(history), *sends_in(history)]
        _, latency, completed = done_sends(history)
        first, last = _extremes(completed, completed)
        return cls(
            {name: number for _, name, number in counted},
            *np.unique(_rounded(latency), return_counts=True),
            int(latency.max(initial=0)),
            first,
            last,
        )

    @classmethod
    def sum(cls, tallies: Iterable[Tally]) -> Tally:
        """Add up."""
        every = list(tallies) or [NOTHING]
        numbers: Numbers = {}
        for each in every:
            for name, number in each.numbers.items():
                numbers[name] = _added(name, numbers[name], number) if name in numbers else number
        latencies, which = np.unique(np.concatenate([each.latencies for each in every]), return_inverse=True)
        times = np.zeros(latencies.size, np.int64)
        np.add.at(times, which, np.concatenate([each.times for each in every]))
        first, last = _extremes(
            np.concatenate([each.first for each in every]), np.concatenate([each.last for each in every])
        )
        return cls(numbers, latencies, times, max(each.longest_ns for each in every), first, last)

    def result(self, facts: RunFacts) -> Numbers:
        """Return all numbers (`checkers.screening.ordinary.counting.Numbers`) of what was counted."""
        found = dict(self.numbers)
        ranks = np.cumsum(self.times)
        for quantile in QUANTILES if ranks.size else ():
            rank = max(1, int(np.ceil(quantile * int(ranks[-1]))))
            latency = self.longest_ns if quantile == 1.0 else int(self.latencies[np.searchsorted(ranks, rank)])
            found["latency_ns", str(quantile), None, None] = latency
        since, until = self.last[:-1], self.first[1:]
        long = until - since >= SILENCE_NS_MIN
        return found | silences(facts, since[long], until[long])


def _added(name: Name, one: int, other: int) -> int:
    _, of_what, _, _ = name
    if of_what == "first_ns":
        return min(one, other)
    return max(one, other) if of_what == "last_ns" else one + other


def _rounded(latency: Longs) -> Longs:
    _, bits = np.frexp(latency.astype(np.float64))
    dropped = np.maximum(bits.astype(np.int64) - BITS_OF_A_LATENCY, 0)
    return (latency >> dropped) << dropped


def _extremes(first: Longs, last: Longs) -> tuple[Longs, Longs]:
    """Merge times without gaps that matter: within `SILENCE_NS_MIN` only the first and the last one count."""
    if not first.size:
        return _NOTHING, _NOTHING
    order = np.argsort(first, kind="stable")
    stretch = first[order] // SILENCE_NS_MIN
    starts = np.flatnonzero(np.append(True, stretch[1:] != stretch[:-1]))
    return first[order][starts], np.maximum.reduceat(last[order], starts)


NOTHING: Final = Tally({}, _NOTHING, _NOTHING, 0, _NOTHING, _NOTHING)
"""Counts nothing."""
