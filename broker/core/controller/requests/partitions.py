"""Serves the administrator's reassignments (§15): starts, replaces, cancels and lists them.

The completion of a reassignment is part of every partition change.
"""

from __future__ import annotations

from broker.core.controller import changes, recovery
from broker.core.controller.partition_changes import (
    all_partitions,
    changed,
    losses_accepted,
    min_isr_of,
    unclean_allowed,
)
from broker.core.controller.state import ControllerState
from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
    Reassignment,
    ReassignmentResult,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import shown
from broker.core.metadata.image import TopicImage
from broker.core.metadata.records import PartitionSet, PartitionState
from broker.core.ports.marks import sometimes

REFUSED_TARGET = sometimes("reassignment refused: no sensible target (RA-1)")
REFUSED_SIZE = sometimes("reassignment refused: it would change the replication factor")
REFUSED_STRANDED = sometimes("reassignment refused: it would leave too few complete replicas (RA-6)")
STRANDED = sometimes("reassignment: leaves too few complete replicas, as losses are accepted (RA-6)")
NONE_RUNNING = sometimes("reassignment refused: none to cancel (RA-6)")
ALREADY_THERE = sometimes("reassignment: the replicas are as wanted")


def reassign(controller: ControllerState, request_id: int, request: AlterPartitionReassignmentsRequest) -> None:
    """Start, replace or cancel the reassignment of each partition, or return its error."""
    may_resize = request.allow_replication_factor_change
    results = tuple(_reassign(controller, reassignment, may_resize) for reassignment in request.reassignments)
    changes.reply(controller, request_id, request, AlterPartitionReassignmentsResponse(ErrorCode.NONE, results))


def _reassign(controller: ControllerState, wanted: Reassignment, may_resize: bool) -> ReassignmentResult:
    topic = controller.image.topics.get(wanted.topic)
    state = controller.image.partition(wanted.topic, wanted.partition)
    if topic is None or state is None:
        return ReassignmentResult(wanted.topic, wanted.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wanted.replicas is None:
        error, message = _cancel(controller, topic, wanted.partition, state)
    elif not may_resize and len(wanted.replicas) != len(original(state)):
        controller.runtime.mark(REFUSED_SIZE)
        error = ErrorCode.INVALID_REPLICATION_FACTOR
        message = (
            f"expected {len(original(state))} replicas, since the factor may not change, found {len(wanted.replicas)}"
        )
    else:
        error, message = _start(controller, topic, wanted.partition, state, wanted.replicas)
    recovery.consider_all(controller)
    return ReassignmentResult(wanted.topic, wanted.partition, error, message)


def original(state: PartitionState) -> tuple[int, ...]:
    """The replicas as they were before the running reassignment (RA-1)."""
    return tuple(replica for replica in state.replicas if replica not in state.adding)


def _start(
    controller: ControllerState, topic: TopicImage, number: int, state: PartitionState, target: tuple[int, ...]
) -> tuple[ErrorCode, str | None]:
    """RA-1, RA-2, RA-9: merge with a running one, then grow the replica set; RA-5 may complete it at once."""
    if not target or len(set(target)) < len(target) or not set(target) <= set(controller.image.brokers):
        controller.runtime.mark(REFUSED_TARGET)
        return (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"expected distinct registered brokers, found {shown(list(target))}",
        )
    current = original(state)
    removing = tuple(replica for replica in current if replica not in target)
    replicas = (*target, *removing)
    grown = state._replace(
        replicas=replicas,
        adding=tuple(replica for replica in target if replica not in current),
        removing=removing,
    )
    return _apply(
        controller, topic, number, state, grown, "the new one leaves too few replicas in sync or eligible to lead"
    )


def _cancel(
    controller: ControllerState, topic: TopicImage, number: int, state: PartitionState
) -> tuple[ErrorCode, str | None]:
    """RA-6: restore the replicas from before the reassignment."""
    if not state.adding and not state.removing:
        controller.runtime.mark(NONE_RUNNING)
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    reverted = state._replace(replicas=original(state), adding=(), removing=())
    return _apply(
        controller, topic, number, state, reverted, "too few of the original replicas are in sync or eligible to lead"
    )


def _apply(
    controller: ControllerState,
    topic: TopicImage,
    number: int,
    before: PartitionState,
    after: PartitionState,
    impossible: str,
) -> tuple[ErrorCode, str | None]:
    isr = tuple(member for member in before.isr if member in after.replicas)
    allowed = losses_accepted(controller, topic)
    min_isr = min(min_isr_of(controller, topic), len(after.replicas))
    if controller.rules.reassignment.strands((before.isr, before.elr, before.last_known_elr), after.replicas, min_isr):
        controller.runtime.mark(STRANDED if allowed else REFUSED_STRANDED)
        if not allowed:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, impossible  # RA-6, KAFKA-14424, KAFKA-14808
    if after == before:
        controller.runtime.mark(ALREADY_THERE)
        return ErrorCode.NONE, None
    new = changed(
        controller.rules,
        after,
        isr,
        controller.image.is_active,
        min_isr_of(controller, topic),
        unclean_allowed=unclean_allowed(controller, topic),
        altered=True,
        dropped=controller.rules.reassignment.drops(before.replicas, after.replicas),
    )
    if new is not None:
        changes.append(controller, [PartitionSet(topic.topic_id, number, new)])
        controller.runtime.log("info", f"{topic.name}-{number}: replicas {list(new.replicas)}, ISR {list(new.isr)}")
    return ErrorCode.NONE, None


def ongoing(
    controller: ControllerState, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The reassignments that are running."""
    found = tuple(
        OngoingReassignment(topic.name, number, state.replicas, state.adding, state.removing)
        for topic, number, state in all_partitions(controller)
        if (state.adding or state.removing)
        and (request.partitions is None or (topic.name, number) in request.partitions)
    )
    return ListPartitionReassignmentsResponse(ErrorCode.NONE, found)
