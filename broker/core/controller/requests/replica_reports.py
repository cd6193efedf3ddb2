"""Serves what brokers report on replicas: ISR changes of leaders (§10), and replicas in lost directories (KIP-858).

AlterPartition: the protocol fixes the order of checks (AP-8 after AP-6). AssignReplicasToDirs: the metadata keeps only
the replicas in lost directories, as the `offline` replicas of each partition.
"""

from __future__ import annotations

from broker.core.controller import changes, partition_changes, recovery
from broker.core.controller.partition_changes import changed, min_isr_of
from broker.core.controller.state import ControllerState
from broker.core.messages import (
    LOST_DIRECTORY,
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import MetadataRecord, PartitionSet
from broker.core.ports.marks import sometimes
from broker.core.rules.insync_replicas import first_failed_check

ACCEPTED = sometimes("AlterPartition: accepted (AP-9)")
UNCHANGED = sometimes("AlterPartition: nothing changes (AP-9)")
LEADER_MOVED = sometimes("AlterPartition: accepted, and the end of a reassignment moved the leader (AP-10)")
STALE_SENDER = sometimes("AlterPartition refused: the sender's broker epoch is stale (AP-2)")
_REFUSED = {
    ErrorCode.UNKNOWN_TOPIC_ID: sometimes("AlterPartition refused: no such partition (AP-3)"),
    ErrorCode.NOT_CONTROLLER: sometimes("AlterPartition refused: its epochs are ahead of the controller (AP-4)"),
    ErrorCode.FENCED_LEADER_EPOCH: sometimes("AlterPartition refused: the leader epoch is old (AP-5)"),
    ErrorCode.INVALID_UPDATE_VERSION: sometimes("AlterPartition refused: the partition epoch is old (AP-6)"),
    ErrorCode.INVALID_REQUEST: sometimes("AlterPartition refused: not the leader, or no sensible ISR (AP-5, AP-7)"),
    ErrorCode.INELIGIBLE_REPLICA: sometimes("AlterPartition refused: a member is not eligible (AP-8)"),
}


def alter_partition(controller: ControllerState, request_id: int, request: AlterPartitionRequest) -> None:
    """AP-1 … AP-10."""
    broker = controller.image.brokers.get(request.broker_id)
    if broker is None or not controller.rules.registration.is_current(broker.epoch, request.broker_epoch):
        controller.runtime.mark(STALE_SENDER)
        changes.reply(controller, request_id, request, AlterPartitionResponse(ErrorCode.STALE_BROKER_EPOCH))
        return
    answers = tuple(_alter_partition(controller, request.broker_id, part) for part in request.partitions)
    changes.reply(controller, request_id, request, AlterPartitionResponse(ErrorCode.NONE, answers))


def _alter_partition(controller: ControllerState, sender: int, part: AlterPartitionPartition) -> AlteredPartition:
    image = controller.image
    name = part.topic or image.topic_names.get(part.topic_id, "")
    topic = image.topics.get(name)
    state = image.partition(name, part.partition)
    if topic is None or state is None or (part.topic_id and topic.topic_id != part.topic_id):
        controller.runtime.mark(_REFUSED[ErrorCode.UNKNOWN_TOPIC_ID])
        return AlteredPartition(name, part.partition, ErrorCode.UNKNOWN_TOPIC_ID, topic_id=part.topic_id)
    error = first_failed_check(controller.rules.alter_partition, image, state, sender, part)
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
    error = controller.rules.alter_partition.result(state, sender)
    if error != ErrorCode.NONE:
        controller.runtime.mark(LEADER_MOVED)
        return AlteredPartition(name, part.partition, error, topic_id=part.topic_id)
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


TAKEN_OFFLINE = sometimes("log directory: replicas are taken out of leaderships, ISRs and ELRs (KIP-858)")
KNOWN_OFFLINE = sometimes("log directory: the broker reports what is known already (KIP-858)")
STALE_ASSIGNMENT = sometimes("log directory: the sender's broker epoch is stale (RG-7)")


def assign_to_directories(controller: ControllerState, request_id: int, request: AssignReplicasToDirsRequest) -> None:
    """Replicas in the lost directory leave leaderships, ISRs and ELRs; all others are only acknowledged."""
    broker = controller.image.brokers.get(request.broker_id)
    if broker is None or not controller.rules.registration.is_current(broker.epoch, request.broker_epoch):
        controller.runtime.mark(STALE_ASSIGNMENT)
        changes.reply(controller, request_id, request, AssignReplicasToDirsResponse(ErrorCode.STALE_BROKER_EPOCH))
        return
    records: list[MetadataRecord] = []
    results = []
    for directory_id, topic_id, partition in dict.fromkeys(request.assignments):
        topic = controller.image.topics.get(controller.image.topic_names.get(topic_id, ""))
        state = topic.partitions.get(partition) if topic is not None else None
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if state is None else ErrorCode.NONE
        results.append((directory_id, topic_id, partition, int(error)))
        if topic is not None and state is not None and directory_id == LOST_DIRECTORY:
            change = partition_changes.without_replica(controller, topic, partition, state, request.broker_id)
            if change is not None:
                records.append(change)
    controller.runtime.mark(TAKEN_OFFLINE if records else KNOWN_OFFLINE)
    if records:
        controller.runtime.log("warning", f"broker {request.broker_id} lost {len(records)} replicas with a directory")
        changes.append(controller, records)
        recovery.consider_all(controller)
    changes.reply(controller, request_id, request, AssignReplicasToDirsResponse(ErrorCode.NONE, tuple(results)))
