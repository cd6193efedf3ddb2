"""Elects a leader: the in-sync replica that first creates the leader znode; who loses follows (`leaderElection`)."""

from __future__ import annotations

from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.choices import LOSER_FOLLOWS_NOBODY
from broker.zookeeper.designs.v2 import epochs, leading
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Sleep, Steps
from broker.zookeeper.reading import read_ids
from broker.zookeeper.replicas import following, racing
from broker.zookeeper.replicas.racing import Outcome
from broker.zookeeper.state import Hosted, ZooKeeperState

UNPUBLISHED = sometimes("zookeeper: a replica of a partition that is being created stands for election")


def assigned_to(key: Key) -> Steps[tuple[int, ...]]:
    """The assigned replicas; of a partition that is being created those that it is to have (Q15)."""
    assigned = yield from read_ids(paths.replicas(key))
    return ((yield from read_ids(paths.reassigned(key))) or ()) if assigned is None else assigned


def leader_election(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """Stand for election, if the replica is assigned and in sync, or nobody is; else, and if it loses, follow.

    Candidates that are not preferred leave the preferred one a head start. High watermarks are not compared (Z-11).
    Nobody tells the losers to follow (Q16), nor those that are not in sync.
    """
    isr, epoch = yield from epochs.read_isr(hosted.key)
    assigned = yield from assigned_to(hosted.key)
    if racing.may_stand(zk, isr, assigned):
        if epoch == epochs.NONE_YET:
            zk.broker.runtime.mark(UNPUBLISHED)
        hosted.replica.replicas = assigned
        if assigned[0] != zk.broker_id:
            yield Sleep(racing.PREFERRED_REPLICA_MS)
        outcome = yield from racing.race(zk, hosted)
        if outcome is Outcome.WON:
            yield from leading.become_leader(zk, hosted, assigned)
            return
        if outcome is Outcome.CANCELLED or zk.chose(LOSER_FOLLOWS_NOBODY):
            return
    yield from following.become_follower(zk, hosted, leading.become_leader_again)
