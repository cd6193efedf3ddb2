"""What a topic's settings say of the clean-up of its logs."""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.configuration import topics
from broker.core.configuration.logs import COMPACT, DELETE
from broker.core.configuration.settings import Settings
from broker.core.log.compaction.policy import Compaction


def _policy(settings: Settings, topic: str, configs: Mapping[str, str]) -> tuple[str, ...]:
    """The `cleanup.policy` of a topic; that of committed offsets is compacted unless it says otherwise."""
    if topic == OFFSETS_TOPIC and topics.CLEANUP.name not in configs:
        return (COMPACT,)
    policy: tuple[str, ...] = topics.CLEANUP.value(settings, configs)
    return policy


def deletes(settings: Settings, topic: str, configs: Mapping[str, str]) -> bool:
    """Whether `retention.ms` and `retention.bytes` apply."""
    return DELETE in _policy(settings, topic, configs)


def may_delete_records(settings: Settings, topic: str, configs: Mapping[str, str]) -> bool:
    """Whether DeleteRecords is served: not where records are only compacted, as in Kafka."""
    return _policy(settings, topic, configs) != (COMPACT,)


def segment_ms(settings: Settings, topic: str, configs: Mapping[str, str]) -> int:
    """How old a segment becomes before another begins, in milliseconds: so that compaction comes in time, too."""
    configured: int = topics.SEGMENT_MS.value(settings, configs)
    planned = compaction(settings, topic, configs)
    return configured if planned is None else min(configured, planned.max_lag_ms)


def compaction(settings: Settings, topic: str, configs: Mapping[str, str]) -> Compaction | None:
    """How a topic's logs are compacted; None if they are not."""
    if COMPACT not in _policy(settings, topic, configs):
        return None
    return Compaction(
        topics.MIN_CLEANABLE_RATIO.value(settings, configs),
        topics.MIN_COMPACTION_LAG.value(settings, configs),
        topics.MAX_COMPACTION_LAG.value(settings, configs),
        topics.DELETE_RETENTION.value(settings, configs),
    )
