"""Opens the replicas that are assigned to a broker, and deletes those that it is asked to close."""

from __future__ import annotations

from broker.core.broker_node import storage
from broker.core.ports.marks import sometimes
from broker.zookeeper.paths import Key
from broker.zookeeper.replicas import leading
from broker.zookeeper.state import Hosted, ZooKeeperState

CLOSED = sometimes("zookeeper: a replica is closed and deleted")

LISTEN = "listen"
LEADER_CHANGE = "leader-change"


def host(zk: ZooKeeperState, key: Key) -> Hosted | None:
    """The replica of a partition, opened or created; None if its disk fails."""
    hosted = zk.hosted.get(key)
    if hosted is None:
        replica = zk.broker.replicas.get(key)
        if replica is None:
            replica = storage.create_replica(zk.broker, *key, key[0])
            if replica is None:
                return None
            storage.record_topic_ids(zk.broker, [replica])
        hosted = zk.hosted[key] = Hosted(replica)
    return hosted


def close(zk: ZooKeeperState, hosted: Hosted) -> None:
    """`closeReplica`: stop fetching and committing, delete the log."""
    for name in (leading.COMMIT, leading.ROLE, leading.MOVE, LISTEN, LEADER_CHANGE):
        zk.procedures.cancel((name, hosted.key))
    leading.step_down(zk, hosted)
    hosted.open_fetch = None
    del zk.hosted[hosted.key]
    delete(zk, hosted.key)


def delete(zk: ZooKeeperState, key: Key) -> None:
    """Delete the log of a replica that is not hosted, or not any more."""
    replica = zk.broker.replicas.pop(key)
    storage.delete_logs(zk.broker, [replica])
    zk.broker.runtime.mark(CLOSED)
