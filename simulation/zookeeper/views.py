"""Reads the state of a simulated cluster on ZooKeeper: the tree's truth, and what the brokers believe."""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.messages import NO_LEADER
from broker.zookeeper import paths
from broker.zookeeper.designs.controller import znodes
from broker.zookeeper.designs.controller.listeners import STOP
from broker.zookeeper.designs.controller.znodes import PartitionState
from broker.zookeeper.node import ZooKeeperNode
from broker.zookeeper.paths import Key
from broker.zookeeper.state import Hosted, ZooKeeperState
from broker.zookeeper.tree import ZooKeeperTree
from simulation.engine.cluster import SimulatedCluster


def states(cluster: SimulatedCluster) -> Iterator[tuple[int, ZooKeeperState]]:
    """The brokers that are up, with their state."""
    for node_id, machine in cluster.machines.items():
        if isinstance(machine.node, ZooKeeperNode):
            yield node_id, machine.node.state


def hosted_by(cluster: SimulatedCluster, broker_id: int, key: Key) -> Hosted | None:
    """A broker's replica of a partition, if it is up and has one."""
    machine = cluster.machines.get(broker_id)
    node = None if machine is None else machine.node
    return node.state.hosted.get(key) if isinstance(node, ZooKeeperNode) else None


def ids_at(tree: ZooKeeperTree, path: str) -> tuple[int, ...]:
    """The broker ids in a znode; none if there is no such node."""
    data = tree.data(path)
    return () if data is None else paths.decoded(data, path)


def state_of(tree: ZooKeeperTree, key: Key) -> PartitionState | None:
    """What the tree has of a partition in the design with a controller; None in others."""
    data = tree.data(znodes.state(key))
    return None if data is None else znodes.decoded_state(data, znodes.state(key))


def has_partition(tree: ZooKeeperTree, key: Key) -> bool:
    """Whether the tree has a partition."""
    return tree.data(paths.partition(key)) is not None or tree.data(znodes.state(key)) is not None


def leader_of(tree: ZooKeeperTree, key: Key) -> int | None:
    """The leader that the tree names."""
    state = state_of(tree, key)
    if state is not None:
        return None if state.leader == NO_LEADER else state.leader
    return next(iter(ids_at(tree, paths.leader(key))), None)


def isr_of(tree: ZooKeeperTree, key: Key) -> tuple[int, ...]:
    """The in-sync replicas that the tree names, in any design."""
    state = state_of(tree, key)
    if state is not None:
        return state.isr
    data = tree.data(paths.insync(key)) or b""
    return paths.decoded(data.partition(b";")[0], paths.insync(key))


def unnoticed(cluster: SimulatedCluster) -> list[int]:
    """Brokers of which the controller has not seen that their process is another one now (KAFKA-1120).

    They were away between two of its looks, and nobody has told them anything about a replica that the tree has of
    them; the controller has nothing more to do or to send.
    """
    up = dict(states(cluster))
    offices = [state.controlled.office for state in up.values() if state.controlled.office is not None]
    return [
        broker_id
        for office in offices
        for broker_id, state in up.items()
        if broker_id in office.missed
        and not (office.tasks or office.orders.get(broker_id))
        and state.is_registered
        and any(broker_id in replicas and key not in state.hosted for key, replicas in office.assigned.items())
    ]


def wrongly_stopping(cluster: SimulatedCluster) -> list[int]:
    """Brokers that run, and that the controller does not elect: an earlier process of theirs wanted to stop (B-21)."""
    up = dict(states(cluster))
    offices = [state.controlled.office for state in up.values() if state.controlled.office is not None]
    return [
        broker_id
        for office in offices
        for broker_id in sorted(office.stopping)
        if broker_id in up and not up[broker_id].procedures.runs(STOP)
    ]


def open_leader(cluster: SimulatedCluster, tree: ZooKeeperTree, key: Key) -> Hosted | None:
    """The replica that the tree names as leader, if it is open."""
    leader = leader_of(tree, key)
    hosted = None if leader is None else hosted_by(cluster, leader, key)
    return hosted if hosted is not None and hosted.is_open else None


def ends_inside_batch(cluster: SimulatedCluster, tree: ZooKeeperTree, key: Key, broker_id: int) -> bool:
    """Whether the end of a replica's log lies inside a batch of its leader's log."""
    leader, replica = open_leader(cluster, tree, key), hosted_by(cluster, broker_id, key)
    if leader is None or replica is None:
        return False
    end = replica.replica.log.end_offset
    header = leader.replica.log.batch_at(end)
    return header is not None and header.base_offset < end
