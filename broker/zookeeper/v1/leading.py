"""A replica as leader: takes over, commits one produce request after the other, hands over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.core.messages import UNKNOWN
from broker.core.ports.coordination import Answer, Delete, Exists, GetChildren
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Role
from broker.zookeeper import paths
from broker.zookeeper.choices import ACKNOWLEDGES_FIRST, KEEPS_HIGH_WATERMARK, REMEMBERS_ENDS
from broker.zookeeper.procedures import Steps, Until
from broker.zookeeper.reading import read_ids, write_ids
from broker.zookeeper.requests import fetching, producing
from broker.zookeeper.state import Hosted, ZooKeeperState
from broker.zookeeper.v1 import requests
from broker.zookeeper.v1.requests import StateChange

OPENED = sometimes("zookeeper: a leader opens its partition")
UNREPLICATED = sometimes("zookeeper: a new leader takes for committed what others lack (Z-07)")
SHRUNK = sometimes("zookeeper: a leader drops a follower from the ISR")
GREW = sometimes("zookeeper: a leader takes a follower into the ISR")
HANDED_OVER = sometimes("zookeeper: a leader hands over to the preferred replica")
TAKEN_UP = sometimes("zookeeper: a replica finds that it has won a race which it had given up")
MOVED = sometimes("zookeeper: a reassignment is complete")

COMMIT = "commit"
ROLE = "role"


def become_leader(zk: ZooKeeperState, hosted: Hosted, isr: tuple[int, ...], assigned: tuple[int, ...]) -> Steps[None]:
    """`becomeLeader`: take the log end for committed (Q8), let the others catch up for a while, then open.

    The others are told to follow before that, or nobody would fetch (Q11); all of them, and not only those that are
    not in sync (Q10).
    """
    replica = hosted.replica
    hosted.is_elected = True
    hosted.open_fetch = None
    replica.leader = zk.broker_id
    if not hosted.is_open:  # a leader that was elected again goes on meanwhile
        replica.role = Role.NONE
    if not zk.chose(KEEPS_HIGH_WATERMARK):
        replica.high_watermark = replica.log.end_offset
    if not zk.chose(REMEMBERS_ENDS):
        replica.remotes = {}
    others = [one for one in assigned if one != zk.broker_id]
    for other in others:
        yield from requests.send(zk, hosted, other, StateChange.BECOME_FOLLOWER)
    live = {int(name) for name in (yield GetChildren(paths.IDS)).children}
    end = replica.log.end_offset
    expected = [other for other in others if other in live]
    yield Until(lambda: all(hosted.end_of(other) >= end for other in expected), zk.keep_in_sync_ms)
    insync = tuple(one for one in assigned if one == zk.broker_id or hosted.end_of(one) >= end)
    if len(insync) == 1 and len(isr) > 1 and not zk.chose(KEEPS_HIGH_WATERMARK):
        zk.broker.runtime.mark(UNREPLICATED)
    hosted.catching_up = set(assigned) - set(insync)
    yield from write_ids(paths.insync(hosted.key), insync)
    yield from look_at_reassignment(zk, hosted)
    yield Exists(paths.replicas(hosted.key), watch=True)  # the replica-change listener
    replica.isr = insync
    replica.role = Role.LEADER
    zk.broker.runtime.mark(OPENED)
    zk.broker.runtime.log(
        "info", f"{_name(hosted)}: leads, ISR {list(insync)}, high watermark {replica.high_watermark}"
    )
    zk.broker.touch(replica)


def take_up(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """Become leader by a znode that this session has created, whose race was given up before its answer came."""
    found: Answer = yield Exists(paths.leader(hosted.key))
    if found.stat is None or found.stat.owner != zk.session or hosted.is_open:
        return
    zk.broker.runtime.mark(TAKEN_UP)
    isr = yield from read_ids(paths.insync(hosted.key))
    assigned = yield from read_ids(paths.replicas(hosted.key))
    yield from become_leader(zk, hosted, isr or (), assigned or ())


def look_at_reassignment(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """The partition-reassigned listener: which replicas the partition is to have; new ones are told to start."""
    hosted.reassigned = (yield from read_ids(paths.reassigned(hosted.key))) or ()
    for member in hosted.reassigned:
        if member not in hosted.replica.replicas and member not in hosted.catching_up:
            hosted.catching_up.add(member)
            yield from requests.send(zk, hosted, member, StateChange.REPLICA_ASSIGNED)


def step_down(zk: ZooKeeperState, hosted: Hosted) -> None:
    """Lead no more: the commit thread ends, and what waits for it is refused."""
    hosted.is_elected = False
    if hosted.is_open:
        zk.broker.runtime.log("info", f"{_name(hosted)}: leads no more")
    hosted.replica.role = Role.NONE
    hosted.replica.isr = ()
    hosted.catching_up = set()
    producing.deposed(zk, hosted)
    fetching.wake(zk, hosted)


# --- the commit thread -----------------------------------------------------------------------------------------------


def look_at_queue(zk: ZooKeeperState, hosted: Hosted) -> None:
    """Have the commit thread go on, if it has nothing to do yet."""
    if not zk.procedures.runs((COMMIT, hosted.key)):
        zk.procedures.start((COMMIT, hosted.key), _commit(zk, hosted))


def _commit(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """Commit what is queued, one request after the other; the ISR is looked at here and nowhere else (Z-13)."""
    replica = hosted.replica
    while hosted.queue:
        pending = hosted.queue[0]
        yield from _await_insync(zk, hosted, pending.end)
        for member in sorted(hosted.catching_up):
            if hosted.end_of(member) >= pending.end:
                zk.broker.runtime.mark(GREW)
                hosted.catching_up.discard(member)
                yield from _write_isr(hosted, (*replica.isr, member))

        def advance(end: int = pending.end) -> None:
            replica.high_watermark = end
            zk.broker.touch(replica)
            producing.committed(zk, hosted, hosted.queue.popleft())

        if not zk.chose(ACKNOWLEDGES_FIRST):
            handed_over = yield from _hand_over(zk, hosted, pending.end, lambda: None)
            if handed_over:
                return  # before the high watermark and the answer: the client will send it again (Z-15)
            advance()
        elif (yield from _hand_over(zk, hosted, pending.end, advance)):
            return
        else:
            advance()


def _await_insync(zk: ZooKeeperState, hosted: Hosted, end: int) -> Steps[None]:
    """Wait for each in-sync replica for `KeepInSyncTime`, one after the other (Q24); without those that are late."""
    replica = hosted.replica
    while True:
        late = None
        for member in replica.isr:
            if not (yield Until(partial(_has_reached, hosted, member, end), zk.keep_in_sync_ms)):
                late = member
                break
        if late is None:
            return
        zk.broker.runtime.mark(SHRUNK)
        hosted.catching_up.add(late)
        yield from _write_isr(hosted, tuple(one for one in replica.isr if one != late))


def _has_reached(hosted: Hosted, member: int, end: int) -> bool:
    return hosted.end_of(member) >= end


def _write_isr(hosted: Hosted, isr: tuple[int, ...]) -> Steps[None]:
    hosted.replica.isr = isr
    yield from write_ids(paths.insync(hosted.key), isr)


def _hand_over(zk: ZooKeeperState, hosted: Hosted, end: int, before: Callable[[], None]) -> Steps[bool]:
    """`checkReassignedReplicas`, `checkLoadBalancing`: whether leadership ends here; `before` is called if it does."""
    replica = hosted.replica
    if hosted.reassigned and all(hosted.end_of(member) >= end for member in hosted.reassigned):
        before()
        yield from _move(zk, hosted)
        return True
    preferred = replica.replicas[0] if replica.replicas else UNKNOWN
    if preferred not in (UNKNOWN, zk.broker_id) and preferred in replica.isr:
        before()
        zk.broker.runtime.mark(HANDED_OVER)
        zk.broker.runtime.log("info", f"{_name(hosted)}: hands over to {preferred}, the preferred replica")
        step_down(zk, hosted)
        yield Delete(paths.leader(hosted.key))
        return True
    return False


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
    step_down(zk, hosted)
    yield Delete(paths.leader(key))
    yield Delete(paths.reassigned(key))
    if zk.broker_id in removed:
        yield from requests.send(zk, hosted, zk.broker_id, StateChange.REPLICA_UNASSIGNED)


def _name(hosted: Hosted) -> str:
    return f"{hosted.replica.topic}-{hosted.replica.partition}"
