"""Serves AssignReplicasToDirs: brokers report where their replicas are, above all failed directories (KIP-858).

The metadata keeps only the replicas in lost directories, as the `offline` replicas of each partition.
"""

from __future__ import annotations

from broker.core.controller import changes, partition_changes, recovery
from broker.core.controller.state import ControllerState
from broker.core.messages import LOST_DIRECTORY, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import MetadataRecord
from broker.core.ports.marks import sometimes

TAKEN_OFFLINE = sometimes("log directory: replicas are taken out of leaderships, ISRs and ELRs (KIP-858)")
KNOWN_OFFLINE = sometimes("log directory: the broker told what is known already (KIP-858)")
STALE = sometimes("log directory: the sender's broker epoch is stale (RG-7)")


def assign(controller: ControllerState, request_id: int, request: AssignReplicasToDirsRequest) -> None:
    """Replicas in the lost directory leave leaderships, ISRs and ELRs; all others are only acknowledged."""
    broker = controller.image.brokers.get(request.broker_id)
    if broker is None or not controller.rules.registration.is_current(broker.epoch, request.broker_epoch):
        controller.runtime.mark(STALE)
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
