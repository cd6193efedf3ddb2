"""Does what an administrator of the first design does by hand: writes the assignment of a new topic into the tree."""

from __future__ import annotations

from functools import partial

from broker.core.messages import AnyRequest, CreateTopicsRequest, NewTopic
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import CallError, Create
from broker.zookeeper import paths
from broker.zookeeper.procedures import Steps
from broker.zookeeper.requests.assignment import Refusal, assignment_of
from broker.zookeeper.requests.creation import create_topics
from broker.zookeeper.state import ZooKeeperState


def procedure_of(zk: ZooKeeperState, request_id: int, request: AnyRequest) -> Steps[None] | None:
    """What carries out an administrator's request; None if the design has no such command."""
    if isinstance(request, CreateTopicsRequest):
        return create_topics(zk, request_id, request, partial(_create_topic, zk))
    return None


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
