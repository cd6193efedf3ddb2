"""What is simulated: a seed, or a tape that somebody kept, with the parts of the configuration that flags decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.simulation import scenario
from harness.simulation.scenario import Outcome
from harness.simulation.schedule import Fault
from harness.simulation.tape import Tape
from harness.simulation.world import Observer


@dataclass(frozen=True)
class Case:
    """One simulation, by value: it can be sent to another process and means the same there.

    With `streams` the tape holds these values and `seed` only tells where they came from. `faults`, if given, stand in
    for the schedule that would be drawn.
    """

    seed: int | None
    overrides: Mapping[str, object] = field(default_factory=dict)
    streams: Mapping[str, Sequence[int]] | None = None
    faults: tuple[Fault, ...] | None = None

    def tape(self) -> Tape:
        """A fresh tape."""
        if self.streams is None:
            return Tape(self.seed)
        tape = Tape(given=self.streams)
        tape.seed = self.seed
        return tape


def run(case: Case, observers: Sequence[Observer] = (), *, keep_notes: bool = False) -> Outcome:
    """Simulate a case."""
    return scenario.run(
        case.tape(), overrides=case.overrides, faults=case.faults, observers=observers, keep_notes=keep_notes
    )
