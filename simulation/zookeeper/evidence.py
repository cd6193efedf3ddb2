"""Notes, in the design with a controller, by which documented flaw replicas came to lack what was acknowledged.

| flaw | what is seen |
|---|---|
| B-11 | C1: a follower cuts what it holds above its high watermark |
| B-12 | C1: after its cut a follower's log differs from its leader's |
| B-13 | C2: it does so after an answer that named no epoch |
| B-15 | a broker that the tree does not name answers, or acknowledges |
| B-17 | C2, C3: a follower cuts to its high watermark, since its leader has not noted its own epoch yet |
| B-18 | a follower goes on with a leader whose epoch is another, and whose log is; or joins the ISR so |
| B-19 | a replica joins the ISR at a high watermark that is below what an earlier leader has acknowledged |
| B-05 | a replica deletes its log by a request that was meant for an earlier topic of the name |
| B-21 | no leader, and a broker that runs, and that the controller takes for one that wants to stop |
| KAFKA-1120 | no leader, or no acknowledgement, and a broker that the controller takes for one it has told everything |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.log.log import Log
from broker.core.messages import UNKNOWN
from broker.core.replica.state import Role
from broker.zookeeper.choices import C1, C2
from broker.zookeeper.state import Cut, Hosted
from simulation.engine.cluster import SimulatedCluster
from simulation.zookeeper.ensemble import SimulatedEnsemble
from simulation.zookeeper.views import hosted_by, state_of

TO_HIGH_WATERMARK = "B-11: a follower cuts off what it holds above its own high watermark, and is elected"
UNSYNCED = "B-12, B-52: logs are synced later, and an in-sync replica that lost its end is elected"
ENDS_ALONE = "B-12: a follower cuts to its high watermark, below which the logs differ"
WITHOUT_EPOCH = "B-13: an answer does not say of which epoch its offset is (KIP-279)"
EARLIER_LEADER = "B-15: a broker that the tree does not name any more goes on as leader, and no request has an epoch"
EPOCH_NOT_NOTED = "B-17: a leader notes its epoch at its first append, and its followers cut to their high watermarks"
NOT_COMPARED = "B-18: a follower that missed an epoch does not compare its log with its leader's"
JOINED_BELOW = "B-19: a replica joins the ISR below where its leader's epoch began"
UNNOTICED = "KAFKA-1120: a broker was away between two looks of the controller, which tells its new process nothing"
DELETED_LATE = "B-05: a request to delete a replica comes late, to that of the next topic of the name (KIP-570)"
STALE_REQUEST = "B-21: the request to stop of a broker's earlier process is obeyed, and the broker is not elected"


class Acknowledged(NamedTuple):
    """A batch that was acknowledged to a producer with acks=all."""

    base: int
    last: int
    crc: int
    by: int
    named: int | None
    """The leader in the tree then."""

    insync: tuple[int, ...]
    """The in-sync replicas in the tree then."""

    believed: tuple[int, ...]
    """Those that had to have it, by what its broker knew."""

    behind: tuple[int, ...] = ()
    """Those of them that were in another leader epoch: only with a controller."""


def holds(log: Log, one: Acknowledged) -> bool:
    """Whether a log has an acknowledged batch at its place."""
    header = log.batch_at(one.base)
    return header is not None and (header.base_offset, header.crc) == (one.base, one.crc)


class _Seen(NamedTuple):
    """What was last seen of a replica."""

    role: Role
    leader: int
    leader_epoch: int
    last_cut: Cut | None
    pending_isr: tuple[int, ...]


@dataclass(slots=True)
class Evidence:
    """Of one partition."""

    leaders: dict[int, int] = field(default_factory=dict)
    """Leader epoch -> who has led in it."""

    _cut: dict[tuple[int, Acknowledged], str] = field(default_factory=dict)
    _joined: dict[tuple[int, Acknowledged], str] = field(default_factory=dict)
    _differs: dict[int, str] = field(default_factory=dict)
    _seen: dict[int, _Seen] = field(default_factory=dict)

    def cut(
        self,
        cluster: SimulatedCluster,
        ensemble: SimulatedEnsemble,
        broker_id: int,
        hosted: Hosted,
        gone: Iterable[Acknowledged],
    ) -> None:
        """A follower has cut these off."""
        why = hosted.last_cut
        state = state_of(ensemble.tree, hosted.key)
        leader = hosted.replica.leader
        answering = hosted_by(cluster, leader, hosted.key)
        is_current = (
            state is not None
            and state.leader == leader
            and answering is not None
            and answering.replica.leader_epoch == hosted.replica.leader_epoch
        )
        cause = ""
        if ensemble.generation == C1 and why is not None and why.to_high_watermark:
            cause = TO_HIGH_WATERMARK
        elif not is_current:
            cause = EARLIER_LEADER
        elif why is not None and why.to_high_watermark:
            cause = EPOCH_NOT_NOTED
        for one in gone:
            self._cut[broker_id, one] = cause

    def look(
        self,
        cluster: SimulatedCluster,
        generation: str,
        broker_id: int,
        hosted: Hosted,
        acknowledged: Sequence[Acknowledged],
    ) -> None:
        """Note who joins the ISR without what was acknowledged, and who begins to follow with another log."""
        replica = hosted.replica
        before = self._seen.get(broker_id)
        now = _Seen(replica.role, replica.leader, replica.leader_epoch, hosted.last_cut, hosted.pending_isr)
        if now == before:
            return
        self._seen[broker_id] = now
        for member in hosted.pending_isr:
            joining = hosted_by(cluster, member, hosted.key) if member not in replica.isr else None
            if joining is not None:
                differs = differ(joining.replica.log, replica.log)
                behind = NOT_COMPARED if joining.replica.leader_epoch != replica.leader_epoch else ""
                why = self._differs.get(member, behind) if differs else ""
                for one in acknowledged:
                    if not holds(joining.replica.log, one):
                        self._joined[member, one] = JOINED_BELOW if replica.high_watermark <= one.base else why
        if replica.role is Role.FOLLOWER:
            leader = hosted_by(cluster, replica.leader, hosted.key)
            if leader is not None and differ(replica.log, leader.replica.log):
                is_same = before is not None and before.leader == now.leader and before.last_cut == now.last_cut
                self._differs.setdefault(broker_id, _why_different(generation, hosted.last_cut, is_same=is_same))
            else:
                self._differs.pop(broker_id, None)

    def cause(self, broker_id: int, one: Acknowledged, *, held: bool) -> str:
        """Why a replica lacks it; "" if no documented flaw explains that. `held`: it has had it."""
        if (broker_id, one) in self._cut:
            return self._cut[broker_id, one]
        if held:
            return ""
        if broker_id in one.believed:
            return self._differs.get(broker_id, NOT_COMPARED if broker_id in one.behind else "")
        if one.named != one.by:
            return EARLIER_LEADER
        return self._joined.get((broker_id, one), "")


def _why_different(generation: str, last_cut: Cut | None, *, is_same: bool) -> str:
    if is_same or last_cut is None:
        return NOT_COMPARED
    if last_cut.to_high_watermark:
        return ENDS_ALONE if generation == C1 else EPOCH_NOT_NOTED
    if last_cut.epoch == UNKNOWN:
        return WITHOUT_EPOCH if generation == C2 else NOT_COMPARED
    return ""


def differ(one: Log, other: Log) -> bool:
    """Whether two logs have different batches where both have some."""
    offset, end = max(one.start_offset, other.start_offset), min(one.end_offset, other.end_offset)
    while offset < end:
        first, second = one.batch_at(offset), other.batch_at(offset)
        if first is None or second is None or (first.base_offset, first.crc) != (second.base_offset, second.crc):
            return True
        offset = first.last_offset + 1
    return False
