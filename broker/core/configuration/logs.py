"""The settings of brokers that say how logs are kept."""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.configuration.setting import BrokerSetting, Scope, broker_setting
from broker.core.configuration.values import (
    COMPRESSION,
    COUNT,
    DIRECTORIES,
    INT32_MAX,
    INT64_MAX,
    INTERVAL,
    LONG_MILLISECONDS,
    MILLISECONDS,
    RATIO,
    Kind,
    long,
    one_of,
    some_of,
    whole,
)

DELETE, COMPACT = "delete", "compact"
CLEANUP_POLICY = some_of("delete, compact, both, or nothing, which keeps all records", DELETE, COMPACT)
"""What may be done to old records."""

TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")


def logs() -> Iterator[BrokerSetting]:
    """Those settings, in the order of the docs."""
    yield broker_setting("log.dirs", DIRECTORIES, "One or more directories, separated by commas")
    yield broker_setting(
        "log.segment.bytes", whole(1024, INT32_MAX), "A log begins a new segment before one is larger", Scope.BROKER
    )
    yield broker_setting(
        "log.roll.ms",
        long(1),
        "A log begins a new segment before a record that is so much later than the first of the segment",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.index.interval.bytes",
        whole(0, INT32_MAX),
        "How many bytes of a log at least lie between two entries of its indexes, from the next segment on",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.segment.delete.delay.ms",
        long(0),
        "How much later than a segment Kafka deletes its files. No effect here: nobody reads them any more, and they "
        "go at once",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.flush.interval.messages",
        INTERVAL,
        "1: fsync before a record counts; n: after every n records",
        Scope.BROKER,
    )
    yield broker_setting("log.flush.interval.ms", INTERVAL, "fsync every that many milliseconds", Scope.BROKER)
    yield broker_setting(
        "log.cleanup.policy",
        CLEANUP_POLICY,
        "Whether old records are deleted by time and size, and whether [only the last record of each key "
        "stays](broker.md#compaction)",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.cleaner.min.cleanable.ratio",
        RATIO,
        "The share of a log's closed segments that must be uncompacted before it is compacted",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.cleaner.min.compaction.lag.ms",
        long(0),
        "How long a record stays at least before it may be compacted",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.cleaner.max.compaction.lag.ms",
        long(1),
        "A log whose oldest uncompacted record is older is compacted, whatever the share",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.cleaner.delete.retention.ms",
        long(0),
        "How long readers can see a tombstone after a compaction has first met it",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.cleaner.backoff.ms", MILLISECONDS, "How often logs to compact are looked for while there are none"
    )
    yield broker_setting(
        "log.cleaner.dedupe.buffer.size",
        whole(1024, INT64_MAX, Kind.LONG),
        "Memory for the keys of a compaction, 200 bytes for each; Kafka: 128 MiB, 24 bytes",
        field="log_cleaner_dedupe_buffer_bytes",
    )
    yield broker_setting(
        "log.retention.ms", long(-1), "How long records are kept; -1: for ever. `harrow run` sets -1", Scope.BROKER
    )
    yield broker_setting(
        "log.retention.bytes",
        long(-1),
        "The oldest segments of a log that is larger are deleted; -1: none",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.retention.check.interval.ms", LONG_MILLISECONDS, "How often retention by time and by size is applied"
    )
    yield broker_setting(
        "producer.id.expiration.ms",
        MILLISECONDS,
        "A partition forgets an idempotent producer that has written nothing to it for so long, by the broker's "
        "monotonic clock",
        Scope.BROKER,
    )
    yield broker_setting(
        "producer.id.expiration.check.interval.ms", MILLISECONDS, "How often idle producers are looked for"
    )
    yield broker_setting("message.max.bytes", COUNT, "The largest batch that a broker accepts", Scope.BROKER)
    yield broker_setting(
        "compression.type",
        COMPRESSION,
        "The codec in which batches are stored; `producer`: as they come. The leader compresses anew what differs",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.message.timestamp.type",
        TIMESTAMP_TYPE,
        "Whether a record has the producer's time, or the time of day at which the leader appended it",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.message.timestamp.before.max.ms",
        long(0),
        "A record whose producer's time is further in the past is refused",
        Scope.BROKER,
    )
    yield broker_setting(
        "log.message.timestamp.after.max.ms",
        long(0),
        "A record whose producer's time is further in the future is refused; Kafka's default is an hour",
        Scope.BROKER,
    )
    yield broker_setting(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG_MILLISECONDS,
        "How often the checkpoints of offsets are written",
        field="high_watermark_checkpoint_interval_ms",
    )
    yield broker_setting(
        "harrow.storage",
        one_of("files", "page-cache"),
        "`files`: the host's files; `page-cache`: the host's files with a ledger of what was synced, so that a fault "
        "may drop the rest",
        field="storage",
    )
