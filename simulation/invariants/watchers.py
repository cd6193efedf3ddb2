"""Who watches a simulation: the one place that knows which observers there are."""

from __future__ import annotations

from collections.abc import Sequence

from simulation.engine.cluster import EventStep, Observer, SimulatedCluster
from simulation.invariants.observer import PropertyObserver
from simulation.invariants.violation import Violation
from simulation.scenario.scenario import fingerprint


def watchers() -> Sequence[Observer]:
    """Fresh observers for one simulation."""
    return (PropertyObserver(),)


class Watch:
    """Observers that are heard once: their first violation is kept, with the hash up to it, and life goes on."""

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
            self._heard(cluster, violation)

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""
        try:
            for observer in self._observers:
                observer.crashed(cluster, node_id, lost_bytes)
        except Violation as violation:
            self._heard(cluster, violation)

    def _heard(self, cluster: SimulatedCluster, violation: Violation) -> None:
        self.violation = violation
        self.digest, self.events = fingerprint(cluster)
        self._observers = []
        cluster.say(f"VIOLATION of {violation}")
