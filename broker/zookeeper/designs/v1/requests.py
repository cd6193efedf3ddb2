"""The requests that leaders write into the replicas' state znodes, one place for each replica (Z-09)."""

from __future__ import annotations

from enum import StrEnum

from broker.core.ports.coordination import Answer, SetData
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.procedures import Steps
from broker.zookeeper.state import Hosted, ZooKeeperState

NOBODY_THERE = sometimes("zookeeper: a request to a replica is lost, its broker has no session")


class StateChange(StrEnum):
    """What a request asks of a replica."""

    BECOME_FOLLOWER = "become-follower"
    REPLICA_ASSIGNED = "replica-assigned"
    REPLICA_UNASSIGNED = "replica-unassigned"
    DELETE_REPLICA = "delete-replica"


def send(zk: ZooKeeperState, hosted: Hosted, to: int, change: StateChange) -> Steps[None]:
    """Write a request, over an earlier one that was not read yet; lost if the broker has no session."""
    written: Answer = yield SetData(paths.state(hosted.key, to), change.encode())
    if written.error is not None:
        zk.broker.runtime.mark(NOBODY_THERE)
