"""A replica as leader: its high watermark follows the ISR in memory, which changes by writes of a known version."""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.messages.errors import ErrorCode
from broker.core.messages.leadership import PartitionLeadership
from broker.core.ports.coordination import Answer, CallError, GetData, SetData
from broker.core.ports.marks import sometimes
from broker.core.replica.leader import record_fetch
from broker.core.replica.state import RemoteReplica, Role
from broker.zookeeper.designs.controller import znodes
from broker.zookeeper.designs.controller.znodes import PartitionState
from broker.zookeeper.procedures import Sleep, Steps
from broker.zookeeper.requests import producing
from broker.zookeeper.state import Hosted, ZooKeeperState

OPENED = sometimes("zookeeper: a broker leads because the controller says so")
LEADS_ON = sometimes("zookeeper: a leader hears of a later epoch of its own, and keeps what it knows of followers")
SHRUNK = sometimes("zookeeper: a leader drops a lagging follower from the ISR, if its version is right")
GREW = sometimes("zookeeper: a leader takes a follower into the ISR that has reached its high watermark")
SKIPPED = sometimes("zookeeper: a leader's ISR write expects an old version, and is skipped")
TOO_FEW_AFTER = sometimes("zookeeper: a produce is refused after its append, the ISR became too small")

COMPARE = "compare"
ISR = "isr"
LAG = "isr-lag"
_UNKNOWN_START, _NO_EPOCH = -1, -1


def become_leader(zk: ZooKeeperState, hosted: Hosted, state: PartitionLeadership) -> None:
    """Lead in a new epoch. The high watermark stays what it was; the epoch is noted with the first append (C2, C3)."""
    replica = hosted.replica
    zk.procedures.cancel((ISR, hosted.key))
    hosted.pending_isr = ()
    _adopt(hosted, state)
    replica.isr = state.isr
    replica.min_insync_replicas = zk.broker.settings.min_insync_replicas
    if hosted.is_open:
        zk.broker.runtime.mark(LEADS_ON)
    else:
        zk.procedures.cancel((COMPARE, hosted.key))
        zk.broker.runtime.mark(OPENED)
        hosted.open_fetch = None
        replica.remotes = {
            one: RemoteReplica(caught_up_ms=zk.broker.runtime.now_ms if one in state.isr else 0)
            for one in state.replicas
            if one != zk.broker_id
        }
    replica.role = Role.LEADER
    what = f"leads in epoch {replica.leader_epoch}, ISR {list(replica.isr)}, high watermark {replica.high_watermark}"
    zk.broker.runtime.log("info", f"{hosted}: {what}")
    zk.broker.touch(replica)
    advance(zk, hosted)


def _adopt(hosted: Hosted, state: PartitionLeadership) -> None:
    replica = hosted.replica
    replica.leader = state.leader
    replica.leader_epoch = state.leader_epoch
    replica.partition_epoch = state.version
    replica.replicas = state.replicas
    hosted.controller_epoch = state.controller_epoch


def adopt_as_follower(zk: ZooKeeperState, hosted: Hosted, state: PartitionLeadership) -> None:
    """Note whom to follow in which epoch; an ISR write that waits is given up."""
    zk.procedures.cancel((ISR, hosted.key))
    hosted.pending_isr = ()
    _adopt(hosted, state)
    hosted.replica.isr = ()


# --- the high watermark ----------------------------------------------------------------------------------------------


def advance(zk: ZooKeeperState, hosted: Hosted) -> None:
    """Raise the high watermark to the lowest log end in the ISR, and answer whom that concerns.

    It stands still while a write of the ISR is open: brokers of that time held the partition's lock meanwhile.
    """
    replica = hosted.replica
    if not hosted.is_open or hosted.pending_isr:
        return
    end = min((hosted.end_of(member) for member in replica.isr), default=replica.high_watermark)
    if end > replica.high_watermark:
        replica.high_watermark = end
        zk.broker.touch(replica)
    error = ErrorCode.NONE
    if len(replica.isr) < replica.effective_min_isr:
        error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    while hosted.queue and hosted.queue[0].end <= replica.high_watermark:
        if error != ErrorCode.NONE and hosted.queue[0].request_id is not None:
            zk.broker.runtime.mark(TOO_FEW_AFTER)
        producing.committed(zk, hosted, hosted.queue.popleft(), error)


def fetched_from(zk: ZooKeeperState, hosted: Hosted, follower: int, offset: int) -> None:
    """A follower has fetched at an offset, in whatever epoch it is (B-15): note it, and let it into the ISR."""
    replica = hosted.replica
    if follower not in replica.replicas or offset > replica.log.end_offset:
        return
    record_fetch(
        replica.remotes.setdefault(follower, RemoteReplica()),
        offset=offset,
        log_start=_UNKNOWN_START,
        broker_epoch=_NO_EPOCH,
        leader_end=replica.log.end_offset,
        now_ms=zk.broker.runtime.now_ms,
    )
    if follower not in replica.isr and offset >= replica.high_watermark and not hosted.pending_isr:
        zk.broker.runtime.mark(GREW)
        change_isr(zk, hosted, (*replica.isr, follower))
    advance(zk, hosted)


# --- the ISR ---------------------------------------------------------------------------------------------------------


def watch_lag(zk: ZooKeeperState) -> Steps[None]:
    """Twice in the lag time drop the followers from ISRs that have not caught up for that time."""
    lag_ms = zk.keep_in_sync_ms
    while True:
        yield Sleep(lag_ms // 2)
        for hosted in zk.hosted.values():
            replica = hosted.replica
            if not hosted.is_open or hosted.pending_isr:
                continue
            kept = tuple(
                one
                for one in replica.isr
                if one == zk.broker_id or zk.broker.runtime.now_ms - replica.remotes[one].caught_up_ms <= lag_ms
            )
            if kept != replica.isr:
                zk.broker.runtime.mark(SHRUNK)
                change_isr(zk, hosted, kept)


def change_isr(zk: ZooKeeperState, hosted: Hosted, isr: Iterable[int]) -> None:
    """Begin to write another ISR."""
    hosted.pending_isr = tuple(isr)
    zk.procedures.start((ISR, hosted.key), _write_isr(zk, hosted, hosted.pending_isr))


def _write_isr(zk: ZooKeeperState, hosted: Hosted, isr: tuple[int, ...]) -> Steps[None]:
    """Write the state on condition of its version: if another broker has written it, nothing changes (B-22)."""
    replica = hosted.replica
    path = znodes.state(hosted.key)
    data = znodes.encoded_state(PartitionState(zk.broker_id, replica.leader_epoch, isr, hosted.controller_epoch))
    written: Answer = yield SetData(path, data, replica.partition_epoch)
    if written.error is CallError.BAD_VERSION:
        found: Answer = yield GetData(path)
        if found.data == data:
            written = found  # by the first attempt of this call, whose answer was lost
    hosted.pending_isr = ()
    if written.stat is None:
        zk.broker.runtime.mark(SKIPPED)
        zk.broker.runtime.log("warning", f"{hosted}: another has written the state, ISR {list(isr)} is not written")
    else:
        replica.isr, replica.partition_epoch = isr, written.stat.version
        zk.broker.runtime.log("info", f"{hosted}: ISR {list(isr)}")
    advance(zk, hosted)
