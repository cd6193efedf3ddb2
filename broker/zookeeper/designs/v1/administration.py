"""Does what an administrator of the first design does by hand: writes assignments into the tree, and takes them out."""

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
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import CallError, Create, Delete, GetChildren, SetData
from broker.zookeeper import paths
from broker.zookeeper.designs.v1.requests import StateChange
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import partitions_of, published, replicas_of
from broker.zookeeper.requests.assignment import Refusal, assignment_of
from broker.zookeeper.requests.creation import create_partitions, create_topics
from broker.zookeeper.requests.deletion import (
    await_change,
    close_replicas,
    delete_partitions,
    delete_topics,
    delete_znodes,
)
from broker.zookeeper.requests.reassignment import list_reassignments, reassign
from broker.zookeeper.state import ZooKeeperState


def procedure_of(zk: ZooKeeperState, request_id: int, request: AnyRequest) -> Steps[None] | None:
    """What carries out an administrator's request; None if the design has no such command."""
    match request:
        case CreateTopicsRequest():
            return create_topics(zk, request_id, request, partial(_create_topic, zk))
        case CreatePartitionsRequest():
            return create_partitions(zk, request_id, request, published, replicas_of, _add_partition)
        case DeleteTopicsRequest():
            return delete_topics(
                zk, request_id, request, partial(delete_partitions, zk, partitions_of, _remove_partition)
            )
        case AlterPartitionReassignmentsRequest():
            return reassign(zk, request_id, request)
        case ListPartitionReassignmentsRequest():
            return list_reassignments(zk, request_id, request)
        case _:
            return None


# --- create ----------------------------------------------------------------------------------------------------------


def _create_topic(zk: ZooKeeperState, topic: NewTopic) -> Steps[Refusal]:
    assignment = yield from assignment_of(zk, topic)
    if isinstance(assignment, tuple):
        return assignment
    if (yield Create(paths.topic(topic.name))).error is CallError.NODE_EXISTS:
        return ErrorCode.TOPIC_ALREADY_EXISTS, None
    for number, replicas in sorted(assignment.items()):
        yield from _add_partition((topic.name, number), replicas)
    return ErrorCode.NONE, None


def _add_partition(key: Key, replicas: tuple[int, ...]) -> Steps[Refusal]:
    yield Create(paths.partition(key))
    yield Create(paths.states(key))
    yield Create(paths.replicas(key), paths.encoded(replicas))
    return ErrorCode.NONE, None


# --- delete ----------------------------------------------------------------------------------------------------------


def _remove_partition(zk: ZooKeeperState, key: Key, until_ms: int) -> Steps[bool]:
    """Take the list of replicas out of the tree, which the leader watches, and wait until no replica is registered.

    A broker without a session hears of it never: requests to it are lost.
    """
    yield Delete(paths.replicas(key))

    def have_closed(until_ms: int) -> Steps[bool]:
        for name in (yield GetChildren(paths.states(key))).children:
            yield SetData(f"{paths.states(key)}/{name}", StateChange.DELETE_REPLICA.encode())
        return (yield from _await_unregistered(zk, key, until_ms))

    if not (yield from close_replicas(zk, key, partial(_await_unregistered, zk, key), have_closed, until_ms)):
        return False
    yield from delete_znodes(zk, key, until_ms)
    return True


def _await_unregistered(zk: ZooKeeperState, key: Key, until_ms: int) -> Steps[bool]:
    path = paths.states(key)
    zk.awaited.add(path)
    while (yield GetChildren(path, watch=True)).children:
        if not (yield from await_change(zk, [path], until_ms)):
            return False
        zk.awaited.add(path)
    zk.awaited.discard(path)
    return True
