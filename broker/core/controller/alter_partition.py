"""A leader asks to change its ISR (§10). The order of the checks is part of the protocol (AP-8 after AP-6)."""

from __future__ import annotations

from broker.core.controller import changes, recovery
from broker.core.controller.partition_changes import changed, min_isr_of
from broker.core.controller.state import ControllerState
from broker.core.errors import ErrorCode
from broker.core.messages import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from broker.core.metadata.records import PartitionSet
from broker.core.rules.alter_partition import refusal


def handle(controller: ControllerState, request_id: int, request: AlterPartitionRequest) -> None:
    """AP-1 … AP-9."""
    broker = controller.image.brokers.get(request.broker_id)
    if broker is None or not controller.rules.registration.is_current(broker.epoch, request.broker_epoch):
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
        return AlteredPartition(name, part.partition, ErrorCode.UNKNOWN_TOPIC_ID, topic_id=part.topic_id)
    error = refusal(controller.rules.alter_partition, image, state, sender, part)
    if error != ErrorCode.NONE:
        return AlteredPartition(name, part.partition, error, topic_id=part.topic_id)
    new = changed(
        controller.rules,
        state,
        tuple(member for member, _ in part.new_isr),
        image.is_active,
        min_isr_of(controller, topic),
        recovery_state=part.leader_recovery_state,
    )
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
