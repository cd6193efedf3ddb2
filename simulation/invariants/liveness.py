"""Finds the liveness property that does not hold after the last fault was healed (§20.3)."""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.controller.requests.partitions import STRANDED
from broker.core.metadata.records import PartitionState
from broker.core.replica.state import Role
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.node_views import brokers, every_partition, leading
from simulation.invariants.properties import Violation, waiting_excuse, with_excuse


def unmet(cluster: SimulatedCluster, when: str) -> Violation:
    """The violation of the most basic property that keeps the cluster from being whole."""
    property_id, what = _unmet(cluster)
    return Violation(property_id, f"{what}, {when}")


def _unmet(cluster: SimulatedCluster) -> tuple[str, str]:
    controller = leading(cluster)
    if controller is None:
        return "V-9", "no controller is active"
    by_id = dict(brokers(cluster))
    for node_id, machine in cluster.machines.items():
        if machine.node is None or not machine.node.is_ready():
            state = by_id.get(node_id)
            return "V-1", f"node {node_id} does not serve: {state.lifecycle.value if state else 'it is down'}"
    committed = controller.quorum.high_watermark
    for broker_id, state in by_id.items():
        if state.image.end_offset < committed:
            return "V-2", f"broker {broker_id} knows the metadata up to {state.image.end_offset}, not {committed}"
    for topic, number, partition in every_partition(cluster):
        found = _unmet_by(topic, number, partition, by_id)
        if found is not None:
            return found[0], _with_excuse(cluster, controller.settings.generation, partition, found[1])
    return "V-4", "the cluster is not whole"


def _with_excuse(cluster: SimulatedCluster, generation: str, partition: PartitionState, what: str) -> str:
    """Excuse a partition without a leader of which no replica is remembered, after an operator gave up all of these."""
    remembered = partition.isr or partition.elr or partition.last_known_elr
    if partition.leader >= 0 or remembered or STRANDED.name not in cluster.marks:
        return what
    return with_excuse(what, generation, waiting_excuse(generation))


def _unmet_by(
    topic: str, number: int, partition: PartitionState, by_id: dict[int, BrokerState]
) -> tuple[str, str] | None:
    summary = (
        f"{topic}-{number}: leader {partition.leader}, ISR {list(partition.isr)}, ELR {list(partition.elr)}, replicas "
        f"{list(partition.replicas)}"
    )
    if partition.leader < 0:
        return "V-3", summary
    replicas = {member: by_id[member].replicas.get((topic, number)) for member in partition.replicas}
    leader = replicas[partition.leader]
    if leader is not None and leader.role is Role.LEADER and leader.pending_isr is not None:
        return "V-7", f"{summary}; the change to ISR {list(leader.pending_isr.isr)} is pending"
    if partition.adding or partition.removing:
        return "V-6", f"{summary}, adding {list(partition.adding)}, removing {list(partition.removing)}"
    ends = {
        member: (replica.log.end_offset, replica.high_watermark) if replica is not None else None
        for member, replica in replicas.items()
    }
    if set(partition.isr) != set(partition.replicas) or len(set(ends.values())) != 1:
        return "V-4", f"{summary}; (log end, high watermark) {ends}"
    return None
