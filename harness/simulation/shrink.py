"""Making a failing tape smaller: shorter lists and lower numbers, as long as it still fails.

The shrinker knows nothing of what is tested (the idea is Hypothesis's). It sees *lanes* of whole numbers, lower being
duller, and a tester that says which of some candidates is the first to fail. Lanes may be fixed (settings: numbers can
only be lowered), rows (a schedule: whole rows can be deleted too), or noise (latencies, choices of the workload: any
part can be deleted, and since nobody cares for one number of them, they may be drawn anew when something that matters
becomes simpler).

::

    settings   [1 2 0 3]            lower each
    schedule   [(5 1 2) (9 0 1)]    delete rows, lower each number
    network    [7 1 4 4 0 2 …]      delete and zero chunks, or draw all of it anew
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

Lanes = Mapping[str, tuple[int, ...]]

NOISE_CHUNKS_MAX = 64
"""Noise is deleted in no more pieces than this at a time; the pieces get smaller as it does."""

NOISE_LOWERED_MAX = 40
"""Noise with more numbers than this other than zero is not lowered number by number."""


CLOSE_ENOUGH = 20
"""A number is as low as can be when it is less than a twentieth above one that is too low."""


class Kind(Enum):
    """What may be done to a lane."""

    FIXED = "fixed"
    ROWS = "rows"
    NOISE = "noise"


class Lane(NamedTuple):
    """The shape of a lane: rows of `width` numbers."""

    kind: Kind
    width: int = 1


class Candidate(NamedTuple):
    """Something to try. With `refill` the noise that is missing from `lanes` is drawn from that seed."""

    lanes: Lanes
    refill: int | None = None


Tester = Callable[[Iterable[Candidate]], tuple[int, Lanes] | None]
"""The place of the first candidate that fails, and its lanes as they were read; None if none fails."""


class Shrinker:
    """Shrinks lanes of one shape. Lanes that come first in `shape` matter most."""

    def __init__(
        self,
        shape: Mapping[str, Lane],
        test: Tester,
        *,
        refills: int = 3,
        stopped: Callable[[], bool] = lambda: False,
        told: Callable[[Lanes], None] = lambda _: None,
    ) -> None:
        self._shape = shape
        self._test = test
        self._refills = refills
        self._stopped = stopped
        self._told = told
        self._seen: set[bytes] = set()
        self._next_refill = 1
        self.best: Lanes = {}

    def run(self, start: Lanes) -> Lanes:
        """The smallest lanes that were found to fail; `start` must."""
        self.best = {name: tuple(start.get(name, ())) for name in self._shape}
        before: Lanes = {}
        while before != self.best and not self._stopped():
            before = self.best
            self._clear()
            for name, lane in self._shape.items():
                if lane.kind is Kind.FIXED:
                    self._lower(name)
            for name, lane in self._shape.items():
                if lane.kind is Kind.ROWS:
                    self._delete(name)
                    self._lower(name)
            for name, lane in self._shape.items():
                if lane.kind is Kind.NOISE:
                    self._delete(name)
                    self._zero(name)
                    self._lower(name)
        return self.best

    # --- passes ------------------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        """Empty all noise, or one lane."""
        free = [name for name, lane in self._shape.items() if lane.kind is not Kind.FIXED]
        noise = [name for name in free if self._shape[name].kind is Kind.NOISE]
        groups = [noise, *([name] for name in free)]
        self._first([{**self.best, **dict.fromkeys(group, ())} for group in groups if group])

    def _delete(self, name: str) -> None:
        """Delete chunks of rows, large ones first."""
        width = self._shape[name].width
        chunk = max(1, len(self.best[name]) // width)
        while chunk and not self._stopped():
            place = 0
            while True:
                values = self.best[name]
                starts = range(place, len(values) // width, chunk)
                if len(starts) > self._chunks_max(name):
                    return
                tried = [self._with(name, values[: at * width] + values[(at + chunk) * width :]) for at in starts]
                hit = self._first(tried)
                if hit is None:
                    break
                place = starts[hit]
            chunk //= 2

    def _zero(self, name: str) -> None:
        """Set chunks to zero, large ones first."""
        chunk = len(self.best[name])
        while chunk and not self._stopped():
            place = 0
            while True:
                values = self.best[name]
                starts = [at for at in range(place, len(values), chunk) if any(values[at : at + chunk])]
                if len(starts) > self._chunks_max(name):
                    return
                tried = [
                    self._with(name, values[:at] + (0,) * len(values[at : at + chunk]) + values[at + chunk :])
                    for at in starts
                ]
                hit = self._first(tried)
                if hit is None:
                    break
                place = starts[hit] + chunk
            chunk //= 2

    def _lower(self, name: str) -> None:
        """Lower numbers one by one: to zero, or by narrowing down where they cease to matter."""
        noise = self._shape[name].kind is Kind.NOISE
        if noise and sum(map(bool, self.best[name])) > NOISE_LOWERED_MAX:
            return
        place = 0
        while place < len(self.best[name]) and not self._stopped():
            too_low = -1  # the highest value at this place that is known not to fail
            while place < len(values := self.best[name]):
                lower = _between(too_low, values[place])
                tried = [self._with(name, (*values[:place], value, *values[place + 1 :])) for value in lower]
                hit = self._first(tried)
                if hit is not None:
                    too_low = lower[hit - 1] if hit else too_low
                elif lower and not self._stopped():
                    too_low = lower[-1]
                else:
                    break
            place += 1

    # --- candidates --------------------------------------------------------------------------------------------------

    def _chunks_max(self, name: str) -> int:
        return NOISE_CHUNKS_MAX if self._shape[name].kind is Kind.NOISE else 1 << 30

    def _with(self, name: str, values: tuple[int, ...]) -> Lanes:
        return {**self.best, name: values}

    def _first(self, tried: Sequence[Lanes]) -> int | None:
        """Take the first of these lanes that is simpler and fails; its place."""
        places: list[int] = []
        found = self._test(self._candidates(tried, places))
        if found is None or not self._is_simpler(found[1]):
            return None
        number, lanes = found
        self.best = {name: tuple(lanes[name]) for name in self._shape}
        self._told(self.best)
        return places[number]

    def _candidates(self, tried: Sequence[Lanes], places: list[int]) -> Iterator[Candidate]:
        noise = [name for name, lane in self._shape.items() if lane.kind is Kind.NOISE]
        for place, lanes in enumerate(tried):
            if self._stopped():
                return
            identity = hashlib.blake2b(repr([lanes[name] for name in self._shape]).encode(), digest_size=16).digest()
            if identity in self._seen or not self._is_simpler(lanes):
                continue
            self._seen.add(identity)
            places.append(place)
            yield Candidate(lanes)
            if not noise or all(lanes[name] == self.best[name] for name in self._shape if name not in noise):
                continue
            quiet = {name: values for name, values in lanes.items() if name not in noise}
            for _ in range(self._refills):
                places.append(place)
                self._next_refill += 1
                yield Candidate(quiet, self._next_refill)

    def _is_simpler(self, lanes: Lanes) -> bool:
        return self._cost(lanes) < self._cost(self.best)

    def _cost(self, lanes: Lanes) -> tuple[object, ...]:
        return tuple((len(lanes[name]), sum(lanes[name]), lanes[name]) for name in self._shape)


def one_by_one(fails: Callable[[Candidate], Lanes | None]) -> Tester:
    """A tester that tries each candidate in turn. `fails` returns the lanes as they were read, or None."""

    def test(candidates: Iterable[Candidate]) -> tuple[int, Lanes] | None:
        for number, candidate in enumerate(candidates):
            lanes = fails(candidate)
            if lanes is not None:
                return number, lanes
        return None

    return test


def _between(too_low: int, value: int) -> list[int]:
    """Values to try instead, lowest first; none if `too_low` is as good as next to `value`."""
    if too_low < 0:
        return [0] if value else []
    gap = value - too_low
    if gap <= 1 or gap * CLOSE_ENOUGH < value:
        return []
    return sorted({too_low + max(1, gap * quarter // 4) for quarter in (1, 2, 3)} - {value})
