"""Makes the observers of a simulation, and keeps their first violation while the simulation continues."""

from __future__ import annotations

from collections.abc import Sequence

from simulation.engine.cluster import EventStep, Observer, SimulatedCluster
from simulation.invariants.observer import PropertyObserver
from simulation.invariants.violation import Violation
from simulation.scenario.scenario import fingerprint


def watchers() -> Sequence[Observer]:
    """New observers for one simulation."""
    return (PropertyObserver(),)


class Watch:
    """Wraps observers: keeps their first violation, with the hash up to it, and lets the simulation continue."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)
        self.violation: Violation | None = None
        self.digest = ""
        self.events = 0

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        try:
            for observer in self._observers:
                observer.after(cluster, step)
        except Violation as violation:
            self._record(cluster, violation)

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""
        try:
            for observer in self._observers:
                observer.crashed(cluster, node_id, lost_bytes)
        except Violation as violation:
            self._record(cluster, violation)

    def _record(self, cluster: SimulatedCluster, violation: Violation) -> None:
        self.violation = violation
        self.digest, self.events = fingerprint(cluster)
        self._observers = []
        cluster.say(f"VIOLATION of {violation}")
