"""Does what an administrator of the first design does by hand: writes the assignment of a new topic into the tree."""

from __future__ import annotations

from broker.core.messages import AnyRequest, CreatedTopic, CreateTopicsRequest, CreateTopicsResponse, NewTopic
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import CallError, Create
from broker.zookeeper import paths
from broker.zookeeper.procedures import Steps
from broker.zookeeper.requests.assignment import Refusal, assignment_of
from broker.zookeeper.state import ZooKeeperState


def procedure_of(zk: ZooKeeperState, request_id: int, request: AnyRequest) -> Steps[None] | None:
    """What carries out an administrator's request; None if the design has no such command."""
    return _create_topics(zk, request_id, request) if isinstance(request, CreateTopicsRequest) else None


def _create_topics(zk: ZooKeeperState, request_id: int, request: CreateTopicsRequest) -> Steps[None]:
    created = []
    for topic in request.topics:
        error, message = yield from _create_topic(zk, topic)
        created.append(CreatedTopic(topic.name, error, message))
    zk.broker.runtime.reply(request_id, CreateTopicsResponse(tuple(created)))


def _create_topic(zk: ZooKeeperState, topic: NewTopic) -> Steps[Refusal]:
    assignment = yield from assignment_of(zk, topic)
    if isinstance(assignment, tuple):
        return assignment
    if (yield Create(paths.topic(topic.name))).error is CallError.NODE_EXISTS:
        return ErrorCode.TOPIC_ALREADY_EXISTS, None
    for number, replicas in sorted(assignment.items()):
        key = (topic.name, number)
        yield Create(paths.partition(key))
        yield Create(paths.states(key))
        yield Create(paths.replicas(key), paths.encoded(replicas))
    return ErrorCode.NONE, None
