"""Checks topics: what was created or deleted (P-T1), ids and logs of new ones (P-T2), what old ones leave (V-12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.core.messages import CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_TOPIC, TopicCreated, TopicDeleted
from broker.core.ports.events import Effect, Reply
from broker.core.ports.files import name_in
from broker.core.replica.state import Replica
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.node_views import brokers, leading
from simulation.invariants.ghost import Ghost
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.properties import Violation


def controller_stepped(known: Knowledge, node_id: int, effects: Sequence[Effect]) -> None:
    """P-T1 when a controller answers."""
    for effect in effects:
        if effect.__class__ is not Reply:
            continue
        assert isinstance(effect, Reply)
        if isinstance(effect.response, CreateTopicsResponse):
            if known.administered.is_tried(node_id, effect.request_id):
                continue
            for created in effect.response.topics:
                if created.error_code == ErrorCode.NONE and created.topic_id:
                    _check_created(known, node_id, created.name, created.topic_id)
        elif isinstance(effect.response, DeleteTopicsResponse):
            for deleted in effect.response.topics:
                if deleted.error_code == ErrorCode.NONE:
                    _check_deleted(known, node_id, deleted.name or "", deleted.topic_id)


def _check_created(known: Knowledge, node_id: int, name: str, topic_id: str) -> None:
    if known.topic_ids.get(topic_id) is None:
        raise Violation(
            "P-T1", f"controller {node_id} acknowledged that {name} is created with id {topic_id}; nothing is committed"
        )


def _check_deleted(known: Knowledge, node_id: int, name: str, topic_id: str) -> None:
    if topic_id in known.image.topic_names:
        raise Violation(
            "P-T1", f"controller {node_id} acknowledged that {name} with id {topic_id} is deleted; it still exists"
        )


def created(known: Knowledge, record: TopicCreated) -> None:
    """P-T2 when the creation of a topic is committed: its id was never used before."""
    if record.topic_id in known.topic_ids:
        raise Violation(
            "P-T2", f"the topic {record.name} is created with id {record.topic_id}, which {record.name} had before"
        )
    known.topic_ids[record.topic_id] = record.name


def deleted(known: Knowledge, record: TopicDeleted) -> None:
    """P-T1 when a deletion is committed: it is what a controller did when somebody asked for it, and once for each
    request. Nothing is promised of the topic any more.
    """
    name = known.topic_ids.get(record.topic_id, "")
    if not _was_asked_for(known, name, record.topic_id):
        raise Violation("P-T1", f"the topic {name} with id {record.topic_id} is deleted, which nobody has asked for")
    for (topic_id, _), ghost in known.partitions.items():
        if topic_id == record.topic_id:
            ghost.state, ghost.trusted = None, False


def _was_asked_for(known: Knowledge, name: str, topic_id: str) -> bool:
    administered = known.administered
    request = administered.deletions.get(administered.committing)
    if request is not None and _names(request, name, topic_id):
        return True
    for interrupted in administered.interrupted:
        if _names(interrupted, name, topic_id):
            administered.interrupted.remove(interrupted)
            return True
    return False


def _names(request: DeleteTopicsRequest, name: str, topic_id: str) -> bool:
    return any(asked_id == topic_id if asked_id else asked == name for asked, asked_id in request.topics)


def check_new_log(known: Knowledge, ghost: Ghost, replica: Replica) -> None:
    """P-T2 when a running broker begins to replicate a partition: it has no records of it yet."""
    if replica.log.end_offset:
        known.fail(
            ghost,
            "P-T2",
            f"broker {replica.broker_id} begins to replicate it, with the id {replica.topic_id}, and its log ends at "
            f"{replica.log.end_offset} already",
        )


def leftovers(cluster: SimulatedCluster) -> list[str]:
    """V-12: logs on the disks of running brokers that the committed metadata do not assign to them."""
    controller = leading(cluster)
    if controller is None:
        return ["no controller is active"]
    image = controller.image
    found = []
    for broker_id, state in brokers(cluster):
        held = [(name, int(number), "") for name, dash, number in _directories(cluster, broker_id) if dash]
        for name, partition, topic_id in [*held, *((*key, one.topic_id) for key, one in state.replicas.items())]:
            assigned = image.partition(name, partition)
            is_other = bool(topic_id) and topic_id not in image.topic_names
            if is_other or assigned is None or broker_id not in assigned.replicas:
                found.append(f"{name}-{partition} {topic_id} of broker {broker_id}")
    return found


def _directories(cluster: SimulatedCluster, broker_id: int) -> Iterator[tuple[str, str, str]]:
    machine = cluster.machines[broker_id]
    for index in range(len(machine.settings.log_dirs)):
        yield from _logs_in(machine.disk.list(name_in(index, "").rstrip("/")))


def _logs_in(names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for directory in names:
        parts = directory.rpartition("-")
        if parts[2].isdigit() and parts[0] != METADATA_TOPIC:
            yield parts
