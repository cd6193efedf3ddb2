"""The second design's commands for administrators, which wait until they are done.

They create, extend and delete topics, move partitions, and remove brokers.
"""

from __future__ import annotations

from functools import partial

from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AnyRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ListPartitionReassignmentsRequest,
    NewTopic,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import CallError, Create, Delete, Exists, GetChildren
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.designs.v2 import partitions
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import is_published, partitions_of, published, read_ids, replicas_of
from broker.zookeeper.requests.assignment import Refusal, assignment_of
from broker.zookeeper.requests.creation import create_partitions, create_topics
from broker.zookeeper.requests.deletion import delete_partitions, delete_topics
from broker.zookeeper.requests.reassignment import list_reassignments, reassign
from broker.zookeeper.state import ZooKeeperState

LEFT_OVER = sometimes("zookeeper: a creation was not completed in time, and what it has written is left")
CLEANED = sometimes("zookeeper: what a failed creation has left is cleaned up")
BROKER_REMOVED = sometimes("zookeeper: a broker is removed for good, with its queue")


def procedure_of(zk: ZooKeeperState, request_id: int, request: AnyRequest) -> Steps[None] | None:
    """What carries out an administrator's request; None if the design has no such command."""
    match request:
        case CreateTopicsRequest(_, timeout_ms):
            until_ms = zk.broker.runtime.now_ms + timeout_ms
            return create_topics(zk, request_id, request, partial(_create_topic, zk, until_ms=until_ms))
        case CreatePartitionsRequest(_, timeout_ms):
            until_ms = zk.broker.runtime.now_ms + timeout_ms
            add = partial(_add_partition, zk, until_ms=until_ms)
            return create_partitions(zk, request_id, request, published, replicas_of, add)
        case DeleteTopicsRequest():
            return delete_topics(zk, request_id, request, partial(delete_partitions, zk, published, partitions.remove))
        case UnregisterBrokerRequest(broker_id):
            return _remove_broker(zk, request_id, broker_id)
        case AlterPartitionReassignmentsRequest():
            return reassign(zk, request_id, request)
        case ListPartitionReassignmentsRequest():
            return list_reassignments(zk, request_id, request)
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
        error, message = yield from _add_partition(zk, (topic.name, number), replicas, until_ms)
        if error != ErrorCode.NONE:
            return error, message
    return ErrorCode.NONE, None


def _add_partition(zk: ZooKeeperState, key: Key, replicas: tuple[int, ...], until_ms: int) -> Steps[Refusal]:
    if (yield from partitions.add(zk, key, replicas, until_ms)):
        return ErrorCode.NONE, None
    zk.broker.runtime.mark(LEFT_OVER)
    message = f"expected the replicas of partition {key[1]} of {key[0]} to start in time, found requests that wait"
    return ErrorCode.REQUEST_TIMED_OUT, f"{message}; create it again, which cleans up first"


def _clean_failed_attempts(zk: ZooKeeperState, name: str, until_ms: int) -> Steps[bool]:
    """`cleanFailedTopicCreationAttempts`: undo partitions that were never published; whether none is live."""
    pending = []
    for child in (yield GetChildren(paths.reassigned_topic(name))).children:
        key = (name, paths.number_of(child, paths.reassigned_topic(name)))
        if (yield from is_published(key)):
            return False
        pending.append(key)
    for key in pending:
        zk.broker.runtime.mark(CLEANED)
        yield from partitions.undo(zk, key, until_ms)
    if pending:
        yield Delete(paths.topic(name))  # unless it has other partitions
    return True


# --- remove a broker -------------------------------------------------------------------------------------------------


def _remove_broker(zk: ZooKeeperState, request_id: int, broker_id: int) -> Steps[None]:
    """`remove brokers`: delete the queue of a broker that is down, and that nothing is assigned to."""
    error, message = yield from _removal_refused(broker_id)
    if error == ErrorCode.NONE:
        path = paths.queue(broker_id)
        for name in (yield GetChildren(path)).children:
            yield Delete(f"{path}/{name}")
        if (yield Delete(path)).error is CallError.NOT_EMPTY:
            error, message = ErrorCode.INVALID_REQUEST, f"broker {broker_id} was sent another request: remove it again"
        else:
            zk.broker.runtime.mark(BROKER_REMOVED)
    zk.broker.runtime.reply(request_id, UnregisterBrokerResponse(error, message))


def _removal_refused(broker_id: int) -> Steps[Refusal]:
    if (yield Exists(paths.queue(broker_id))).stat is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}"
    if (yield Exists(paths.broker(broker_id))).stat is not None:
        return ErrorCode.INVALID_REQUEST, f"broker {broker_id} is live: stop it first"
    for topic in (yield GetChildren(paths.TOPICS)).children:
        for key in (yield from partitions_of(topic)):
            if broker_id in (yield from _wanted_by(key)):
                return ErrorCode.INVALID_REQUEST, f"broker {broker_id} has replicas of {topic}: move them first"
    return ErrorCode.NONE, None


def _wanted_by(key: Key) -> Steps[tuple[int, ...]]:
    """The brokers that have a replica of the partition, or are to have one."""
    assigned = (yield from read_ids(paths.replicas(key))) or ()
    return (*assigned, *((yield from read_ids(paths.reassigned(key))) or ()))
