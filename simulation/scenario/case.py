"""Describes one simulation: a seed or a stored choice sequence, and the settings that replace what it draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import Observer
from simulation.invariants.observer import FirstViolation, PropertyObserver
from simulation.scenario import scenario
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.zookeeper import scenario as zookeeper
from simulation.zookeeper.observer import ZooKeeperObserver


@dataclass(frozen=True)
class Case:
    """One simulation, by value: it can be sent to another process and means the same there.

    With `streams` the choice sequence holds these values, and `seed` only records where they came from; `refill`, if
    given, is the seed of the streams that are not among them. `faults`, if given, replace the schedule that would be
    drawn.
    """

    seed: int | None
    overrides: Mapping[str, object] = field(default_factory=dict)
    streams: Mapping[str, Sequence[int]] | None = None
    faults: tuple[SimulatedFault, ...] | None = None
    refill: int | None = None

    def choices(self) -> ChoiceSequence:
        """A new choice sequence."""
        if self.streams is None:
            return ChoiceSequence(self.seed)
        choices = ChoiceSequence(self.refill, self.streams)
        choices.seed = self.seed
        return choices


def run(
    case: Case,
    observers: Sequence[Observer] = (),
    recorders: Sequence[Observer] = (),
    *,
    to_the_end: bool = False,
    keep_log: bool = False,
) -> SimulationOutcome:
    """Simulate a case.

    The first violation that an observer finds ends the simulation, unless it continues `to_the_end` to complete its
    history; failure and hash are those of the first violation in both cases. Recorders only record. A design on
    ZooKeeper has its own scenario, and its own observer in the place of KRaft's.
    """
    on_zookeeper = case.overrides.get("generation") in ZOOKEEPER_GENERATIONS
    if on_zookeeper:
        observers = [ZooKeeperObserver() if isinstance(one, PropertyObserver) else one for one in observers]
    watch = FirstViolation(observers)
    attached = [*recorders, watch] if to_the_end else [*recorders, *observers]
    outcome = (zookeeper.run if on_zookeeper else scenario.run)(
        case.choices(), overrides=case.overrides, faults=case.faults, observers=attached, keep_log=keep_log
    )
    first = watch.violation
    if first is None:
        return outcome
    return replace(
        outcome,
        digest=watch.digest,
        events=watch.events,
        failure=str(first),
        failed_property=first.property_id,
    )
