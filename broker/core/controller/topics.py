"""Creating and deleting topics, and where their replicas go (§15)."""

from __future__ import annotations

import hashlib
import re

from broker.core.controller import changes
from broker.core.controller.state import ControllerState
from broker.core.errors import ErrorCode
from broker.core.messages import (
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
)
from broker.core.metadata.records import (
    ConfigChanged,
    MetadataRecord,
    PartitionSet,
    PartitionState,
    TopicCreated,
    TopicDeleted,
)

_LEGAL_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BOUNDED_INTEGERS = {
    "min.insync.replicas": 1,
    "retention.ms": -1,
    "retention.bytes": -1,
    "segment.bytes": 1,
    "max.message.bytes": 0,
}
_CHOICES = {"unclean.leader.election.enable": ("true", "false"), "cleanup.policy": ("delete",)}


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def create(controller: ControllerState, request_id: int, request: CreateTopicsRequest) -> None:
    """Create each topic, or say why not; one that is refused does not stop the others."""
    answers = []
    for topic in request.topics:
        try:
            answers.append(_create(controller, topic, validate_only=request.validate_only))
        except _Refused as refused:
            answers.append(CreatedTopic(topic.name, refused.error, str(refused)))
    changes.reply(controller, request_id, request, CreateTopicsResponse(tuple(answers)))


def _create(controller: ControllerState, topic: NewTopic, *, validate_only: bool) -> CreatedTopic:
    if not _LEGAL_NAME.fullmatch(topic.name) or topic.name in (".", ".."):
        raise _Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"expected a name of up to 249 letters, digits, '.', '_' and '-', found {topic.name!r}",
        )
    if topic.name in controller.image.topics:
        raise _Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} already exists")
    _check_configs(topic)
    assignments = _assignments(controller, topic)
    topic_id = _topic_id(controller, topic.name)
    records: list[MetadataRecord] = [TopicCreated(topic.name, topic_id)]
    records += [ConfigChanged(topic.name, key, value) for key, value in topic.configs if value is not None]
    for number, replicas in assignments:
        isr = tuple(replica for replica in replicas if controller.image.is_active(replica))  # KAFKA-13083
        if not isr:
            raise _Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"no replica of partition {number} is active")
        records.append(PartitionSet(topic_id, number, PartitionState(replicas, isr, isr[0], 0, 0)))
    if not validate_only:
        changes.append(controller, records)
        controller.runtime.note("info", f"topic {topic.name} created with {len(assignments)} partitions")
    return CreatedTopic(
        topic.name,
        ErrorCode.NONE,
        None,
        topic_id,
        len(assignments),
        max(len(replicas) for _, replicas in assignments),
    )


def _check_configs(topic: NewTopic) -> None:
    for key, value in topic.configs:
        if value is None:
            continue
        if key in _BOUNDED_INTEGERS:
            legal = value.lstrip("-").isdigit() and int(value) >= _BOUNDED_INTEGERS[key]
        else:
            legal = value in _CHOICES.get(key, ())
        if not legal:
            raise _Refused(
                ErrorCode.INVALID_CONFIG, f"expected a known setting with a legal value, found {key}={value}"
            )


def _assignments(controller: ControllerState, topic: NewTopic) -> list[tuple[int, tuple[int, ...]]]:
    brokers = controller.image.brokers
    if topic.assignments:
        numbers = [number for number, _ in topic.assignments]
        for _, replicas in topic.assignments:
            if not replicas or len(set(replicas)) < len(replicas) or not set(replicas) <= set(brokers):
                raise _Refused(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"expected distinct registered brokers, found {list(replicas)}",
                )
        if sorted(numbers) != list(range(len(numbers))):
            raise _Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "expected partitions 0, 1, 2 … without a gap")
        return sorted(topic.assignments)
    partitions = controller.settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = (
        controller.settings.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    )
    if partitions < 1:
        raise _Refused(ErrorCode.INVALID_PARTITIONS, f"expected at least one partition, found {partitions}")
    if not 1 <= factor <= len(brokers):
        raise _Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"expected a replication factor from 1 to the number of brokers ({len(brokers)}), found {factor}",
        )
    return place(
        sorted(brokers, key=lambda number: (not brokers[number].active, number)),
        partitions,
        factor,
        first=sum(len(existing.partitions) for existing in controller.image.topics.values()),
    )


def place(brokers: list[int], partitions: int, factor: int, first: int) -> list[tuple[int, tuple[int, ...]]]:
    """Stripe replicas over brokers: partition p begins `first + p` brokers along the list, so that leaders spread."""
    count = len(brokers)
    return [
        (number, tuple(brokers[(first + number + replica) % count] for replica in range(factor)))
        for number in range(partitions)
    ]


def _topic_id(controller: ControllerState, name: str) -> str:
    """A UUID that is unique because the offset at which the topic is created is."""
    seed = f"{controller.settings.cluster_id}/{name}/{controller.quorum.log.end_offset}"
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def delete(controller: ControllerState, request_id: int, request: DeleteTopicsRequest) -> None:
    """Delete each topic by name or id, or say that it does not exist."""
    answers = []
    for name, topic_id in request.topics:
        found = name or controller.image.topic_names.get(topic_id)
        topic = controller.image.topics.get(found) if found else None
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
            answers.append(DeletedTopic(name, topic_id, error))
            continue
        changes.append(controller, [TopicDeleted(topic.topic_id)])
        controller.runtime.note("info", f"topic {topic.name} deleted")
        answers.append(DeletedTopic(topic.name, topic.topic_id, ErrorCode.NONE))
    changes.reply(controller, request_id, request, DeleteTopicsResponse(tuple(answers)))
