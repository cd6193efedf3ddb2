"""What a topic's settings say of the clean-up of its logs, under Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.configuration import topics
from broker.core.settings import Settings

COMPACT = "compact"

BYTES_PER_KEY = 200
"""What a key takes of `log.cleaner.dedupe.buffer.size`: its fingerprint and its offset."""


class Compaction(NamedTuple):
    """When a log is compacted, and how long its tombstones stay. Times in milliseconds."""

    min_dirty_ratio: float
    min_lag_ms: int
    delete_retention_ms: int


def policy(settings: Settings, topic: str, configs: Mapping[str, str]) -> tuple[str, ...]:
    """The `cleanup.policy` of a topic; that of committed offsets is compacted unless it says otherwise."""
    if topic == OFFSETS_TOPIC and topics.CLEANUP.name not in configs:
        return (COMPACT,)
    words: tuple[str, ...] = topics.CLEANUP.value(settings, configs)
    return words


def deletes(settings: Settings, topic: str, configs: Mapping[str, str]) -> bool:
    """Whether `retention.ms` and `retention.bytes` apply."""
    return "delete" in policy(settings, topic, configs)


def may_delete_records(settings: Settings, topic: str, configs: Mapping[str, str]) -> bool:
    """Whether DeleteRecords is served: not where records are only compacted, as in Kafka."""
    return policy(settings, topic, configs) != (COMPACT,)


def compaction(settings: Settings, topic: str, configs: Mapping[str, str]) -> Compaction | None:
    """How a topic's logs are compacted; None if they are not."""
    if COMPACT not in policy(settings, topic, configs):
        return None
    return Compaction(
        topics.MIN_DIRTY_RATIO.value(settings, configs),
        topics.MIN_COMPACTION_LAG_MS.value(settings, configs),
        topics.DELETE_RETENTION_MS.value(settings, configs),
    )
