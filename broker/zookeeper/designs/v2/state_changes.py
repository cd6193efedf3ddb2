"""Carries out the requests in this broker's queue, one after the other: start a replica, or close it."""

from __future__ import annotations

from broker.core.ports.coordination import Answer, Delete, Exists, GetChildren, GetData
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Role
from broker.zookeeper import paths
from broker.zookeeper.choices import REFUSES_UNPUBLISHED, REMOVES_REQUEST_FIRST
from broker.zookeeper.designs.v2 import election, epochs, queues
from broker.zookeeper.designs.v2.leading import become_leader_again
from broker.zookeeper.designs.v2.queues import RequestKind, StateChange
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import read_ids
from broker.zookeeper.replicas import following, hosting
from broker.zookeeper.replicas.leading import ROLE, see_to_own
from broker.zookeeper.state import Hosted, ZooKeeperState

STALE = sometimes("zookeeper: a start-replica request of an earlier leader is ignored")
NOT_A_REPLICA = sometimes("zookeeper: a broker is told to start a replica that is not assigned to it (Z-17)")
NOTHING_TO_CLOSE = sometimes("zookeeper: a broker is told to close a replica that it does not have")
CLOSED_STALE = sometimes("zookeeper: a close-replica request of an earlier leader is obeyed (Z-08)")

QUEUE = "queue"


def drain(zk: ZooKeeperState) -> Steps[None]:
    """`stateChangeListener`: carry out what is queued, until there is nothing; then a watch is set for the next."""
    path = paths.queue(zk.broker_id)
    while True:
        names = (yield GetChildren(path, watch=True)).children
        zk.backlog = len(names)
        if not names:
            return
        for name in names:
            yield from _handle(zk, f"{path}/{name}")
            zk.backlog -= 1


def _handle(zk: ZooKeeperState, path: str) -> Steps[None]:
    """One request; it is removed after it was carried out (Q13), so that a crash in between repeats it."""
    found: Answer = yield GetData(path)
    if found.error is not None:
        return  # the queue was shrunk
    change = queues.decoded(found.data, path)
    queues.received(zk, change)
    if zk.chose(REMOVES_REQUEST_FIRST):
        yield Delete(path)
    if change.kind is RequestKind.CLOSE:
        yield from _close(zk, change)
    else:
        yield from _start(zk, change)
    queues.completed(zk, change)
    if not zk.chose(REMOVES_REQUEST_FIRST):
        yield Delete(path)


def _close(zk: ZooKeeperState, change: StateChange) -> Steps[None]:
    """Close the replica, of whatever epoch the request is, so that deletion reaches a broker that was dead (Z-08)."""
    hosted = zk.hosted.get(change.key)
    if hosted is None and change.key not in zk.broker.replicas:
        zk.broker.runtime.mark(NOTHING_TO_CLOSE)
        return
    if not change.by_administrator and change.epoch != (yield from epochs.latest(zk, change.key)):
        zk.broker.runtime.mark(CLOSED_STALE)
    hosted = zk.hosted.get(change.key)
    if hosted is not None:
        hosting.close(zk, hosted)
    else:
        hosting.delete(zk, change.key)  # of a partition that was not looked at since the broker started


def _start(zk: ZooKeeperState, change: StateChange) -> Steps[None]:
    """Start the replica, unless the request is of an earlier leader, and another leads now."""
    if not change.by_administrator and (yield Exists(paths.leader(change.key))).stat is not None:
        latest = yield from epochs.latest(zk, change.key)
        if change.epoch != latest:
            zk.broker.runtime.mark(STALE)
            zk.broker.runtime.log("info", f"{change.what} of epoch {change.epoch} is ignored: it is {latest}")
            return
    yield from start_replica(zk, change.key)


def start_replica(zk: ZooKeeperState, key: Key) -> Steps[None]:
    """`startReplica`: open the log, listen for leaders; follow the one that there is, or stand for election.

    The list of a reassignment counts as assignment (Q15): a new partition's replicas start before it is published.
    """
    assigned = (yield from read_ids(paths.replicas(key))) or ()
    wanted = () if zk.chose(REFUSES_UNPUBLISHED) else (yield from read_ids(paths.reassigned(key))) or ()
    if zk.broker_id not in (*assigned, *wanted):
        zk.broker.runtime.mark(NOT_A_REPLICA)
        zk.broker.runtime.log("error", f"NotReplicaForPartition: topic {key[0]} partition {key[1]}")
        return
    hosted = hosting.host(zk, key)
    if hosted is None:
        return
    if not hosted.is_open:
        hosted.replica.replicas = assigned or wanted
    if not hosted.is_listening:
        hosted.is_listening = True
        yield Exists(paths.leader(key), watch=True)  # the leader-change listener
    yield from take_role(zk, hosted)


def take_role(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """Without a leader stand for election; with one, follow it, unless the replica does already."""
    role = (ROLE, hosted.key)
    found: Answer = yield GetData(paths.leader(hosted.key))
    if found.stat is None:
        zk.procedures.start(role, election.leader_election(zk, hosted))
        return
    named = paths.decoded(found.data, paths.leader(hosted.key))[0]
    if found.stat.owner == zk.session:
        see_to_own(zk, hosted, become_leader_again)
    elif named == zk.broker_id:
        return  # by the last session, whose end the watch will tell
    elif hosted.replica.role is not Role.FOLLOWER or hosted.replica.leader != named:
        zk.procedures.start(role, following.become_follower(zk, hosted, become_leader_again))
