"""Moves a partition to other replicas in two steps: the old ones are closed, and once they are out of the ISR it moves.

Both are looked at when a produce request is committed, or regularly if there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.core.messages import UNKNOWN
from broker.core.ports.coordination import Delete
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.choices import KEEPS_REASSIGNMENT
from broker.zookeeper.designs.v2 import epochs, queues
from broker.zookeeper.designs.v2.queues import RequestKind, StateChange
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import write_ids
from broker.zookeeper.replicas import leading
from broker.zookeeper.replicas.leading import MOVED
from broker.zookeeper.state import Hosted, ZooKeeperState

RETURNED = sometimes("zookeeper: a replica that was asked to close is in the ISR again, and asked again")

GIVE_UP = "give-up"


def hand_over(zk: ZooKeeperState, hosted: Hosted, end: int, before: Callable[[], None]) -> Steps[bool]:
    """`checkReassignedReplicas`, `checkLoadBalancing`: whether leadership ends here; `before` is called if it does."""
    if hosted.reassigned and all(hosted.end_of(member) >= end for member in hosted.reassigned):
        old = [one for one in hosted.replica.replicas if one not in hosted.reassigned and one != zk.broker_id]
        left = [one for one in old if one in hosted.replica.isr]
        asked_ms = hosted.asked_to_close_ms
        if asked_ms is None:
            yield from _have_closed(zk, hosted, old)
        elif left:
            yield from _have_returned_closed(zk, hosted, left, asked_ms)
        else:
            leadership_ends = yield from _complete(zk, hosted, before)
            if leadership_ends:
                return True
        if hosted.replica.replicas[0] in old:
            return False  # the preferred replica is being closed
    return (yield from leading.hand_to_preferred(zk, hosted, before))


def _have_closed(zk: ZooKeeperState, hosted: Hosted, members: Sequence[int]) -> Steps[None]:
    hosted.asked_to_close_ms = zk.broker.runtime.now_ms
    for member in members:
        change = StateChange(RequestKind.CLOSE, hosted.key, hosted.epoch, zk.broker_id)
        yield from queues.send(zk, member, change)
        hosted.replica.remotes.pop(member, None)  # once closed it fetches no more, and is late with the next request


def _have_returned_closed(zk: ZooKeeperState, hosted: Hosted, members: Sequence[int], asked_ms: int) -> Steps[None]:
    """Ask those again that fetch all the same: a broker that starts meanwhile opens what the tree assigns to it."""
    returned = [one for one in members if hosted.end_of(one) != UNKNOWN]
    if returned and zk.broker.runtime.now_ms >= asked_ms + zk.keep_in_sync_ms:
        zk.broker.runtime.mark(RETURNED)
        yield from _have_closed(zk, hosted, returned)


def _complete(zk: ZooKeeperState, hosted: Hosted, before: Callable[[], None]) -> Steps[bool]:
    """`completePartitionReassignment`: switch to the new replicas, in separate writes (Z-14); whether leadership ends.

    The request is deleted whether it ends or not (Q18), or a leader that stays would move the partition for ever.
    """
    key, replica, moved_to = hosted.key, hosted.replica, hosted.reassigned
    replica.isr = (*moved_to, *(one for one in replica.isr if one not in moved_to))
    yield from epochs.write_isr(hosted, replica.isr)
    yield from write_ids(paths.replicas(key), moved_to)
    replica.replicas = moved_to
    hosted.catching_up = set()
    hosted.asked_to_close_ms = None
    zk.broker.runtime.mark(MOVED)
    zk.broker.runtime.log("info", f"{hosted}: has moved to {list(moved_to)}")
    ends = moved_to[0] != zk.broker_id
    if ends or not zk.chose(KEEPS_REASSIGNMENT):
        hosted.reassigned = ()
        yield Delete(paths.reassigned(key))
    if ends:
        before()
        leading.step_down(zk, hosted)
        zk.procedures.start((GIVE_UP, key), _give_up(zk, hosted, closes=zk.broker_id not in moved_to))
    return ends


def _give_up(zk: ZooKeeperState, hosted: Hosted, *, closes: bool) -> Steps[None]:
    """Ask oneself to close, and let the others elect: a procedure of its own, which closing does not end."""
    if closes:
        change = StateChange(RequestKind.CLOSE, hosted.key, hosted.epoch, zk.broker_id)
        yield from queues.send(zk, zk.broker_id, change)
    yield Delete(paths.leader(hosted.key))
