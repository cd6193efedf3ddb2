"""Elects a leader: the in-sync replica that first creates the leader znode (`leaderElection`)."""

from __future__ import annotations

from broker.core.messages import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import Answer, CallError, Create, Exists, GetChildren
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.procedures import Ask, Sleep, Steps
from broker.zookeeper.reading import read_ids
from broker.zookeeper.state import Hosted, ZooKeeperState
from broker.zookeeper.v1 import leading

ELECTED = sometimes("zookeeper: a replica creates the leader znode")
LOST = sometimes("zookeeper: a replica finds the leader znode taken")
NOT_IN_SYNC = sometimes("zookeeper: a replica does not stand for election, it is not in sync")
ISR_EMPTY = sometimes("zookeeper: the ISR is empty, anyone may lead (Z-10)")
LAGS = sometimes("zookeeper: a candidate waits, another one's high watermark is higher")

PREFERRED_REPLICA_MS = 300
"""`PreferredReplicaTime`: what a candidate leaves to the preferred replica, and to those that know more."""

_ASK_MS = 300
_LATEST = -1


def leader_election(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """Stand for election, if the replica is assigned and in sync, or nobody is; the winner becomes leader.

    Candidates that are not preferred, or know a lower high watermark than another, leave the others a head start; none
    is excluded (Q7). Who loses does nothing: the winner tells it to follow.
    """
    key = hosted.key
    isr = yield from read_ids(paths.insync(key))
    assigned = yield from read_ids(paths.replicas(key))
    if assigned is None or zk.broker_id not in assigned or (isr and zk.broker_id not in isr):
        zk.broker.runtime.mark(NOT_IN_SYNC)
        return
    if not isr:
        zk.broker.runtime.mark(ISR_EMPTY)
    hosted.replica.replicas = assigned
    lags = yield from _another_knows_more(zk, hosted, isr or ())
    if lags:
        zk.broker.runtime.mark(LAGS)
    if lags or assigned[0] != zk.broker_id:
        yield Sleep(PREFERRED_REPLICA_MS)
    created: Answer = yield Create(paths.leader(key), paths.encoded((zk.broker_id,)), ephemeral=True)
    if created.error is CallError.NODE_EXISTS:
        found: Answer = yield Exists(paths.leader(key))
        if found.stat is None or found.stat.owner != zk.session:
            zk.broker.runtime.mark(LOST)
            return  # else it was created by the first attempt of this call, whose answer was lost
    elif created.error is not None:
        return
    zk.broker.runtime.mark(ELECTED)
    yield from leading.become_leader(zk, hosted, isr or (), assigned)


def _another_knows_more(zk: ZooKeeperState, hosted: Hosted, isr: tuple[int, ...]) -> Steps[bool]:
    """Whether a live in-sync replica has a higher high watermark, as far as it answers."""
    live = {int(name) for name in (yield GetChildren(paths.IDS)).children}
    part = ListOffsetsPartition(*hosted.key, _LATEST)
    for member in isr:
        if member in live and member != zk.broker_id:
            response = yield Ask(member, ListOffsetsRequest((part,), replica_id=zk.broker_id), _ASK_MS)
            if isinstance(response, ListOffsetsResponse):
                answer = response.partitions[0]
                if answer.error_code == ErrorCode.NONE and answer.offset > hosted.replica.high_watermark:
                    return True
    return False
