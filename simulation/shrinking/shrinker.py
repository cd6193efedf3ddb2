"""Shrinks lists of numbers that make a test fail: shorter lists and lower numbers, as long as it still fails.

The shrinker knows nothing of what is tested (the idea is Hypothesis's). It sees *lanes* of whole numbers, lower being
simpler, and a tester that returns the first of some candidates that fails. Lanes may be fixed (settings: numbers can
only be lowered), rows (a schedule: whole rows can be deleted too, and happen sooner), noise (latencies, choices of the
workload: any part can be deleted, and since single numbers do not matter, they may be drawn again when a more important
lane becomes simpler), or measured (a number that the tester returns with a failure: the length of its trace).

::

    settings   [1 2 0 3]            lower each, or many at a time
    schedule   [(5 1 2) (9 0 1)]    delete rows, shorten the pauses between them, lower each number
    story      [34]                 draw the noise again as long as that makes it less
    network    [7 1 4 4 0 2 …]      delete and zero chunks

Simpler means simpler settings, then fewer rows, then less of what is measured, then lower rows and less noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

Lanes = Mapping[str, tuple[int, ...]]

NOISE_CHUNKS_MAX = 64
"""Noise is deleted in no more pieces than this at a time; the pieces get smaller as it does."""

NOISE_LOWERED_MAX = 40
"""Noise with more numbers than this other than zero is not lowered number by number."""

CLOSE_ENOUGH = 20
"""A number is as low as can be when it is less than a twentieth above one that is too low."""

LEAP_REFILLS = 8
"""How often noise is drawn again for settings that are nearly all zero."""

SETTINGS_CHUNK_MIN = 4
"""Fewer settings than these are not set to zero together, but lowered one by one."""

REDRAWS = 24
"""How many redraws of the noise must fail to shorten a trace before it counts as short."""


class LaneKind(Enum):
    """The ways to simplify a lane."""

    FIXED = "fixed"
    ROWS = "rows"
    NOISE = "noise"
    MEASURED = "measured"


class Lane(NamedTuple):
    """The shape of a lane: rows of `width` numbers. The first number of rows that are `timed` is when they happen."""

    kind: LaneKind
    width: int = 1
    timed: bool = False


class Candidate(NamedTuple):
    """Lanes to test. With `refill` the noise that is missing from `lanes` is drawn from that seed.

    With `below` it counts as a failure only if the measured lanes, in their order, are less than that.
    """

    lanes: Lanes
    refill: int | None = None
    below: tuple[int, ...] | None = None


Tester = Callable[[Iterable[Candidate]], tuple[int, Lanes] | None]
"""The index of the first candidate that fails, and its lanes as they were drawn; None if none fails."""


class Shrinker:
    """Shrinks lanes of one shape; those that come first in `shape` are the most important."""

    def __init__(
        self,
        shape: Mapping[str, Lane],
        test: Tester,
        *,
        refills: int = 3,
        stopped: Callable[[], bool] = lambda: False,
        on_better: Callable[[Lanes], None] = lambda _: None,
    ) -> None:
        self._shape = shape
        self._test = test
        self._refills = refills
        self._stopped = stopped
        self._on_better = on_better
        self._seen: set[bytes] = set()
        self._next_refill = 1
        self.best: Lanes = {}

    def run(self, start: Lanes) -> Lanes:
        """The smallest lanes that were found to fail; `start` must."""
        self.best = {name: tuple(start.get(name, ())) for name in self._shape}
        before: Lanes = {}
        while before != self.best and not self._stopped():
            while before != self.best and not self._stopped():
                before = self.best
                self._clear()
                self._structure()
            self._redraw()
            for name in self._of(LaneKind.NOISE):
                self._delete(name)
                self._zero(name)
                self._lower(name)
        return self.best

    # --- passes ------------------------------------------------------------------------------------------------------

    def _structure(self) -> None:
        """Simplify all but the noise: while that still succeeds, work on the noise would be wasted."""
        for name in self._of(LaneKind.FIXED):
            self._leap(name)
            self._zero(name, SETTINGS_CHUNK_MIN)
            self._lower(name)
        for name in self._of(LaneKind.ROWS):
            self._delete(name)
            if self._shape[name].timed:
                self._hurry(name)
            self._lower(name)

    def _clear(self) -> None:
        """Empty all noise, or one lane."""
        noise = self._of(LaneKind.NOISE)
        groups = [noise, *([name] for name in (*self._of(LaneKind.ROWS), *noise))]
        self._first([{**self.best, **dict.fromkeys(group, ())} for group in groups if group])

    def _leap(self, name: str) -> None:
        """Set all numbers to zero, or all but one: the smaller a candidate, the cheaper the tests that follow."""
        values = self.best[name]
        nothing = (0,) * len(values)
        alone = [(*nothing[:index], value, *nothing[index + 1 :]) for index, value in enumerate(values) if value]
        self._first([self._with(name, tried) for tried in (nothing, *alone)], LEAP_REFILLS)

    def _delete(self, name: str) -> None:
        """Delete chunks of rows, large ones first."""
        width = self._shape[name].width
        chunk = max(1, len(self.best[name]) // width)
        while chunk and not self._stopped():
            index = 0
            while True:
                values = self.best[name]
                starts = range(index, len(values) // width, chunk)
                if len(starts) > self._chunks_max(name):
                    return
                tried = [self._with(name, values[: at * width] + values[(at + chunk) * width :]) for at in starts]
                hit = self._first(tried)
                if hit is None:
                    break
                index = starts[hit]
            chunk //= 2

    def _zero(self, name: str, chunk_min: int = 1) -> None:
        """Set chunks to zero, large ones first."""
        chunk = len(self.best[name])
        while chunk >= chunk_min and not self._stopped():
            index = 0
            while True:
                values = self.best[name]
                starts = [at for at in range(index, len(values), chunk) if any(values[at : at + chunk])]
                if len(starts) > self._chunks_max(name):
                    return
                tried = [
                    self._with(name, values[:at] + (0,) * len(values[at : at + chunk]) + values[at + chunk :])
                    for at in starts
                ]
                hit = self._first(tried)
                if hit is None:
                    break
                index = starts[hit] + chunk
            chunk //= 2

    def _lower(self, name: str) -> None:
        """Lower numbers one by one: to zero, or by bisection to the least that still fails."""
        noise = self._shape[name].kind is LaneKind.NOISE
        if noise and sum(map(bool, self.best[name])) > NOISE_LOWERED_MAX:
            return

        index = 0
        while index < len(self.best[name]) and not self._stopped():
            self._narrow(partial(self._number, name, index), partial(self._with_number, name, index))
            index += 1

    def _hurry(self, name: str) -> None:
        """Shorten the pauses between rows; all later rows move by the same amount."""
        width = self._shape[name].width
        index = 0
        while index < len(self.best[name]) and not self._stopped():
            self._narrow(partial(self._pause, name, index), partial(self._with_pause, name, index))
            index += width

    def _narrow(self, value_of: Callable[[], int], lanes_with: Callable[[int], Lanes]) -> None:
        """Find the least value with which the best lanes still fail."""
        too_low = -1  # the highest value that is known not to fail
        while not self._stopped():
            lower = _between(too_low, value_of())
            hit = self._first([lanes_with(value) for value in lower])
            if hit is not None:
                too_low = lower[hit - 1] if hit else too_low
            elif lower and not self._stopped():
                too_low = lower[-1]
            else:
                return

    def _redraw(self) -> None:
        """Draw all noise again as long as that lowers the measured lanes."""
        measured = self._measured(self.best)
        while measured and not self._stopped():
            quiet = self._quiet(self.best)
            found = self._test(
                Candidate(quiet, self._refill(), measured) for _ in range(REDRAWS) if not self._stopped()
            )
            if found is None or not self._take(found[1]):
                return
            measured = self._measured(self.best)

    # --- numbers and pauses ------------------------------------------------------------------------------------------

    def _number(self, name: str, index: int) -> int:
        values = self.best[name]
        return values[index] if index < len(values) else 0  # noise may have become shorter meanwhile

    def _with_number(self, name: str, index: int, value: int) -> Lanes:
        values = self.best[name]
        return self._with(name, (*values[:index], value, *values[index + 1 :]))

    def _pause(self, name: str, index: int) -> int:
        """Time from a row to the one before it."""
        values = self.best[name]
        before = values[index - self._shape[name].width] if index else 0
        return max(0, values[index] - before)

    def _with_pause(self, name: str, index: int, pause: int) -> Lanes:
        values = list(self.best[name])
        sooner = self._pause(name, index) - pause
        for later in range(index, len(values), self._shape[name].width):
            values[later] = max(0, values[later] - sooner)
        return self._with(name, tuple(values))

    # --- candidates --------------------------------------------------------------------------------------------------

    def _chunks_max(self, name: str) -> int:
        return NOISE_CHUNKS_MAX if self._shape[name].kind is LaneKind.NOISE else 1 << 30

    def _with(self, name: str, values: tuple[int, ...]) -> Lanes:
        return {**self.best, name: values}

    def _first(self, tried: Sequence[Lanes], refills: int | None = None) -> int | None:
        """Take the first of these lanes that is simpler and fails; returns its index."""
        indexes: list[int] = []
        found = self._test(self._candidates(tried, indexes, self._refills if refills is None else refills))
        if found is None or not self._take(found[1]):
            return None
        return indexes[found[0]]

    def _take(self, lanes: Lanes) -> bool:
        """Make these the best lanes, if they are simpler."""
        if not self._is_simpler(lanes):
            return False
        self.best = {name: tuple(lanes[name]) for name in self._shape}
        self._on_better(self.best)
        return True

    def _candidates(self, tried: Sequence[Lanes], indexes: list[int], refills: int) -> Iterator[Candidate]:
        noise = self._of(LaneKind.NOISE)
        chosen = [name for name in self._shape if name not in self._of(LaneKind.MEASURED)]
        for index, lanes in enumerate(tried):
            if self._stopped():
                return
            identity = hashlib.blake2b(repr([lanes[name] for name in chosen]).encode(), digest_size=16).digest()
            if identity in self._seen or not self._is_simpler(lanes):
                continue
            self._seen.add(identity)
            indexes.append(index)
            yield Candidate(lanes)
            if not noise or all(lanes[name] == self.best[name] for name in chosen if name not in noise):
                continue
            for _ in range(refills):
                indexes.append(index)
                yield Candidate(self._quiet(lanes), self._refill())

    def _quiet(self, lanes: Lanes) -> Lanes:
        noise = self._of(LaneKind.NOISE)
        return {name: values for name, values in lanes.items() if name not in noise}

    def _refill(self) -> int:
        self._next_refill += 1
        return self._next_refill

    def _of(self, kind: LaneKind) -> Sequence[str]:
        return [name for name, lane in self._shape.items() if lane.kind is kind]

    def _measured(self, lanes: Lanes) -> tuple[int, ...]:
        return tuple(number for name in self._of(LaneKind.MEASURED) for number in lanes[name])

    def _is_simpler(self, lanes: Lanes) -> bool:
        return self._cost(lanes) < self._cost(self.best)

    def _cost(self, lanes: Lanes) -> tuple[object, ...]:
        fixed, rows, noise = self._of(LaneKind.FIXED), self._of(LaneKind.ROWS), self._of(LaneKind.NOISE)
        return (
            [(sum(lanes[name]), lanes[name]) for name in fixed],
            [len(lanes[name]) for name in rows],
            self._measured(lanes),
            [(len(lanes[name]), sum(lanes[name]), lanes[name]) for name in (*rows, *noise)],
        )


def one_by_one(fails: Callable[[Candidate], Lanes | None]) -> Tester:
    """A tester that tries each candidate in turn. `fails` returns the lanes as they were drawn, or None."""

    def test(candidates: Iterable[Candidate]) -> tuple[int, Lanes] | None:
        for number, candidate in enumerate(candidates):
            lanes = fails(candidate)
            if lanes is not None:
                return number, lanes
        return None

    return test


def _between(too_low: int, value: int) -> list[int]:
    """Values to try instead, lowest first; none if `value` is close enough to `too_low`."""
    if too_low < 0:
        return [0] if value else []
    gap = value - too_low
    if gap <= 1 or gap * CLOSE_ENOUGH < value:
        return []
    return sorted({too_low + max(1, gap * quarter // 4) for quarter in (1, 2, 3)} - {value})
