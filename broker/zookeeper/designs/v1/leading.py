"""A leader of the first design: tells the others to follow it, and moves a partition to other replicas in one step."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.ports.coordination import Delete, Exists
from broker.zookeeper import paths
from broker.zookeeper.designs.v1 import requests
from broker.zookeeper.designs.v1.requests import StateChange
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import read_ids, write_ids
from broker.zookeeper.replicas import leading
from broker.zookeeper.replicas.leading import MOVED
from broker.zookeeper.state import Hosted, ZooKeeperState


def become_leader(zk: ZooKeeperState, hosted: Hosted, isr: tuple[int, ...], assigned: tuple[int, ...]) -> Steps[None]:
    """`becomeLeader`: take the log end for committed (Q8), let the others catch up for a while, then open.

    The others are sent a request to follow before that, or nobody would fetch (Q11); all of them, and not only those
    that are not in sync (Q10).
    """
    leading.take_over(zk, hosted)
    for other in assigned:
        if other != zk.broker_id:
            yield from requests.send(zk, hosted, other, StateChange.BECOME_FOLLOWER)
    insync = yield from leading.await_followers(zk, hosted, isr, assigned)
    yield from _write_isr(hosted, insync)
    yield from look_at_reassignment(zk, hosted)
    yield Exists(paths.replicas(hosted.key), watch=True)  # the replica-change listener
    leading.open_partition(zk, hosted, insync)


def become_leader_again(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """The same, by what the tree says of the partition now."""
    isr = yield from read_ids(paths.insync(hosted.key))
    assigned = yield from read_ids(paths.replicas(hosted.key))
    yield from become_leader(zk, hosted, isr or (), assigned or ())


def look_at_reassignment(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """The partition-reassigned listener: which replicas the partition is to have; new ones are asked to start."""
    hosted.reassigned = (yield from read_ids(paths.reassigned(hosted.key))) or ()
    for member in hosted.reassigned:
        if member not in hosted.replica.replicas and member not in hosted.catching_up:
            yield from requests.send(zk, hosted, member, StateChange.REPLICA_ASSIGNED)
            hosted.catching_up.add(member)  # only then: another change may end this procedure meanwhile
    leading.see_to_move(zk, hosted, look_at_queue)


def look_at_queue(zk: ZooKeeperState, hosted: Hosted) -> None:
    """Have the commit thread go on, if it has nothing to do yet."""
    leading.look_at_queue(zk, hosted, _write_isr, _hand_over)


def _write_isr(hosted: Hosted, isr: tuple[int, ...]) -> Steps[None]:
    yield from write_ids(paths.insync(hosted.key), isr)


def _hand_over(zk: ZooKeeperState, hosted: Hosted, end: int, before: Callable[[], None]) -> Steps[bool]:
    """`checkReassignedReplicas`, `checkLoadBalancing`: whether leadership ends here; `before` is called if it does."""
    if hosted.reassigned and all(hosted.end_of(member) >= end for member in hosted.reassigned):
        before()
        yield from _move(zk, hosted)
        return True
    return (yield from leading.hand_to_preferred(zk, hosted, before))


def _move(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """All new replicas have caught up: switch to them, in separate writes (Z-14), and let them elect."""
    key, replica = hosted.key, hosted.replica
    union = (*hosted.reassigned, *(one for one in replica.isr if one not in hosted.reassigned))
    removed = [one for one in replica.replicas if one not in hosted.reassigned]
    yield from write_ids(paths.insync(key), union)
    yield from write_ids(paths.replicas(key), hosted.reassigned)
    for member in removed:
        if member != zk.broker_id:
            yield from requests.send(zk, hosted, member, StateChange.REPLICA_UNASSIGNED)
    zk.broker.runtime.mark(MOVED)
    leading.step_down(zk, hosted)
    yield Delete(paths.leader(key))
    yield Delete(paths.reassigned(key))
    if zk.broker_id in removed:
        yield from requests.send(zk, hosted, zk.broker_id, StateChange.REPLICA_UNASSIGNED)
