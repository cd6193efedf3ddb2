"""A replica as leader: takes over, commits one produce request after the other, hands over to the preferred replica."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.core.messages import UNKNOWN
from broker.core.ports.coordination import Answer, Delete, Exists, GetChildren
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Role
from broker.zookeeper import paths
from broker.zookeeper.choices import ACKNOWLEDGES_FIRST, KEEPS_HIGH_WATERMARK, REMEMBERS_ENDS
from broker.zookeeper.procedures import Sleep, Steps, Until
from broker.zookeeper.requests import fetching, producing
from broker.zookeeper.state import Hosted, PendingProduce, ZooKeeperState

OPENED = sometimes("zookeeper: a leader opens its partition")
UNREPLICATED = sometimes("zookeeper: a new leader takes for committed what others lack (Z-07)")
SHRUNK = sometimes("zookeeper: a leader drops a follower from the ISR")
GREW = sometimes("zookeeper: a leader takes a follower into the ISR")
HANDED_OVER = sometimes("zookeeper: a leader hands over to the preferred replica")
MOVED = sometimes("zookeeper: a reassignment is complete")
TAKEN_UP = sometimes("zookeeper: a replica finds that it has won a race which it had given up")

COMMIT = "commit"
ROLE = "role"
MOVE = "move"

BecomeLeader = Callable[[ZooKeeperState, Hosted], Steps[None]]
"""The design's `becomeLeader`."""

WriteIsr = Callable[[Hosted, tuple[int, ...]], Steps[None]]
"""Writes these in-sync replicas into the tree."""

HandOver = Callable[[ZooKeeperState, Hosted, int, Callable[[], None]], Steps[bool]]
"""Whether leadership ends once this offset is committed: for a reassignment, or for the preferred replica.

The function that it is given is called before leadership ends, if it does.
"""


# --- taking over -----------------------------------------------------------------------------------------------------


def take_over(zk: ZooKeeperState, hosted: Hosted) -> None:
    """Serve followers from now on; take the log end for committed (Q8), and forget what followers reported before."""
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


def await_followers(
    zk: ZooKeeperState, hosted: Hosted, isr: tuple[int, ...], assigned: tuple[int, ...]
) -> Steps[tuple[int, ...]]:
    """Wait for those that are live, for `KeepInSyncTime` at most; the replicas that are in sync then."""
    live = {int(name) for name in (yield GetChildren(paths.IDS)).children}
    end = hosted.replica.log.end_offset
    expected = [other for other in assigned if other != zk.broker_id and other in live]
    yield Until(lambda: all(hosted.end_of(other) >= end for other in expected), zk.keep_in_sync_ms)
    insync = tuple(one for one in assigned if one == zk.broker_id or hosted.end_of(one) >= end)
    if len(insync) == 1 and len(isr) > 1 and not zk.chose(KEEPS_HIGH_WATERMARK):
        zk.broker.runtime.mark(UNREPLICATED)
    hosted.catching_up = set(assigned) - set(insync)
    return insync


def open_partition(zk: ZooKeeperState, hosted: Hosted, insync: tuple[int, ...]) -> None:
    """Serve clients from now on."""
    replica = hosted.replica
    replica.isr = insync
    replica.role = Role.LEADER
    zk.broker.runtime.mark(OPENED)
    zk.broker.runtime.log("info", f"{hosted}: leads, ISR {list(insync)}, high watermark {replica.high_watermark}")
    zk.broker.touch(replica)


def take_up(zk: ZooKeeperState, hosted: Hosted, become_leader: BecomeLeader) -> Steps[None]:
    """Become leader by a znode that this session has created, whose race was given up before its answer came."""
    found: Answer = yield Exists(paths.leader(hosted.key))
    if found.stat is None or found.stat.owner != zk.session or hosted.is_open:
        return
    zk.broker.runtime.mark(TAKEN_UP)
    yield from become_leader(zk, hosted)


def see_to_own(zk: ZooKeeperState, hosted: Hosted, become_leader: BecomeLeader) -> None:
    """The leader znode names this broker: see that it leads."""
    role = (ROLE, hosted.key)
    if not hosted.is_open and not zk.procedures.runs(role):
        zk.procedures.start(role, take_up(zk, hosted, become_leader))


def step_down(zk: ZooKeeperState, hosted: Hosted) -> None:
    """Lead no more: the commit thread ends, and what waits for it is refused."""
    hosted.is_elected = False
    if hosted.is_open:
        zk.broker.runtime.log("info", f"{hosted}: leads no more")
    hosted.replica.role = Role.NONE
    hosted.replica.isr = ()
    hosted.catching_up = set()
    producing.deposed(zk, hosted)
    fetching.wake(zk, hosted)


# --- the commit thread -----------------------------------------------------------------------------------------------


def look_at_queue(zk: ZooKeeperState, hosted: Hosted, write_isr: WriteIsr, hand_over: HandOver) -> None:
    """Have the commit thread go on, if it has nothing to do yet."""
    if not zk.procedures.runs((COMMIT, hosted.key)):
        zk.procedures.start((COMMIT, hosted.key), _commit(zk, hosted, write_isr, hand_over))


def see_to_move(zk: ZooKeeperState, hosted: Hosted, commit: Callable[[ZooKeeperState, Hosted], None]) -> None:
    """Have the commit thread look at a move of the partition regularly, though nobody writes to it.

    The text has it looked at with each produce request, and remarks that it could be done periodically.
    """
    if hosted.reassigned and not zk.procedures.runs((MOVE, hosted.key)):
        zk.procedures.start((MOVE, hosted.key), _keep_moving(zk, hosted, commit))


def _keep_moving(zk: ZooKeeperState, hosted: Hosted, commit: Callable[[ZooKeeperState, Hosted], None]) -> Steps[None]:
    while hosted.is_elected and hosted.reassigned:
        yield Sleep(zk.keep_in_sync_ms)
        if hosted.is_open and hosted.reassigned and not hosted.queue:
            hosted.queue.append(PendingProduce(hosted.replica.log.end_offset, None))
            commit(zk, hosted)


def _commit(zk: ZooKeeperState, hosted: Hosted, write_isr: WriteIsr, hand_over: HandOver) -> Steps[None]:
    """Commit what is queued, one request after the other; the ISR is looked at here and nowhere else (Z-13)."""
    replica = hosted.replica
    while hosted.queue:
        pending = hosted.queue[0]
        yield from _await_insync(zk, hosted, pending.end, write_isr)
        for member in sorted(hosted.catching_up):
            if hosted.end_of(member) >= pending.end:
                zk.broker.runtime.mark(GREW)
                hosted.catching_up.discard(member)
                yield from _change_isr(hosted, (*replica.isr, member), write_isr)

        def advance(end: int = pending.end) -> None:
            replica.high_watermark = end
            zk.broker.touch(replica)
            producing.committed(zk, hosted, hosted.queue.popleft())

        if not zk.chose(ACKNOWLEDGES_FIRST):
            handed_over = yield from hand_over(zk, hosted, pending.end, lambda: None)
            if handed_over:
                return  # before the high watermark and the answer: the client will send it again (Z-15)
            advance()
        elif (yield from hand_over(zk, hosted, pending.end, advance)):
            return
        else:
            advance()


def _await_insync(zk: ZooKeeperState, hosted: Hosted, end: int, write_isr: WriteIsr) -> Steps[None]:
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
        yield from _change_isr(hosted, tuple(one for one in replica.isr if one != late), write_isr)


def _has_reached(hosted: Hosted, member: int, end: int) -> bool:
    return hosted.end_of(member) >= end


def _change_isr(hosted: Hosted, isr: tuple[int, ...], write_isr: WriteIsr) -> Steps[None]:
    hosted.replica.isr = isr
    yield from write_isr(hosted, isr)


def hand_to_preferred(zk: ZooKeeperState, hosted: Hosted, before: Callable[[], None]) -> Steps[bool]:
    """`checkLoadBalancing`: whether leadership ends because the preferred replica is in sync again."""
    replica = hosted.replica
    preferred = replica.replicas[0] if replica.replicas else UNKNOWN
    if preferred in (UNKNOWN, zk.broker_id) or preferred not in replica.isr:
        return False
    before()
    zk.broker.runtime.mark(HANDED_OVER)
    zk.broker.runtime.log("info", f"{hosted}: hands over to {preferred}, the preferred replica")
    step_down(zk, hosted)
    yield Delete(paths.leader(hosted.key))
    return True
