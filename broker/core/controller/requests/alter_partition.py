"""Serves AlterPartition: ISR changes of leaders (§10). The protocol fixes the order of checks (AP-8 after AP-6)."""

from __future__ import annotations

from broker.core.controller import changes, recovery
from broker.core.controller.partition_changes import changed, min_isr_of
from broker.core.controller.state import ControllerState
from broker.core.messages import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import PartitionSet
from broker.core.ports.marks import sometimes
from broker.core.rules.alter_partition import refusal

ACCEPTED = sometimes("AlterPartition: accepted (AP-9)")
UNCHANGED = sometimes("AlterPartition: nothing changes (AP-9)")
STALE_SENDER = sometimes("AlterPartition refused: the sender's broker epoch is stale (AP-2)")
_REFUSED = {
    ErrorCode.UNKNOWN_TOPIC_ID: sometimes("AlterPartition refused: no such partition (AP-3)"),
    ErrorCode.NOT_CONTROLLER: sometimes("AlterPartition refused: its epochs are ahead of the controller (AP-4)"),
    ErrorCode.FENCED_LEADER_EPOCH: sometimes("AlterPartition refused: the leader epoch is old (AP-5)"),
    ErrorCode.INVALID_UPDATE_VERSION: sometimes("AlterPartition refused: the partition epoch is old (AP-6)"),
    ErrorCode.INVALID_REQUEST: sometimes("AlterPartition refused: not the leader, or no sensible ISR (AP-5, AP-7)"),
    ErrorCode.INELIGIBLE_REPLICA: sometimes("AlterPartition refused: a member is not eligible (AP-8)"),
}


def handle(controller: ControllerState, request_id: int, request: AlterPartitionRequest) -> None:
    """AP-1 … AP-9."""
    broker = controller.image.brokers.get(request.broker_id)
    if broker is None or not controller.rules.registration.is_current(broker.epoch, request.broker_epoch):
        controller.runtime.mark(STALE_SENDER)
        changes.reply(controller, request_id, request, AlterPartitionResponse(ErrorCode.STALE_BROKER_EPOCH))
        return
    answers = tuple(_alter(controller, request.broker_id, part) for part in request.partitions)
    changes.reply(controller, request_id, request, AlterPartitionResponse(ErrorCode.NONE, answers))


def _alter(controller: ControllerState, sender: int, part: AlterPartitionPartition) -> AlteredPartition:
    image = controller.image
    name = part.topic or image.topic_names.get(part.topic_id, "")
    topic = image.topics.get(name)
    state = image.partition(name, part.partition)
    if topic is None or state is None or (part.topic_id and topic.topic_id != part.topic_id):
        controller.runtime.mark(_REFUSED[ErrorCode.UNKNOWN_TOPIC_ID])
        return AlteredPartition(name, part.partition, ErrorCode.UNKNOWN_TOPIC_ID, topic_id=part.topic_id)
    error = refusal(controller.rules.alter_partition, image, state, sender, part)
    if error != ErrorCode.NONE:
        controller.runtime.mark(_REFUSED[error])
        return AlteredPartition(name, part.partition, error, topic_id=part.topic_id)
    new = changed(
        controller.rules,
        state,
        tuple(member for member, _ in part.new_isr),
        image.is_active,
        min_isr_of(controller, topic),
        recovery_state=part.leader_recovery_state,
    )
    controller.runtime.mark(UNCHANGED if new is None else ACCEPTED)
    if new is not None:
        changes.append(controller, [PartitionSet(topic.topic_id, part.partition, new)])
        recovery.consider_all(controller)
        state = new
    return AlteredPartition(
        name,
        part.partition,
        ErrorCode.NONE,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.recovery_state,
        state.partition_epoch,
        part.topic_id,
    )
