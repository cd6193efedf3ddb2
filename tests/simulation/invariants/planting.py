"""Plants a violation in a simulated cluster: it changes one node's memory at one moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from broker.core.broker_node.node import BrokerNode
from broker.core.controller.node import ControllerNode
from broker.core.replica.state import Replica, Role
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import EventStep, Observer, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.invariants.observer import PropertyObserver
from simulation.invariants.properties import Violation
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.scenario.scenario import run
from simulation.workload.clients import TOPIC

SIMPLEST: dict[str, object] = {
    "brokers": 3,
    "controllers": 3,
    "combined": False,
    "partitions": 1,
    "producers": 1,
    "idempotence": True,
    "acks": -1,
    "flush_messages": 0,
    "flush_ms": 0,
    "lag_ms": 1_500,
    "metadata_snapshot_records": 5_000,
    "duration_ms": 20_000,
    "operations": 60,
    "polls": 60,
    "unclean_election": False,
    "unclean_recovery": "Balanced",
    "lossy_budget": 1,
    "sole_survivor": False,
    "slow_of_1000": 0,
    "answer_lost_of_1000": 0,
    "repeated_of_1000": 0,
    "min_isr_of_brokers": 0,
    "compression": "none",
    "group_members": 0,
    "side_topics": False,
    "keyed_topic": False,
    "racks": 0,
    "changing_settings": False,
    "in_flight": 1,
    "retention_ms": 0,
    "retention_bytes": 0,
    "log_append_time": False,
    "clock_error_ms": 0,
    "producer_expiration_ms": 0,
    "log_directories": 1,
    "fetch_bytes": 0,
    "examination": "",
}
"""A small cluster to which nothing happens but what a test asks for."""


@dataclass
class Plant:
    """An observer that comes before the real one, and lies to it once: after `after_ms`, as soon as `lie` says so."""

    lie: Callable[[SimulatedCluster, EventStep], object]
    after_ms: int = 5_000
    planted: bool = False

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        if not self.planted and cluster.now_us >= self.after_ms * MS:
            self.planted = bool(self.lie(cluster, step))

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """Nothing to do."""


def observe(
    *plants: Observer,
    seed: int = 1,
    faults: Sequence[SimulatedFault] = (),
    observer: PropertyObserver | None = None,
    **overrides: object,
) -> SimulationOutcome:
    """Simulate with the observer behind the plants."""
    watching = [*plants, observer or PropertyObserver()]
    return run(ChoiceSequence(seed), overrides={**SIMPLEST, **overrides}, faults=list(faults), observers=watching)


def replica_of(cluster: SimulatedCluster, step: EventStep, role: Role | None = None) -> Replica | None:
    """The first partition's replica on the broker that has just reacted, if it has that role."""
    node = cluster.machines[step.node_id].node
    if not isinstance(node, BrokerNode):
        return None
    replica = node.state.replicas.get((TOPIC, 0))
    return replica if replica is not None and role in (None, replica.role) else None


def controller_of(cluster: SimulatedCluster, step: EventStep, *, leads: bool) -> Any:
    """The state of the controller that has just reacted, if it leads the quorum, or does not."""
    node = cluster.machines[step.node_id].node
    return node.state if isinstance(node, ControllerNode) and node.state.quorum.leads is leads else None


def change_rules(subject: str, **methods: Callable[..., Any]) -> Plant:
    """Replace rules of one subject in every node, from the first moment on."""

    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        node = cluster.machines[step.node_id].node
        state = getattr(node, "state", None)
        if state is None:
            return False
        rules = (
            state.quorum.rules if subject == "quorum" and hasattr(state, "quorum") else getattr(state.rules, subject)
        )
        for name, method in methods.items():
            object.__setattr__(rules, name, method)
        return False

    return Plant(lie, after_ms=0)


def broken_by(check: Callable[[], object]) -> str | None:
    """The property that a check finds broken; None if it finds none."""
    try:
        check()
    except Violation as violation:
        return violation.property_id
    return None
