"""Requests ISR changes from the controller and handles the answers (§9)."""

from __future__ import annotations

from broker.core.broker_node.state import CONTROL, BrokerState
from broker.core.messages import (
    UNKNOWN,
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from broker.core.metadata.records import RECOVERED, RECOVERING
from broker.core.ports.marks import sometimes
from broker.core.replica import leader
from broker.core.replica.state import PendingIsr, Replica, Role
from broker.core.rules.insync_replicas import AfterAnswer

EXPANSION_PROPOSED = sometimes("ISR: the leader proposes to expand it (ISR-E)")
SHRINK_PROPOSED = sometimes("ISR: the leader proposes to shrink it (ISR-S)")
SHRINK_OF_SEVERAL = sometimes("ISR: the leader proposes to drop several members at once (ISR-S)")
ADOPTED = sometimes("ISR: the controller's answer is adopted (ISR-4)")
ANSWER_TOO_OLD = sometimes("ISR: an accepting answer is older than what is known (ISR-4)")
ANSWER_UNWANTED = sometimes("ISR: the answer is to a change that is not pending any more (ISR-4)")
ROLLED_BACK = sometimes("ISR: a change that was certainly not applied is rolled back (ISR-4)")
STAYS_PENDING = sometimes("ISR: a refused change stays pending until metadata comes (ISR-4)")
RETRIED_UNANSWERED = sometimes("ISR: the identical request is sent again, there was no answer (ISR-4)")
RETRIED_REFUSED = sometimes("ISR: the identical request is sent again, the answer decided nothing (ISR-4)")
HELD_BACK = sometimes("high watermark: held back, the ISR is below min ISR (HW-3)")
HELD_BACK_BY_MAXIMAL = sometimes("high watermark: held back by a member that only the maximal ISR has (HW-1, ISR-3)")
HELD_BACK_FOR_METADATA = sometimes("high watermark: held back until the metadata of the ISR has come (HW-3, MD-4)")
RECOVERY_DECLARED = sometimes("ISR: the leader of an unclean election says that it has recovered (EL-9)")

ALTER_PARTITION = "alter-partition"
SHRINK = "isr-shrink"
BUILD = "isr-build"


def propose(broker: BrokerState, replica: Replica) -> None:
    """ISR-1: send the proposed change with the state that it was judged by."""
    assert replica.pending_isr is not None, "a proposed change is pending"
    gone = len(replica.isr) - len(replica.pending_isr.isr)
    broker.runtime.mark(EXPANSION_PROPOSED if gone < 0 else SHRINK_PROPOSED)
    if gone > 1:
        broker.runtime.mark(SHRINK_OF_SEVERAL)
    delay_ms = broker.rules.isr.ms_until_request()
    if delay_ms:
        broker.runtime.set_timer((BUILD, *replica.key, replica.pending_isr.request), delay_ms)
    else:
        send(broker, replica)


def build_late(broker: BrokerState, key: tuple[str, int], request: AlterPartitionPartition) -> None:
    """For rules without ISR-1: build the request from the present state."""
    replica = broker.replicas.get(key)
    if replica is not None and replica.pending_isr is not None and replica.pending_isr.request == request:
        isr = replica.pending_isr.isr
        replica.pending_isr = PendingIsr(isr, leader.build_request(replica, isr, broker.image))
        send(broker, replica)


def send(broker: BrokerState, replica: Replica) -> None:
    """Send the pending change; ISR-2: at most one is pending."""
    assert replica.pending_isr is not None, "only a pending change is sent"
    broker.runtime.send(
        broker.controller_id,
        AlterPartitionRequest(broker.broker_id, broker.broker_epoch, (replica.pending_isr.request,)),
        channel=CONTROL,
        timeout_ms=broker.settings.request_timeout_ms,
        purpose=ALTER_PARTITION,
        context=replica.key,
    )


def answered(
    broker: BrokerState,
    key: tuple[str, int],
    asked: AlterPartitionRequest,
    response: AlterPartitionResponse | None,
) -> None:
    """ISR-4: adopt the answer, roll back, wait for metadata, or retry."""
    replica = broker.replicas.get(key)
    request = asked.partitions[0]
    if replica is None or replica.pending_isr is None or replica.pending_isr.request != request:
        broker.runtime.mark(ANSWER_UNWANTED)
        return
    part = response.partitions[0] if response is not None and response.partitions else None
    error = None if response is None else (response.error_code or (part.error_code if part else None))
    match broker.rules.isr.after_answer(error):
        case AfterAnswer.ADOPT if part is not None:
            _adopt(broker, replica, part)
        case AfterAnswer.ROLL_BACK:
            broker.runtime.mark(ROLLED_BACK)
            replica.pending_isr = None
            if broker.rules.high_watermark.moves_with_isr():  # who was to join does not hold it back any more
                high_watermark_may_move(broker, replica)
        case AfterAnswer.RETRY:
            broker.runtime.mark(RETRIED_UNANSWERED if response is None else RETRIED_REFUSED)
            broker.runtime.set_timer((ALTER_PARTITION, *key, request), broker.settings.metadata_retry_backoff_ms)
        case _:
            broker.runtime.mark(STAYS_PENDING)


def retry(broker: BrokerState, key: tuple[str, int], request: AlterPartitionPartition) -> None:
    """Retry the identical request if it is still pending."""
    replica = broker.replicas.get(key)
    if replica is not None and replica.pending_isr is not None and replica.pending_isr.request == request:
        send(broker, replica)


def _adopt(broker: BrokerState, replica: Replica, part: AlteredPartition) -> None:
    if part.leader_epoch != replica.leader_epoch or part.partition_epoch < replica.partition_epoch:
        broker.runtime.mark(ANSWER_TOO_OLD)
        return
    broker.runtime.mark(ADOPTED)
    replica.pending_isr = None
    replica.isr = part.isr
    replica.partition_epoch = part.partition_epoch
    replica.recovery_state = part.leader_recovery_state
    broker.runtime.log("info", f"{replica.topic}-{replica.partition}: ISR {list(part.isr)}")
    changed(broker, replica)


def changed(broker: BrokerState, replica: Replica) -> None:
    """The controller has changed the ISR or the leadership."""
    if broker.rules.isr.expands_from_memory():
        for member in replica.remotes:
            if leader.propose_expansion(replica, member, broker.image, broker.rules):
                send(broker, replica)
    if broker.rules.high_watermark.moves_with_isr():
        high_watermark_may_move(broker, replica)


def high_watermark_may_move(broker: BrokerState, replica: Replica) -> None:
    """HW-4: a condition of the high watermark has changed; try to advance it."""
    if replica.role is not Role.LEADER:
        return
    known = broker.image.partition(replica.topic, replica.partition)
    epoch_of_image = known.partition_epoch if known is not None else UNKNOWN
    if not broker.rules.high_watermark.knows_min_isr(replica.partition_epoch, epoch_of_image):
        broker.runtime.mark(HELD_BACK_FOR_METADATA)
        return
    if leader.advance_high_watermark(replica, broker.rules):
        broker.touch(replica)
    elif replica.high_watermark < replica.log.end_offset:
        _mark_held_back(broker, replica)


def _mark_held_back(broker: BrokerState, replica: Replica) -> None:
    ends = [remote.log_end for member, remote in replica.remotes.items() if member in replica.isr]
    if min(ends, default=replica.reported_end) <= replica.high_watermark:
        return
    if len(replica.isr) < replica.effective_min_isr:
        broker.runtime.mark(HELD_BACK)
    elif replica.pending_isr is not None:
        broker.runtime.mark(HELD_BACK_BY_MAXIMAL)


def shrink_all(broker: BrokerState) -> None:
    """ISR-S: propose shrinks, every half of the lag time."""
    lag_max_ms = broker.settings.replica_lag_time_max_ms
    for replica in broker.replicas.values():
        if replica.role is not Role.LEADER:
            continue
        before, replica.log_end_when_watched = replica.log_end_when_watched, replica.log.end_offset
        if not broker.rules.isr.is_watched(appended_since=replica.log.end_offset > before):
            continue
        lagging = leader.propose_shrink(replica, broker.image, broker.rules, broker.runtime.now_ms, lag_max_ms)
        if lagging:
            broker.runtime.log("info", f"{replica.topic}-{replica.partition}: {list(lagging)} lag; asking to shrink")
            propose(broker, replica)
    broker.runtime.set_timer((SHRINK,), max(1, lag_max_ms // 2))


def finish_recovery(broker: BrokerState, replica: Replica) -> None:
    """EL-9: a leader elected uncleanly reports its recovery; its ISR is still itself alone."""
    if replica.recovery_state != RECOVERING or replica.pending_isr is not None:
        return
    request = AlterPartitionPartition(
        replica.topic,
        replica.partition,
        replica.leader_epoch,
        replica.partition_epoch,
        ((broker.broker_id, broker.broker_epoch),),
        RECOVERED,
        replica.topic_id,
    )
    broker.runtime.mark(RECOVERY_DECLARED)
    replica.pending_isr = PendingIsr(replica.isr, request)
    send(broker, replica)
