"""Reads the state of a simulated cluster on ZooKeeper: the tree's truth, and what the brokers believe."""

from __future__ import annotations

from collections.abc import Iterator

from broker.zookeeper import paths
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


def leader_of(tree: ZooKeeperTree, key: Key) -> int | None:
    """The leader that the tree names."""
    return next(iter(ids_at(tree, paths.leader(key))), None)


def isr_of(tree: ZooKeeperTree, key: Key) -> tuple[int, ...]:
    """The in-sync replicas that the tree names, in either design."""
    data = tree.data(paths.insync(key)) or b""
    return paths.decoded(data.partition(b";")[0], paths.insync(key))


def open_leader(cluster: SimulatedCluster, tree: ZooKeeperTree, key: Key) -> Hosted | None:
    """The replica that the tree names as leader, if it is open."""
    leader = leader_of(tree, key)
    hosted = None if leader is None else hosted_by(cluster, leader, key)
    return hosted if hosted is not None and hosted.is_open else None
