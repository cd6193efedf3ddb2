"""Checks what a new topic is to be like, and decides where its replicas are."""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.messages import NewTopic
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import is_legal_name
from broker.core.ports.coordination import GetChildren
from broker.zookeeper import paths
from broker.zookeeper.procedures import Steps
from broker.zookeeper.requests.placement import place
from broker.zookeeper.state import ZooKeeperState

Refusal = tuple[ErrorCode, str | None]
"""An error, and what to say of it."""


def assignment_of(zk: ZooKeeperState, topic: NewTopic) -> Steps[Mapping[int, tuple[int, ...]] | Refusal]:
    """The replicas of each partition, over the live brokers unless they are given."""
    settings = zk.broker.settings
    live = [int(name) for name in (yield GetChildren(paths.IDS)).children]
    count = topic.num_partitions if topic.num_partitions > 0 else settings.num_partitions
    factor = topic.replication_factor if topic.replication_factor > 0 else settings.default_replication_factor
    if not is_legal_name(topic.name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, None
    if factor > len(live) and not topic.assignments:
        message = f"expected at most the {len(live)} live brokers as replication factor, found {factor}"
        return ErrorCode.INVALID_REPLICATION_FACTOR, message
    return dict(topic.assignments) or dict(enumerate(place(live, count, factor)))
