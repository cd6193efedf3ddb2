"""Finds which faults a simulated failure needs, and whether it needs the planted flaws: it is simulated without them.

Leaving out a fault changes all that comes after it, by chance too. So a fault counts as needed only if the failure
does not occur without it either when the random choices are others. Faults are left out from the last one before the
violation backwards, and stay out if the failure still occurs:

    faults   1  2  3  4  ✕                 ✕ is the failure
             1  2  3  -  ✕                 4 is not needed
             1  2  -  -     (and 3 redraws)  3 is
             1  -  3  -  ✕                 2 is not
             -  -  3  -  ✕                 1 is not: with 3 alone it occurs
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from incidents.needed import Needed
from simulation.invariants.observer import property_observers
from simulation.runs.failures import SimulationFinding, findings
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.configuration import RECIPES
from simulation.scenario.phases import SimulationOutcome
from simulation.shrinking.reduce import EVENTS_MIN, EVENTS_TIMES, GRACE_MS, PATIENCE, Patience, ShrinkTarget

REDRAWS = 3
_LAST_ALONE = (2, 8, 24)
"""How many of the faults before the violation are tried alone, before others are left out: most need the last few."""


def needed_faults(
    case: Case, outcome: SimulationOutcome, finding: SimulationFinding, stopped: Callable[[], bool] = lambda: False
) -> Needed:
    """Find which faults of a case are needed for this finding of its outcome, until that is known or `stopped`."""
    return _Search(case, outcome, ShrinkTarget(finding.layer, finding.property_id), stopped).run()


def needed_within(seconds: float, case: Case, outcome: SimulationOutcome, finding: SimulationFinding) -> Needed:
    """Find it as far as that is possible in this time; no simulation begins later."""
    until_s = time.monotonic() + seconds
    return needed_faults(case, outcome, finding, lambda: time.monotonic() >= until_s)


class _Search:
    def __init__(
        self, case: Case, outcome: SimulationOutcome, target: ShrinkTarget, stopped: Callable[[], bool]
    ) -> None:
        self._case = replace(case, overrides=vars(outcome.configuration), faults=tuple(outcome.faults))
        self._outcome = outcome
        self._target = target
        self._stopped = stopped
        self._redraw: int | None = None
        self._ends_ms: int | None = None
        """When the violation was found; None for what only shows at the end."""
        self._limit_ms: int | None = None
        self._events_max = max(EVENTS_MIN, EVENTS_TIMES * outcome.events)
        self._simulations = 0

    def run(self) -> Needed:
        """Search."""
        places: Sequence[int] = range(len(self._outcome.faults))
        began = set(places)
        if self._target.is_sudden:
            self._ends_ms = self._simulate(self._case).virtual_ms
            began = {place for place in places if self._outcome.faults[place].at_ms <= self._ends_ms}
            self._limit_ms = self._ends_ms + GRACE_MS
        without_flaws = self._without_flaws(sorted(began))  # first: it takes few simulations, and decides most
        acted = began - self._idle()
        tried = acted if acted < began and not self._stopped() and self._fails(sorted(acted), None) else began
        kept, known = self._left_of(sorted(tried, key=lambda place: -self._outcome.faults[place].at_ms))
        again = self._again(sorted(kept)) if kept and kept <= known else None
        groups = (self._numbers({place}) for place in sorted(kept & known))
        return Needed(
            self._numbers(kept & known),
            self._numbers(began - kept),
            self._numbers(kept - known),
            REDRAWS,
            self._simulations,
            tuple(group for group in groups if len(group) > 1),
            again,
            without_flaws,
        )

    def _idle(self) -> set[int]:
        """The recipes that found nobody to act on: without the others they may act, and tell another story."""
        rows = self._outcome.history.faults
        acted = {row.planned for row in rows if row.kind not in RECIPES or row.targets}
        return {row.planned for row in rows if row.planned is not None} - acted

    def _numbers(self, places: set[int]) -> tuple[int, ...]:
        """The numbers of all that these faults of the schedule did before the violation, as the history has them."""
        until_ns = math.inf if self._ends_ms is None else self._ends_ms * 1_000_000
        rows = self._outcome.history.faults
        return tuple(sorted(row.fault for row in rows if row.planned in places and row.started_ns <= until_ns))

    def _left_of(self, places: Sequence[int]) -> tuple[set[int], set[int]]:
        """The faults that are left, and those of them without which it does not occur."""
        if self._stopped():
            return set(places), set()
        left = self._without_chunks(list(places))
        known: set[int] = set()
        while open_ones := [place for place in left if place not in known]:
            if self._stopped():
                break
            rest = [place for place in left if place != open_ones[0]]
            if self._occurs(rest):
                left = rest
                known.clear()  # they were needed beside what is gone now
            else:
                known.add(open_ones[0])
        return set(left), known

    def _without_chunks(self, places: list[int]) -> list[int]:
        """Leave out many at once as long as the failure occurs with the same random choices: first all but the last."""
        for size in _LAST_ALONE:
            if size < len(places) and not self._stopped() and self._fails(places[:size], self._redraw):
                places = places[:size]
                break
        size = len(places) // 2
        while size > 1:
            start = 0
            while start < len(places) and not self._stopped():
                rest = places[:start] + places[start + size :]
                if self._fails(rest, self._redraw):
                    places = rest
                else:
                    start += size
            size //= 2
        return places

    def _occurs(self, places: Sequence[int]) -> bool:
        """Whether it occurs with these faults alone, with the present random choices or others; these are kept then."""
        for redraw in self._redraws():
            if self._fails(places, redraw):
                self._redraw = redraw
                return True
        return False

    def _again(self, places: Sequence[int]) -> int | None:
        """In how many of so many simulations it occurs with these faults and still other choices; None without time."""
        found = 0
        for redraw in range(REDRAWS + 1, 2 * REDRAWS + 1):
            if self._stopped():
                return None
            found += self._fails(places, redraw)
        return found

    def _redraws(self) -> Iterator[int | None]:
        yield self._redraw
        yield from (number for number in range(1, REDRAWS + 1) if number != self._redraw)

    def _fails(self, places: Sequence[int], redraw: int | None) -> bool:
        return self._target.found(self._simulate(self._variant(places, redraw))) is not None

    def _without_flaws(self, places: Sequence[int]) -> bool | None:
        """Whether anything fails without the planted flaws; None if there are none, or no time is left."""
        if not self._outcome.configuration.flaws or self._stopped():
            return None
        sound = {**vars(self._outcome.configuration), "flaws": ()}
        variants = (self._variant(places, redraw) for redraw in (None, *range(1, REDRAWS + 1)))
        outcomes = (self._simulate(replace(variant, overrides=sound)) for variant in variants)
        return any(outcome.failed_property != PATIENCE and bool(findings(outcome)) for outcome in outcomes)

    def _variant(self, places: Sequence[int], redraw: int | None) -> Case:
        faults = tuple(self._outcome.faults[place] for place in sorted(places))
        if redraw is None:
            return replace(self._case, faults=faults)
        return replace(self._case, faults=faults, streams={}, refill=redraw)

    def _simulate(self, case: Case) -> SimulationOutcome:
        self._simulations += 1
        observers = property_observers() if self._target.observed else ()
        return cases.run(case, (*observers, Patience(self._limit_ms, self._events_max)))
