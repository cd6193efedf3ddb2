"""Answers requests to create topics and to extend them, each as the design of the broker does that."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.messages import (
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NamedResult,
    NewPartitions,
    NewTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import PartitionsOf
from broker.zookeeper.requests.assignment import Refusal, assignment_of
from broker.zookeeper.state import ZooKeeperState

ReplicasOf = Callable[[Key], Steps[tuple[int, ...]]]
"""A partition's replicas."""

AddPartition = Callable[[Key, tuple[int, ...]], Steps[Refusal]]
"""Adds a partition with these replicas."""


def create_topics(
    zk: ZooKeeperState, request_id: int, request: CreateTopicsRequest, create: Callable[[NewTopic], Steps[Refusal]]
) -> Steps[None]:
    """Create the topics one after the other, and answer with what became of each."""
    created = []
    for topic in request.topics:
        error, message = yield from create(topic)
        created.append(CreatedTopic(topic.name, error, message))
    zk.broker.runtime.reply(request_id, CreateTopicsResponse(tuple(created)))


def create_partitions(
    zk: ZooKeeperState,
    request_id: int,
    request: CreatePartitionsRequest,
    partitions_of: PartitionsOf,
    replicas_of: ReplicasOf,
    add: AddPartition,
) -> Steps[None]:
    """Extend the topics one after the other, and answer with what became of each."""
    results = []
    for wanted in request.topics:
        error, message = yield from _extend(zk, wanted, partitions_of, replicas_of, add)
        results.append(NamedResult(wanted.topic, error, message))
    zk.broker.runtime.reply(request_id, CreatePartitionsResponse(tuple(results)))


def _extend(
    zk: ZooKeeperState,
    wanted: NewPartitions,
    partitions_of: PartitionsOf,
    replicas_of: ReplicasOf,
    add: AddPartition,
) -> Steps[Refusal]:
    keys = yield from partitions_of(wanted.topic)
    if not keys:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if wanted.total_count <= len(keys):
        return ErrorCode.INVALID_PARTITIONS, f"expected more than the {len(keys)} there are, found {wanted.total_count}"
    factor = len((yield from replicas_of(keys[0])))
    whole = yield from assignment_of(zk, NewTopic(wanted.topic, wanted.total_count, factor))
    if isinstance(whole, tuple):
        return whole
    added = sorted(set(whole) - {number for _, number in keys})
    given = wanted.assignments or tuple(whole[number] for number in added)
    for number, replicas in zip(added, given, strict=False):
        error, message = yield from add((wanted.topic, number), replicas)
        if error != ErrorCode.NONE:
            return error, message
    return ErrorCode.NONE, None
