"""A leader of the second design: raises the partition's epoch, opens it, and tells replicas to start and to close."""

from __future__ import annotations

from broker.core.ports.coordination import GetChildren
from broker.zookeeper import paths
from broker.zookeeper.choices import LEADER_STARTS_NOBODY
from broker.zookeeper.designs.v2 import epochs, queues, reassignment
from broker.zookeeper.designs.v2.queues import RequestKind, StateChange
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import read_ids
from broker.zookeeper.replicas import leading
from broker.zookeeper.state import Hosted, ZooKeeperState


def become_leader(zk: ZooKeeperState, hosted: Hosted, assigned: tuple[int, ...]) -> Steps[None]:
    """`becomeLeader`: a new epoch, then the log end counts as committed (Q8), then the others may catch up, then open.

    The others find out by the leader znode whom to follow. Those that are live are asked to start all the same
    (Q17), for a replica that has been restarted.
    """
    leading.take_over(zk, hosted)
    isr = yield from epochs.raise_epoch(zk, hosted)
    insync = yield from leading.await_followers(zk, hosted, isr, assigned)
    yield from epochs.write_isr(hosted, insync)
    hosted.reassigned, hosted.asked_to_close_ms = (), None
    yield from look_at_reassignment(zk, hosted)
    leading.open_partition(zk, hosted, insync)
    if zk.chose(LEADER_STARTS_NOBODY):
        return
    live = {int(name) for name in (yield GetChildren(paths.IDS)).children}
    for other in assigned:
        if other != zk.broker_id and other in live:
            yield from queues.send(zk, other, StateChange(RequestKind.START, hosted.key, hosted.epoch, zk.broker_id))


def become_leader_again(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """The same, by what the tree says of the partition now."""
    assigned = (yield from read_ids(paths.replicas(hosted.key))) or hosted.replica.replicas
    yield from become_leader(zk, hosted, assigned)


def look_at_reassignment(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """`onPartitionsReassigned`: which replicas the partition is to have; new ones are asked to start.

    If it is to have none it is to be deleted, and all are asked to close. Also sets the two child watches of a leader.
    """
    yield GetChildren(paths.REASSIGNED, watch=True)
    yield GetChildren(paths.reassigned_topic(hosted.key[0]), watch=True)
    wanted = yield from read_ids(paths.reassigned(hosted.key))
    assigned = hosted.replica.replicas
    if wanted is None:
        hosted.reassigned, hosted.asked_to_close_ms = (), None
        return
    hosted.reassigned = wanted
    for member in wanted:
        if member not in assigned and member not in hosted.catching_up:
            yield from queues.send(zk, member, StateChange(RequestKind.START, hosted.key, hosted.epoch, zk.broker_id))
            hosted.catching_up.add(member)  # only then: another change may end this procedure meanwhile
    if not wanted and hosted.asked_to_close_ms is None:
        for member in assigned:
            yield from queues.send(zk, member, StateChange(RequestKind.CLOSE, hosted.key, hosted.epoch, zk.broker_id))
        hosted.asked_to_close_ms = zk.broker.runtime.now_ms
    leading.see_to_move(zk, hosted, look_at_queue)


def look_at_queue(zk: ZooKeeperState, hosted: Hosted) -> None:
    """Have the commit thread go on, if it has nothing to do yet."""
    leading.look_at_queue(zk, hosted, epochs.write_isr, reassignment.hand_over)
