"""The settings of topics: the one list, from which validation, description and docs follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from broker.core.configuration.brokers import BROKER_SETTINGS
from broker.core.configuration.logs import CLEANUP_POLICY, TIMESTAMP_TYPE
from broker.core.configuration.setting import BrokerSetting
from broker.core.configuration.settings import Settings
from broker.core.configuration.values import (
    BOOLEAN,
    COMPRESSION,
    COUNT,
    INT32_MAX,
    INTERVAL,
    RATIO,
    STRATEGY,
    ImpossibleValue,
    ValueType,
    long,
    whole,
)


@dataclass(frozen=True)
class TopicSetting:
    """One setting. `broker` is the broker's setting whose value a topic has that does not say otherwise."""

    name: str
    type: ValueType
    broker: BrokerSetting
    documentation: str

    def value(self, settings: Settings, configs: Mapping[str, str]) -> Any:  # noqa: ANN401 - each has its own type
        """The value in force: the topic's own among `configs`, or that of `settings`.

        A value that an older or newer Harrow stored and this one cannot read counts as none.
        """
        text = configs.get(self.name)
        if text is not None:
            try:
                return self.type.parse(text)
            except ImpossibleValue:
                pass
        return getattr(settings, self.broker.field)


def _setting(name: str, kind: ValueType, broker: str, documentation: str) -> TopicSetting:
    return TopicSetting(name, kind, BROKER_SETTINGS[broker], documentation)


CLEANUP = _setting(
    "cleanup.policy",
    CLEANUP_POLICY,
    "log.cleanup.policy",
    "Whether old records are deleted by time and size, and whether only the last record of each key stays",
)
COMPRESSION_TYPE = _setting(
    "compression.type",
    COMPRESSION,
    "compression.type",
    "The codec in which batches are stored; `producer`: as they come",
)
DELETE_RETENTION = _setting(
    "delete.retention.ms",
    long(0),
    "log.cleaner.delete.retention.ms",
    "How long readers can see a tombstone after a compaction has first met it",
)
FILE_DELETE_DELAY = _setting(
    "file.delete.delay.ms",
    long(0),
    "log.segment.delete.delay.ms",
    "Has no effect: the files of a deleted segment go at once",
)
FLUSH_MESSAGES = _setting(
    "flush.messages",
    INTERVAL,
    "log.flush.interval.messages",
    "1: fsync before a record counts; n: after every n records",
)
INDEX_INTERVAL = _setting(
    "index.interval.bytes",
    whole(0, INT32_MAX),
    "log.index.interval.bytes",
    "How many bytes of a log at least lie between two entries of its indexes, from the next segment on",
)
MAX_COMPACTION_LAG = _setting(
    "max.compaction.lag.ms",
    long(1),
    "log.cleaner.max.compaction.lag.ms",
    "A log whose oldest uncompacted record is older is compacted, whatever the share",
)
MAX_MESSAGE_BYTES = _setting(
    "max.message.bytes", whole(0, INT32_MAX), "message.max.bytes", "The largest batch that is accepted"
)
TIMESTAMP_AFTER = _setting(
    "message.timestamp.after.max.ms",
    long(0),
    "log.message.timestamp.after.max.ms",
    "A record whose producer's time is further in the future is refused",
)
TIMESTAMP_BEFORE = _setting(
    "message.timestamp.before.max.ms",
    long(0),
    "log.message.timestamp.before.max.ms",
    "A record whose producer's time is further in the past is refused",
)
TIMESTAMPS = _setting(
    "message.timestamp.type",
    TIMESTAMP_TYPE,
    "log.message.timestamp.type",
    "Whether a record has the producer's time, or the time of day at which the leader appended it",
)
MIN_CLEANABLE_RATIO = _setting(
    "min.cleanable.dirty.ratio",
    RATIO,
    "log.cleaner.min.cleanable.ratio",
    "The share of a log's closed segments that must be uncompacted before it is compacted",
)
MIN_COMPACTION_LAG = _setting(
    "min.compaction.lag.ms",
    long(0),
    "log.cleaner.min.compaction.lag.ms",
    "How long a record stays at least before it may be compacted",
)
MIN_ISR = _setting(
    "min.insync.replicas",
    COUNT,
    "min.insync.replicas",
    "How many replicas must be in sync for acks=all; never more than a partition has",
)
RETENTION_BYTES = _setting(
    "retention.bytes",
    long(-1),
    "log.retention.bytes",
    "The oldest segments of a log that is larger are deleted; -1: none",
)
RETENTION_MS = _setting("retention.ms", long(-1), "log.retention.ms", "How long records are kept; -1: for ever")
SEGMENT_BYTES = _setting(
    "segment.bytes", whole(1, INT32_MAX), "log.segment.bytes", "A log begins a new segment before one is larger"
)
SEGMENT_MS = _setting(
    "segment.ms",
    long(1),
    "log.roll.ms",
    "A log begins a new segment before a record that is so much later than the first of the segment",
)
UNCLEAN_ELECTION = _setting(
    "unclean.leader.election.enable",
    BOOLEAN,
    "unclean.leader.election.enable",
    "Whether a replica may lead that was not in sync, which may lose records",
)
UNCLEAN_STRATEGY = _setting(
    "unclean.recovery.strategy",
    STRATEGY,
    "unclean.recovery.strategy",
    "How a leader is found when no replica is known to be complete",
)

TOPIC_SETTINGS: Mapping[str, TopicSetting] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            CLEANUP,
            COMPRESSION_TYPE,
            DELETE_RETENTION,
            FILE_DELETE_DELAY,
            FLUSH_MESSAGES,
            INDEX_INTERVAL,
            MAX_COMPACTION_LAG,
            MAX_MESSAGE_BYTES,
            TIMESTAMP_AFTER,
            TIMESTAMP_BEFORE,
            TIMESTAMPS,
            MIN_CLEANABLE_RATIO,
            MIN_COMPACTION_LAG,
            MIN_ISR,
            RETENTION_BYTES,
            RETENTION_MS,
            SEGMENT_BYTES,
            SEGMENT_MS,
            UNCLEAN_ELECTION,
            UNCLEAN_STRATEGY,
        )
    }
)
"""Name → setting, in the order of the docs."""
