"""A replica as leader: remote state, high watermark, ISR proposals (§8, §9, §11)."""

from __future__ import annotations

from broker.core.messages import UNKNOWN, AlterPartitionPartition
from broker.core.metadata.image import Image
from broker.core.replica.state import PendingIsr, RemoteReplica, Replica, Role
from broker.core.rules import Rules


def become_leader(replica: Replica, rules: Rules, now_ms: int) -> None:
    """RT-1: a new leader epoch. The epoch is cached now, not at the first append (KAFKA-7415)."""
    replica.role = Role.LEADER
    replica.leader_epoch_start = replica.log.end_offset
    if rules.truncation.begins_epoch_at_once():
        replica.log.epochs.begin(replica.leader_epoch, replica.log.end_offset)
    replica.high_watermark = rules.high_watermark.on_becoming_leader(replica.high_watermark, replica.log.end_offset)
    replica.pending_isr = None
    replica.remotes = {
        member: RemoteReplica(caught_up_ms=now_ms if member in replica.isr else 0)
        for member in replica.replicas
        if member != replica.broker_id
    }


def renew_leadership(replica: Replica, rules: Rules, now_ms: int) -> None:
    """RT-3: leadership lost and regained between two metadata updates: the followers' known state is invalid."""
    kept = {
        member: remote
        for member, remote in replica.remotes.items()
        if rules.isr.keeps_remote_state(member in replica.isr)
    }
    become_leader(replica, rules, now_ms)
    for member, remote in kept.items():
        if member in replica.remotes:
            remote.fetched_in_epoch = False
            replica.remotes[member] = remote


def adopt_assignment(replica: Replica, now_ms: int) -> None:
    """RT-2: same epoch. Removed replicas are dropped, added ones begin as unknown."""
    replica.remotes = {
        member: replica.remotes.get(member) or RemoteReplica(caught_up_ms=now_ms if member in replica.isr else 0)
        for member in replica.replicas
        if member != replica.broker_id
    }


def record_fetch(
    remote: RemoteReplica, *, offset: int, log_start: int, broker_epoch: int, leader_end: int, now_ms: int
) -> None:
    """FE-9 and LG-1: a valid fetch at `offset` proves that the follower holds everything before it."""
    if offset >= leader_end:
        remote.caught_up_ms = now_ms
    elif remote.leader_end_at_last_fetch != UNKNOWN and offset >= remote.leader_end_at_last_fetch:
        remote.caught_up_ms = max(remote.caught_up_ms, remote.last_fetch_ms)
    remote.log_end = offset
    remote.log_start = log_start
    remote.broker_epoch = broker_epoch
    remote.fetched_in_epoch = True
    remote.last_fetch_ms = now_ms
    remote.leader_end_at_last_fetch = leader_end


def maximal_isr(replica: Replica, rules: Rules) -> frozenset[int]:
    """ISR-0: the ISR that the controller has or may have soon."""
    return rules.isr.maximal(replica.isr, replica.pending_isr.isr if replica.pending_isr else None)


def advance_high_watermark(replica: Replica, rules: Rules) -> bool:
    """HW-1 … HW-4: advance the high watermark as the rules allow; returns whether it moved."""
    maximal = maximal_isr(replica, rules)
    candidate = rules.high_watermark.candidate(
        replica.reported_end,
        [
            replica.remotes[member].log_end if member in replica.remotes else UNKNOWN
            for member in sorted(maximal)
            if member != replica.broker_id
        ],
    )
    if not rules.high_watermark.may_advance(
        replica.high_watermark, candidate, replica.isr, maximal, replica.effective_min_isr
    ):
        return False
    replica.high_watermark = candidate
    return True


def propose_expansion(replica: Replica, follower: int, image: Image, rules: Rules) -> bool:
    """ISR-E: propose to add a follower if all of its conditions hold; returns whether a change is now pending."""
    remote = replica.remotes.get(follower)
    if remote is None or replica.pending_isr is not None or follower in replica.isr:
        return False
    if not rules.isr.has_caught_up(
        remote.log_end, replica.high_watermark, replica.leader_epoch_start, remote.fetched_in_epoch
    ):
        return False
    if not rules.isr.has_deleted(remote.log_start, replica.log.start_offset):
        return False
    if not rules.isr.is_eligible(image.brokers.get(follower), remote.broker_epoch):
        return False
    _propose(replica, (*replica.isr, follower), image)
    return True


def propose_shrink(replica: Replica, image: Image, rules: Rules, now_ms: int, lag_max_ms: int) -> tuple[int, ...]:
    """ISR-S: propose to drop all lagging members; returns them."""
    if replica.pending_isr is not None:
        return ()
    lagging = tuple(
        member
        for member in replica.isr
        if member != replica.broker_id
        and (remote := replica.remotes.get(member)) is not None
        and rules.isr.lags(remote.log_end, replica.log.end_offset, now_ms - remote.caught_up_ms, lag_max_ms)
    )
    if lagging:
        _propose(replica, tuple(member for member in replica.isr if member not in lagging), image)
    return lagging


def _propose(replica: Replica, isr: tuple[int, ...], image: Image) -> None:
    """ISR-2: the change is pending before it is sent."""
    replica.pending_isr = PendingIsr(isr, build_request(replica, isr, image))


def build_request(replica: Replica, isr: tuple[int, ...], image: Image) -> AlterPartitionPartition:
    """ISR-1: the request carries the epochs of the states that were judged."""
    members = tuple(
        (
            member,
            image.broker_epoch(member) if member == replica.broker_id else replica.remotes[member].broker_epoch,
        )
        for member in isr
    )
    return AlterPartitionPartition(
        replica.topic,
        replica.partition,
        replica.leader_epoch,
        replica.partition_epoch,
        members,
        topic_id=replica.topic_id,
    )
