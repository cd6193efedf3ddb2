"""Elects a leader: the in-sync replica that first creates the leader znode (`leaderElection`)."""

from __future__ import annotations

from broker.core.messages import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import GetChildren
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.designs.v1 import leading
from broker.zookeeper.procedures import Ask, Sleep, Steps
from broker.zookeeper.reading import read_ids
from broker.zookeeper.replicas import racing
from broker.zookeeper.replicas.racing import Outcome
from broker.zookeeper.state import Hosted, ZooKeeperState

LAGS = sometimes("zookeeper: a candidate waits, another one's high watermark is higher")

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
    if assigned is None or not racing.may_stand(zk, isr or (), assigned):
        return
    hosted.replica.replicas = assigned
    lags = yield from _another_knows_more(zk, hosted, isr or ())
    if lags:
        zk.broker.runtime.mark(LAGS)
    if lags or assigned[0] != zk.broker_id:
        yield Sleep(racing.PREFERRED_REPLICA_MS)
    if (yield from racing.race(zk, hosted)) is Outcome.WON:
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
