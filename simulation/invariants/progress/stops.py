"""Checks that a broker that is asked to stop ends, with the controller's leave or without (V-8, BL-7).

Its own clock tells it when it has waited for long enough, so only a fault of its process excuses it.
"""

from __future__ import annotations

from broker.core.node import CombinedNode
from broker.core.ports.events import StopRequested
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.progress.calm import INTERVAL_US
from simulation.invariants.properties import Violation


def stepped(known: Knowledge, step: EventStep, incarnation: int, now_us: int) -> None:
    """Note that a node is asked to stop."""
    if step.event.__class__ is StopRequested:
        known.calm.stopping.setdefault(step.node_id, (incarnation, now_us))


def check(known: Knowledge, cluster: SimulatedCluster) -> None:
    """V-8, twice a virtual second. Of a node of both roles the controller ends after the broker, and may wait."""
    calm = known.calm
    for node_id, (incarnation, asked_us) in list(calm.stopping.items()):
        machine = cluster.machines[node_id]
        if machine.node is None or machine.incarnation != incarnation:
            del calm.stopping[node_id]
        elif machine.settings.is_broker and not isinstance(machine.node, CombinedNode):
            since_us = max(asked_us, calm.running_since(node_id))
            if cluster.now_us - since_us > stops_within_us(known):
                raise Violation(
                    "V-8",
                    f"broker {node_id} was asked to stop, and has not ended after "
                    f"{(cluster.now_us - since_us) // MS} ms in which its process was not disturbed",
                )


def stops_within_us(known: Knowledge) -> int:
    """How long a controlled shutdown may take."""
    return known.settings.controlled_shutdown_timeout_ms * MS + 2 * INTERVAL_US
