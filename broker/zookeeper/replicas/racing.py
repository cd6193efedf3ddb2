"""The race for the leader znode: who creates it leads."""

from __future__ import annotations

from enum import Enum

from broker.core.ports.coordination import Answer, CallError, Create, Exists
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.procedures import Steps
from broker.zookeeper.state import Hosted, ZooKeeperState

ELECTED = sometimes("zookeeper: a replica creates the leader znode")
LOST = sometimes("zookeeper: a replica finds the leader znode taken")
NOT_IN_SYNC = sometimes("zookeeper: a replica does not stand for election, it is not in sync")
ISR_EMPTY = sometimes("zookeeper: the ISR is empty, anyone may lead (Z-10)")

PREFERRED_REPLICA_MS = 300
"""`PreferredReplicaTime`: what a candidate leaves to the preferred replica, and to those that know more."""


class Outcome(Enum):
    """How the race has ended."""

    WON = "won"
    LOST = "lost"
    CANCELLED = "cancelled"
    """There is no such partition any more."""


def may_stand(zk: ZooKeeperState, isr: tuple[int, ...], assigned: tuple[int, ...]) -> bool:
    """Whether this broker may be elected: it is assigned, and in sync, or nobody is (Z-10)."""
    if zk.broker_id not in assigned or (isr and zk.broker_id not in isr):
        zk.broker.runtime.mark(NOT_IN_SYNC)
        return False
    if not isr:
        zk.broker.runtime.mark(ISR_EMPTY)
    return True


def race(zk: ZooKeeperState, hosted: Hosted) -> Steps[Outcome]:
    """Try to create the leader znode."""
    created: Answer = yield Create(paths.leader(hosted.key), paths.encoded((zk.broker_id,)), ephemeral=True)
    if created.error is CallError.NODE_EXISTS:
        found: Answer = yield Exists(paths.leader(hosted.key))
        if found.stat is None or found.stat.owner != zk.session:
            zk.broker.runtime.mark(LOST)
            return Outcome.LOST  # else it was created by the first attempt of this call, whose answer was lost
    elif created.error is not None:
        return Outcome.CANCELLED
    zk.broker.runtime.mark(ELECTED)
    return Outcome.WON
