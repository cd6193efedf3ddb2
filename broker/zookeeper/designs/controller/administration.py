"""Creates, extends and deletes topics: writes into the tree what the controller reads there."""

from __future__ import annotations

from functools import partial

from broker.core.messages import AnyRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, NewTopic
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import Answer, CallError, Create, Exists, GetData, SetData
from broker.zookeeper import paths
from broker.zookeeper.designs.controller import znodes
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.requests.assignment import Refusal, assignment_of
from broker.zookeeper.requests.creation import create_partitions, create_topics
from broker.zookeeper.requests.deletion import await_change, delete_topics
from broker.zookeeper.state import ZooKeeperState


def procedure_of(zk: ZooKeeperState, request_id: int, request: AnyRequest) -> Steps[None] | None:
    """What carries out an administrator's request; None if the design has no such command."""
    match request:
        case CreateTopicsRequest():
            return create_topics(zk, request_id, request, partial(_create_topic, zk))
        case CreatePartitionsRequest():
            return create_partitions(zk, request_id, request, _partitions_of, _replicas_of, _add_partition)
        case DeleteTopicsRequest():
            return delete_topics(zk, request_id, request, partial(_delete_topic, zk))
        case _:
            return None


# --- create ----------------------------------------------------------------------------------------------------------


def _create_topic(zk: ZooKeeperState, topic: NewTopic) -> Steps[Refusal]:
    assignment = yield from assignment_of(zk, topic)
    if isinstance(assignment, tuple):
        return assignment
    if (yield Exists(znodes.deletion(topic.name))).stat is not None:
        return ErrorCode.TOPIC_ALREADY_EXISTS, f"{topic.name} is being deleted"
    data = znodes.encoded_assignment(assignment)
    if (yield Create(paths.topic(topic.name), data)).error is CallError.NODE_EXISTS:
        return ErrorCode.TOPIC_ALREADY_EXISTS, None
    return ErrorCode.NONE, None


def _assignment(name: str) -> Steps[tuple[dict[int, tuple[int, ...]], int]]:
    """The replicas of a topic's partitions, and the version of that; none if there is no such topic."""
    found: Answer = yield GetData(paths.topic(name))
    if found.stat is None:
        return {}, 0
    return znodes.decoded_assignment(found.data, paths.topic(name)), found.stat.version


def _partitions_of(name: str) -> Steps[list[Key]]:
    assignment, _ = yield from _assignment(name)
    return [(name, number) for number in sorted(assignment)]


def _replicas_of(key: Key) -> Steps[tuple[int, ...]]:
    assignment, _ = yield from _assignment(key[0])
    return assignment.get(key[1], ())


def _add_partition(key: Key, replicas: tuple[int, ...]) -> Steps[Refusal]:
    """Add a partition to the assignment; if another has written that meanwhile, read it and write again."""
    while True:
        assignment, version = yield from _assignment(key[0])
        data = znodes.encoded_assignment({**assignment, key[1]: replicas})
        written: Answer = yield SetData(paths.topic(key[0]), data, version)
        if written.error is CallError.NO_NODE:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None  # it was deleted meanwhile
        if written.error is None:
            return ErrorCode.NONE, None


# --- delete ----------------------------------------------------------------------------------------------------------


def _delete_topic(zk: ZooKeeperState, name: str, until_ms: int) -> Steps[Refusal]:
    """Ask for the deletion, and wait for the controller, which waits for all of the topic's brokers."""
    path = znodes.deletion(name)
    if (yield Exists(paths.topic(name))).stat is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    yield Create(path)
    zk.awaited.add(path)
    while (yield Exists(path, watch=True)).stat is not None:
        if not (yield from await_change(zk, [path], until_ms)):
            return ErrorCode.REQUEST_TIMED_OUT, f"{name} is being deleted, but not all of its brokers have done so yet"
        zk.awaited.add(path)
    zk.awaited.discard(path)
    return ErrorCode.NONE, None
