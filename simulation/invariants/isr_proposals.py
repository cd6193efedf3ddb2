"""Checks how leaders ask for changes of the ISR: one at a time, each that is pending, until the answer (P-22)."""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.messages import AlterPartitionRequest, AlterPartitionResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import RequestFailed, ResponseReceived
from broker.core.replica.state import PendingIsr, Replica, Role
from simulation.invariants.knowledge import BrokerMirror, Knowledge

_OVER = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NEW_LEADER_ELECTED)
"""Errors by which a controller says that the state is another one by now: the metadata will tell (ISR-4)."""


def request_sent(known: Knowledge, broker: BrokerMirror, request_id: int, request: AlterPartitionRequest) -> None:
    """P-22: at most one change of one state of a partition is in flight, and none of a state that is over."""
    part = request.partitions[0]
    change = (part.topic, part.topic_id, part.partition, part.leader_epoch, part.partition_epoch)
    why = ""
    if change in broker.alterations.values():
        why = "while the first is not answered"
    elif change in broker.overtaken:
        why = "after the controller has said that these are over"
    ghost = known.ghost_of(part.topic, part.partition) if why else None
    if ghost is not None:
        known.fail(
            ghost,
            "P-22",
            f"broker {broker.broker_id} sent a second AlterPartition for leader epoch {part.leader_epoch}, "
            f"partition epoch {part.partition_epoch} {why}",
        )
    broker.alterations[request_id] = change


def answered(
    known: Knowledge, broker: BrokerMirror, state: BrokerState, event: ResponseReceived | RequestFailed
) -> None:
    """P-22, after a step in which a change may have been answered: what the controller has granted is adopted."""
    asked = broker.alterations.pop(event.request_id, None)
    response = event.response if isinstance(event, ResponseReceived) else None
    if asked is None or not isinstance(response, AlterPartitionResponse) or response.error_code != ErrorCode.NONE:
        return
    topic, _, partition, leader_epoch, _ = asked
    if any(part.error_code in _OVER for part in response.partitions):
        broker.overtaken.add(asked)
    replica = state.replicas.get((topic, partition))
    for granted in response.partitions:
        if (
            granted.error_code == ErrorCode.NONE
            and replica is not None
            and replica.role is Role.LEADER
            and replica.leader_epoch == leader_epoch == granted.leader_epoch
            and granted.topic_id in ("", replica.topic_id)
            and replica.partition_epoch < granted.partition_epoch
        ):
            known.fail(
                known.ghost(replica.topic, replica.topic_id, replica.partition),
                "P-22",
                f"broker {broker.broker_id} was granted the ISR {list(granted.isr)} in partition epoch "
                f"{granted.partition_epoch}, and stays in {replica.partition_epoch}",
            )


def watched(known: Knowledge, state: BrokerState) -> None:
    """P-22, after a leader has looked for laggards (ISR-S): it has asked for an ISR without each that it knows of.

    One lags that has not reached the leader's end, and has not caught up for longer than replica.lag.time.max.ms.
    """
    lag_ms = known.settings.replica_lag_time_max_ms
    for replica in state.replicas.values():
        if replica.role is not Role.LEADER or replica.pending_isr is not None:
            continue
        for member in replica.isr:
            remote = replica.remotes.get(member)
            if member == state.broker_id or remote is None or remote.log_end == replica.log.end_offset:
                continue
            if state.runtime.now_ms - remote.caught_up_ms > lag_ms:
                known.fail(
                    known.ghost(replica.topic, replica.topic_id, replica.partition),
                    "P-22",
                    f"leader {state.broker_id} has looked for laggards, and does not ask for an ISR without broker "
                    f"{member}, which has fetched up to {remote.log_end} of {replica.log.end_offset}, and had caught "
                    f"up last {state.runtime.now_ms - remote.caught_up_ms} ms ago; the lag time is {lag_ms} ms",
                )


def check(known: Knowledge, broker: BrokerMirror, state: BrokerState) -> None:
    """P-22, when changes have become pending in a step, whose requests were noted: nobody else asks for them later."""
    proposed, broker.proposed = broker.proposed, []
    for replica in proposed:
        pending = replica.pending_isr
        if pending is None or replica.role is not Role.LEADER or state.rules.isr.ms_until_request():
            continue
        request = pending.request
        epochs = request.leader_epoch, request.partition_epoch
        change = (request.topic, request.topic_id, request.partition, *epochs)
        if change not in broker.alterations.values():
            known.fail(
                known.ghost(replica.topic, replica.topic_id, replica.partition),
                "P-22",
                f"broker {broker.broker_id} counts with the ISR {list(pending.isr)}, and has not asked for it",
            )
        _check_deleted(known, broker, replica, pending)


def _check_deleted(known: Knowledge, broker: BrokerMirror, replica: Replica, pending: PendingIsr) -> None:
    """P-22: whom a leader wants in the ISR has deleted what it has deleted itself, if it has said so (ISR-E7)."""
    start = replica.log.start_offset
    for member in sorted(set(pending.isr) - set(replica.isr)):
        remote = replica.remotes.get(member)
        if remote is not None and 0 <= remote.log_start < start:
            known.fail(
                known.ghost(replica.topic, replica.topic_id, replica.partition),
                "P-22",
                f"broker {broker.broker_id} asks for an ISR with broker {member}, whose log begins at "
                f"{remote.log_start}; its own begins at {start}",
            )
