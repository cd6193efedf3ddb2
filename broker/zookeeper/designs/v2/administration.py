"""The second design's commands for administrators: create, extend and delete topics, and wait until that is done."""

from __future__ import annotations

from functools import partial

from broker.core.messages import (
    AnyRequest,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NamedResult,
    NewPartitions,
    NewTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import CallError, Create, Delete, GetChildren
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.designs.v2 import partitions
from broker.zookeeper.procedures import Steps
from broker.zookeeper.requests.assignment import Refusal, assignment_of
from broker.zookeeper.requests.creation import create_topics
from broker.zookeeper.state import ZooKeeperState

LEFT_OVER = sometimes("zookeeper: a creation was not completed in time, and what it has written is left")
CLEANED = sometimes("zookeeper: what a failed creation has left is cleaned up")
DELETED = sometimes("zookeeper: a topic is deleted")

_DONE: Refusal = ErrorCode.NONE, None


def procedure_of(zk: ZooKeeperState, request_id: int, request: AnyRequest) -> Steps[None] | None:
    """What carries out an administrator's request; None if the design has no such command."""
    match request:
        case CreateTopicsRequest():
            until_ms = zk.broker.runtime.now_ms + request.timeout_ms
            return create_topics(zk, request_id, request, partial(_create_topic, zk, until_ms=until_ms))
        case CreatePartitionsRequest():
            return _create_partitions(zk, request_id, request)
        case DeleteTopicsRequest():
            return _delete_topics(zk, request_id, request)
        case _:
            return None


# --- create ----------------------------------------------------------------------------------------------------------


def _create_topic(zk: ZooKeeperState, topic: NewTopic, until_ms: int) -> Steps[Refusal]:
    """`createTopic`: clean up after an attempt that failed, then add one partition after the other."""
    assignment = yield from assignment_of(zk, topic)
    if isinstance(assignment, tuple):
        return assignment
    if not (yield from _clean_failed_attempts(zk, topic.name, until_ms)):
        return ErrorCode.TOPIC_ALREADY_EXISTS, f"{topic.name} exists with live partitions"
    if (yield Create(paths.topic(topic.name))).error is CallError.NODE_EXISTS:
        return ErrorCode.TOPIC_ALREADY_EXISTS, None
    for number, replicas in sorted(assignment.items()):
        if not (yield from partitions.add(zk, (topic.name, number), replicas, until_ms)):
            return _late(zk, topic.name, number)
    return _DONE


def _late(zk: ZooKeeperState, name: str, number: int) -> Refusal:
    zk.broker.runtime.mark(LEFT_OVER)
    message = f"expected the replicas of partition {number} of {name} to start in time, found requests that wait"
    return ErrorCode.REQUEST_TIMED_OUT, f"{message}; create it again, which cleans up first"


def _clean_failed_attempts(zk: ZooKeeperState, name: str, until_ms: int) -> Steps[bool]:
    """`cleanFailedTopicCreationAttempts`: undo partitions that were never published; whether none is live."""
    pending = []
    for child in (yield GetChildren(paths.reassigned_topic(name))).children:
        key = (name, paths.number_of(child, paths.reassigned_topic(name)))
        if (yield from partitions.is_published(key)):
            return False
        pending.append(key)
    for key in pending:
        zk.broker.runtime.mark(CLEANED)
        yield from partitions.undo(zk, key, until_ms)
    if pending:
        yield Delete(paths.topic(name))  # unless it has other partitions
    return True


def _create_partitions(zk: ZooKeeperState, request_id: int, request: CreatePartitionsRequest) -> Steps[None]:
    until_ms = zk.broker.runtime.now_ms + request.timeout_ms
    results = []
    for wanted in request.topics:
        error, message = yield from _add_partitions(zk, wanted, until_ms)
        results.append(NamedResult(wanted.topic, error, message))
    zk.broker.runtime.reply(request_id, CreatePartitionsResponse(tuple(results)))


def _add_partitions(zk: ZooKeeperState, wanted: NewPartitions, until_ms: int) -> Steps[Refusal]:
    keys = yield from partitions.published(wanted.topic)
    if not keys:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if wanted.total_count <= len(keys):
        return ErrorCode.INVALID_PARTITIONS, f"expected more than the {len(keys)} there are, found {wanted.total_count}"
    factor = len((yield from partitions.replicas_of(keys[0])))
    whole = yield from assignment_of(zk, NewTopic(wanted.topic, wanted.total_count, factor))
    if isinstance(whole, tuple):
        return whole
    added = sorted(set(whole) - {number for _, number in keys})
    given = wanted.assignments or tuple(whole[number] for number in added)
    for number, replicas in zip(added, given, strict=False):
        if not (yield from partitions.add(zk, (wanted.topic, number), replicas, until_ms)):
            return _late(zk, wanted.topic, number)
    return _DONE


# --- delete ----------------------------------------------------------------------------------------------------------


def _delete_topics(zk: ZooKeeperState, request_id: int, request: DeleteTopicsRequest) -> Steps[None]:
    until_ms = zk.broker.runtime.now_ms + request.timeout_ms
    deleted = []
    for name, topic_id in request.topics:
        error, message = yield from _delete_topic(zk, name, until_ms)
        deleted.append(DeletedTopic(name, topic_id, error, message))
    zk.broker.runtime.reply(request_id, DeleteTopicsResponse(tuple(deleted)))


def _delete_topic(zk: ZooKeeperState, name: str | None, until_ms: int) -> Steps[Refusal]:
    """`deleteTopic`: one partition after the other; the first that fails ends it."""
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    keys = yield from partitions.published(name)
    if not keys:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    for key in keys:
        if not (yield from partitions.remove(zk, key, until_ms)):
            message = (
                f"expected the replicas of partition {key[1]} of {name} to close in time, found requests that wait"
            )
            return ErrorCode.REQUEST_TIMED_OUT, f"{message}; delete it again"
    yield Delete(paths.topic(name))
    zk.broker.runtime.mark(DELETED)
    return _DONE
