"""Creates, grows and deletes topics."""

from __future__ import annotations

import hashlib

from broker.core.configuration import alteration, description
from broker.core.configuration.alteration import Refused
from broker.core.configuration.description import Detail, Layers
from broker.core.configuration.in_force import layers
from broker.core.controller import changes
from broker.core.controller.placement import Assignment, place
from broker.core.controller.state import ControllerState
from broker.core.messages import (
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NamedResult,
    NewPartitions,
    NewTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import shown
from broker.core.metadata.records import (
    ConfigChanged,
    MetadataRecord,
    PartitionSet,
    PartitionState,
    TopicCreated,
    TopicDeleted,
    is_legal_name,
)

PARTITIONS_AT_ONCE_MAX = 2_000
"""A request that creates more, altogether, is refused as a mistake or an attack."""


# --- create ----------------------------------------------------------------------------------------------------------


def create(controller: ControllerState, request_id: int, request: CreateTopicsRequest) -> None:
    """Create each topic, or return its error; a refused topic does not stop the others."""
    answers = []
    room = PARTITIONS_AT_ONCE_MAX
    colliding = {name.replace(".", "_"): name for name in controller.image.topics}
    for topic in request.topics:
        try:
            created = _create(controller, topic, room, colliding, validate_only=request.validate_only)
            room -= created.num_partitions
            answers.append(created)
        except Refused as refused:
            answers.append(CreatedTopic(topic.name, refused.error, str(refused)))
    changes.reply(controller, request_id, request, CreateTopicsResponse(tuple(answers)))


def _create(
    controller: ControllerState, topic: NewTopic, room: int, colliding: dict[str, str], *, validate_only: bool
) -> CreatedTopic:
    """Create a topic of at most `room` partitions; `colliding` has the names that there are, with "_" for "."."""
    if not is_legal_name(topic.name):
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"expected a name of up to 249 letters, digits, '.', '_' and '-', none reserved, "
            f"found {shown(repr(topic.name))}",
        )
    if topic.name in controller.image.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} already exists")
    other = colliding.get(topic.name.replace(".", "_"))
    if other is not None:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"expected a name that differs from {other!r} in more than '.' and '_', found {shown(repr(topic.name))}",
        )
    configs = alteration.created(topic.configs)
    assignments = _assignments(controller, topic, room)
    topic_id = _topic_id(controller, topic.name)
    records: list[MetadataRecord] = [TopicCreated(topic.name, topic_id)]
    records += [ConfigChanged(topic.name, key, value) for key, value in configs.items()]
    records += [_new_partition(controller, topic_id, number, replicas) for number, replicas in enumerate(assignments)]
    colliding[topic.name.replace(".", "_")] = topic.name
    if not validate_only:
        changes.append(controller, records)
        controller.runtime.log("info", f"topic {topic.name} created with {len(assignments)} partitions")
    factor = max(len(replicas) for replicas in assignments)
    described = description.topic(configs, Layers(controller.file, *layers(controller.image, None)), Detail())
    return CreatedTopic(
        topic.name,
        ErrorCode.NONE,
        None,
        topic_id,
        len(assignments),
        factor,
        tuple((each.name, each.value, each.read_only, each.config_source) for each in described),
    )


def _assignments(controller: ControllerState, topic: NewTopic, room: int) -> list[Assignment]:
    if len(topic.assignments) > room:
        raise _too_many(len(topic.assignments), room)
    if topic.assignments:
        if sorted(number for number, _ in topic.assignments) != list(range(len(topic.assignments))):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "expected partitions 0, 1, 2 … without a gap")
        return [_checked(controller, replicas) for _, replicas in sorted(topic.assignments)]
    settings = controller.settings
    partitions = settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = settings.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    brokers = _usable(controller)
    if not 1 <= partitions <= room:
        raise _too_many(partitions, room)
    if not 1 <= factor <= len(brokers):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"expected a replication factor from 1 to the number of brokers ({len(brokers)}), found {factor}",
        )
    return [replicas for _, replicas in place(brokers, partitions, factor, _placed(controller))]


def _too_many(found: int, room: int) -> Refused:
    most = f"1 to {room} of the {PARTITIONS_AT_ONCE_MAX} partitions that one request may create"
    return Refused(ErrorCode.INVALID_PARTITIONS, f"expected {most}, found {found}")


def _checked(controller: ControllerState, replicas: Assignment) -> Assignment:
    if not replicas or len(set(replicas)) < len(replicas) or not set(replicas) <= set(controller.image.brokers):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"expected distinct registered brokers, found {shown(list(replicas))}"
        )
    return replicas


def _usable(controller: ControllerState) -> list[tuple[int, str | None]]:
    """Registered brokers with their racks, active ones first."""
    brokers = sorted(controller.image.brokers.values(), key=lambda broker: (not broker.active, broker.broker_id))
    return [(broker.broker_id, broker.rack) for broker in brokers]


def _placed(controller: ControllerState) -> int:
    return sum(len(topic.partitions) for topic in controller.image.topics.values())


def _new_partition(controller: ControllerState, topic_id: str, number: int, replicas: Assignment) -> PartitionSet:
    """A new partition whose first ISR is its active replicas (KAFKA-13083)."""
    isr = tuple(replica for replica in replicas if controller.image.is_active(replica))
    if not isr:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"no replica of partition {number} is active")
    return PartitionSet(topic_id, number, PartitionState(replicas, isr, isr[0], 0, 0))


def _topic_id(controller: ControllerState, name: str) -> str:
    """A UUID, unique because it derives from the offset of the topic's creation."""
    seed = f"{controller.settings.cluster_id}/{name}/{controller.quorum.log.end_offset}"
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


# --- grow ------------------------------------------------------------------------------------------------------------


def add_partitions(controller: ControllerState, request_id: int, request: CreatePartitionsRequest) -> None:
    """Grow each topic to the requested count, or return its error."""
    results = []
    room = PARTITIONS_AT_ONCE_MAX
    for wanted in request.topics:
        try:
            room -= _add_partitions(controller, wanted, room, validate_only=request.validate_only)
            results.append(NamedResult(wanted.topic, ErrorCode.NONE))
        except Refused as refused:
            results.append(NamedResult(wanted.topic, refused.error, str(refused)))
    changes.reply(controller, request_id, request, CreatePartitionsResponse(tuple(results)))


def _add_partitions(controller: ControllerState, wanted: NewPartitions, room: int, *, validate_only: bool) -> int:
    """Add partitions, at most `room`; return how many."""
    topic = controller.image.topics.get(wanted.topic)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {shown(repr(wanted.topic))}")
    present = len(topic.partitions)
    more = wanted.total_count - present
    if not 1 <= more <= room:
        raise _too_many(more, room)
    if wanted.assignments is None:
        factor = len(topic.partitions[0].replicas)
        assignments = [replicas for _, replicas in place(_usable(controller), more, factor, _placed(controller))]
    elif len(wanted.assignments) == more:
        assignments = [_checked(controller, replicas) for replicas in wanted.assignments]
    else:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"expected {more} lists of replicas")
    records: list[MetadataRecord] = [
        _new_partition(controller, topic.topic_id, present + number, replicas)
        for number, replicas in enumerate(assignments)
    ]
    if not validate_only:
        changes.append(controller, records)
    return more


# --- delete ----------------------------------------------------------------------------------------------------------


def delete(controller: ControllerState, request_id: int, request: DeleteTopicsRequest) -> None:
    """Delete each topic by name or id, or report that it does not exist."""
    answers = []
    for name, topic_id in request.topics:
        found = name or controller.image.topic_names.get(topic_id)
        topic = controller.image.topics.get(found) if found else None
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
            answers.append(DeletedTopic(name, topic_id, error))
            continue
        changes.append(controller, [TopicDeleted(topic.topic_id)])
        controller.runtime.log("info", f"topic {topic.name} deleted")
        answers.append(DeletedTopic(topic.name, topic.topic_id, ErrorCode.NONE))
    changes.reply(controller, request_id, request, DeleteTopicsResponse(tuple(answers)))
