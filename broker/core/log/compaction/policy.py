"""What a topic's settings say of the clean-up of its logs, under Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.settings import Settings

DELETE = "delete"
COMPACT = "compact"
POLICIES = (DELETE, COMPACT, f"{COMPACT},{DELETE}", f"{DELETE},{COMPACT}")
"""The values of `cleanup.policy`."""

BYTES_PER_KEY = 200
"""What a key takes of `log.cleaner.dedupe.buffer.size`: its fingerprint and its offset."""


class Compaction(NamedTuple):
    """When a log is compacted, and how long its tombstones stay. Times in milliseconds."""

    min_dirty_ratio: float
    min_lag_ms: int
    delete_retention_ms: int


def policy(settings: Settings, topic: str, configs: Mapping[str, str]) -> str:
    """The `cleanup.policy` of a topic; that of committed offsets is compacted unless it says otherwise."""
    return configs.get("cleanup.policy", COMPACT if topic == OFFSETS_TOPIC else settings.log_cleanup_policy)


def is_ratio(value: str) -> bool:
    """Whether a text is a legal `min.cleanable.dirty.ratio`: a number from 0 to 1."""
    try:
        return 0 <= float(value) <= 1
    except ValueError:
        return False


def deletes(settings: Settings, topic: str, configs: Mapping[str, str]) -> bool:
    """Whether `retention.ms` and `retention.bytes` apply, and DeleteRecords."""
    return DELETE in policy(settings, topic, configs)


def compaction(settings: Settings, topic: str, configs: Mapping[str, str]) -> Compaction | None:
    """How a topic's logs are compacted; None if they are not."""
    if COMPACT not in policy(settings, topic, configs):
        return None
    return Compaction(
        float(configs.get("min.cleanable.dirty.ratio", settings.log_cleaner_min_cleanable_ratio)),
        int(configs.get("min.compaction.lag.ms", settings.log_cleaner_min_compaction_lag_ms)),
        int(configs.get("delete.retention.ms", settings.log_cleaner_delete_retention_ms)),
    )
