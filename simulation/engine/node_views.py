"""Reads the state of nodes: the active controller's view of partitions, the brokers' replicas."""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.broker_node.node import BrokerNode
from broker.core.broker_node.state import BrokerState
from broker.core.controller.node import ControllerNode
from broker.core.controller.state import ControllerState
from broker.core.metadata.records import PartitionState
from broker.core.node import CombinedNode
from broker.core.ports.runtime import Node
from broker.zookeeper.node import ZooKeeperNode
from simulation.engine.cluster import SimulatedCluster
from simulation.workload.clients import TOPIC


def controllers(cluster: SimulatedCluster) -> Iterator[tuple[int, ControllerState]]:
    """The controllers that are up, with their state."""
    for node_id, machine in cluster.machines.items():
        state = controller_state(machine.node)
        if state is not None:
            yield node_id, state


def brokers(cluster: SimulatedCluster) -> Iterator[tuple[int, BrokerState]]:
    """The brokers that are up, with their state."""
    for node_id, machine in cluster.machines.items():
        state = broker_state(machine.node)
        if state is not None:
            yield node_id, state


def controller_state(node: Node | None) -> ControllerState | None:
    """The controller's part of a node, if it has one."""
    if isinstance(node, ControllerNode):
        return node.state
    return node.controller.state if isinstance(node, CombinedNode) else None


def broker_state(node: Node | None) -> BrokerState | None:
    """The broker's part of a node, if it has one."""
    if isinstance(node, BrokerNode):
        return node.state
    if isinstance(node, ZooKeeperNode):
        return node.state.broker
    return node.broker.state if isinstance(node, CombinedNode) else None


def leading(cluster: SimulatedCluster) -> ControllerState | None:
    """The active controller of the highest epoch."""
    active = [state for _, state in controllers(cluster) if state.active]
    return max(active, key=lambda state: state.quorum.epoch) if active else None


def active_controller(cluster: SimulatedCluster) -> int | None:
    """Node id of the active controller."""
    state = leading(cluster)
    return state.settings.node_id if state is not None else None


def partition_states(cluster: SimulatedCluster) -> list[PartitionState]:
    """The active controller's view of the log's partitions, in order; empty if there is none."""
    state = leading(cluster)
    topic = state.image.topics.get(TOPIC) if state is not None else None
    return [topic.partitions[number] for number in sorted(topic.partitions)] if topic is not None else []


def every_partition(cluster: SimulatedCluster) -> list[tuple[str, int, PartitionState]]:
    """The active controller's view of the partitions of all topics, in order; empty if there is none."""
    state = leading(cluster)
    topics = state.image.topics if state is not None else {}
    return [
        (name, number, topics[name].partitions[number]) for name in sorted(topics) for number in topics[name].partitions
    ]


def is_whole(cluster: SimulatedCluster) -> bool:
    """V-4: every node agrees that every partition has its full ISR, and all logs end at the high watermark.

    `harness.run.health` decides the same of a real cluster, from what its nodes report.
    """
    partitions = every_partition(cluster)
    up = dict(brokers(cluster))
    for topic, number, state in partitions:
        if state.leader < 0 or set(state.isr) != set(state.replicas) or state.adding or state.removing:
            return False
        ends = set()
        for broker_id in state.replicas:
            replica = up[broker_id].replicas.get((topic, number)) if broker_id in up else None
            if replica is None or replica.leader_epoch != state.leader_epoch:
                return False
            ends |= {replica.log.end_offset, replica.high_watermark}
        if len(ends) != 1:
            return False
    return bool(partitions)
