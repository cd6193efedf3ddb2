"""Creates topics: writes their assignment into the tree, from where the controller reads it."""

from __future__ import annotations

from functools import partial

from broker.core.messages import AnyRequest, CreateTopicsRequest, NewTopic
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import CallError, Create
from broker.zookeeper import paths
from broker.zookeeper.designs.controller import znodes
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
    data = znodes.encoded_assignment(assignment)
    if (yield Create(paths.topic(topic.name), data)).error is CallError.NODE_EXISTS:
        return ErrorCode.TOPIC_ALREADY_EXISTS, None
    return ErrorCode.NONE, None
