"""Answers a request to create topics, each as the design of the broker creates one."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.messages import CreatedTopic, CreateTopicsRequest, CreateTopicsResponse, NewTopic
from broker.zookeeper.procedures import Steps
from broker.zookeeper.requests.assignment import Refusal
from broker.zookeeper.state import ZooKeeperState


def create_topics(
    zk: ZooKeeperState, request_id: int, request: CreateTopicsRequest, create: Callable[[NewTopic], Steps[Refusal]]
) -> Steps[None]:
    """Create the topics one after the other, and answer with what became of each."""
    created = []
    for topic in request.topics:
        error, message = yield from create(topic)
        created.append(CreatedTopic(topic.name, error, message))
    zk.broker.runtime.reply(request_id, CreateTopicsResponse(tuple(created)))
