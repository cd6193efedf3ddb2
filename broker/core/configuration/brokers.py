"""The settings of brokers and controllers: the one list, from which file, validation, description and docs follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from types import MappingProxyType

from broker.core.configuration.values import (
    ADDRESS,
    ADDRESSES,
    BOOLEAN,
    COMPRESSION,
    COUNT,
    DIRECTORIES,
    INT32_MAX,
    INTERVAL,
    LISTENERS,
    LONG_MILLISECONDS,
    MILLISECONDS,
    MINUTES,
    RATIO,
    REPLICAS,
    ROLES,
    SECONDS,
    SELECTOR,
    SOCKET_PATH,
    STRATEGY,
    TEXT,
    VOTERS,
    WORDS,
    Kind,
    ValueType,
    long,
    one_of,
    some_of,
    whole,
)
from broker.core.settings import Settings


class Scope(Enum):
    """For whom a setting can be altered while the nodes run."""

    READ_ONLY = "read-only"
    CLUSTER = "cluster"
    """For all nodes at once: the controller decides by it, or all nodes must agree."""

    BROKER = "broker"
    """For one broker, or for all."""


@dataclass(frozen=True)
class BrokerSetting:
    """One setting. `field` is its place in `Settings`, whose default is its default."""

    name: str
    type: ValueType
    documentation: str
    scope: Scope
    field: str

    @property
    def default(self) -> str | None:
        """The default as text; None if there is none."""
        value = _DEFAULTS.get(self.field)
        return None if value is None else self.type.text(value)


def _setting(
    name: str, kind: ValueType, documentation: str, scope: Scope = Scope.READ_ONLY, field: str = ""
) -> BrokerSetting:
    return BrokerSetting(name, kind, documentation, scope, field or name.replace(".", "_"))


CLEANUP_POLICY = some_of("delete, compact, or both; or nothing, which keeps all records", "delete", "compact")
"""What may be done to old records."""

TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")


def _identity() -> Iterator[BrokerSetting]:
    yield _setting(
        "process.roles", ROLES, "`broker`, `controller`, or `broker,controller`: both in one process", field="roles"
    )
    yield _setting("node.id", whole(0, INT32_MAX), "The number of this node, unique in the cluster")
    yield _setting("cluster.id", TEXT, "The name of the cluster; nodes of another one are refused")
    yield _setting(
        "broker.rack",
        TEXT,
        "Where the broker is; replicas are spread over the racks, and Metadata and DescribeCluster tell it",
        field="rack",
    )
    yield _setting(
        "replica.selector.class",
        SELECTOR,
        "With the rack-aware one consumers read from a [follower in their rack](broker.md#reading-from-followers)",
        field="replica_selector",
    )
    yield _setting(
        "controller.quorum.voters",
        VOTERS,
        "`100@host:port,…`: where each voter's CONTROLLER listener is reached",
        field="voters",
    )
    yield _setting(
        "listeners",
        LISTENERS,
        "Where the node binds: `CLIENT://host:port,BROKER://host:port` (broker), `CONTROLLER://host:port` (controller)",
    )
    yield _setting(
        "advertised.listeners",
        LISTENERS,
        "What clients (CLIENT) and the other brokers (BROKER) are given as the address; without it `listeners`",
    )
    yield _setting(
        "harrow.peer.addresses",
        ADDRESSES,
        "`ID@host:port,…`: where to reach the BROKER listeners of these nodes instead of their advertised address "
        "(per-link proxies)",
        field="peer_addresses",
    )


def _logs() -> Iterator[BrokerSetting]:
    yield _setting("log.dirs", DIRECTORIES, "One or more directories, separated by commas")
    yield _setting(
        "log.segment.bytes", whole(1024, INT32_MAX), "A log begins a new segment before one is larger", Scope.BROKER
    )
    yield _setting(
        "log.flush.interval.messages",
        INTERVAL,
        "1: fsync before a record counts; n: after every n records",
        Scope.BROKER,
    )
    yield _setting("log.flush.interval.ms", INTERVAL, "fsync every that many milliseconds", Scope.BROKER)
    yield _setting(
        "log.cleanup.policy",
        CLEANUP_POLICY,
        "Whether old records are deleted by time and size, [compacted](broker.md#compaction), or both",
        Scope.BROKER,
    )
    yield _setting(
        "log.cleaner.min.cleanable.ratio",
        RATIO,
        "Share of a log's closed segments that must be uncompacted before it is compacted",
        Scope.BROKER,
    )
    yield _setting(
        "log.cleaner.min.compaction.lag.ms", long(0), "How long a record stays before it is compacted", Scope.BROKER
    )
    yield _setting(
        "log.cleaner.delete.retention.ms",
        long(0),
        "How long a tombstone stays after a compaction has first met it",
        Scope.BROKER,
    )
    yield _setting(
        "log.cleaner.backoff.ms", MILLISECONDS, "How often logs to compact are looked for while there are none"
    )
    yield _setting(
        "log.cleaner.dedupe.buffer.size",
        whole(1024, INT32_MAX, Kind.LONG),
        "Memory for the keys of a compaction, 200 bytes for each; Kafka: 128 MiB, 24 bytes",
        field="log_cleaner_dedupe_buffer_bytes",
    )
    yield _setting(
        "log.retention.ms", long(-1), "How long records are kept; -1: for ever. `harrow run` sets -1", Scope.BROKER
    )
    yield _setting(
        "log.retention.bytes",
        long(-1),
        "The oldest segments of a log that is larger are deleted; -1: none",
        Scope.BROKER,
    )
    yield _setting(
        "log.retention.check.interval.ms", LONG_MILLISECONDS, "How often retention by time and by size is applied"
    )
    yield _setting(
        "producer.id.expiration.ms",
        MILLISECONDS,
        "A partition forgets an idempotent producer that has written nothing to it for so long, by the broker's "
        "monotonic clock",
        Scope.BROKER,
    )
    yield _setting("producer.id.expiration.check.interval.ms", MILLISECONDS, "How often idle producers are looked for")
    yield _setting("message.max.bytes", COUNT, "The largest batch that a broker accepts", Scope.BROKER)
    yield _setting(
        "compression.type",
        COMPRESSION,
        "The codec in which batches are stored; `producer`: as they come. The leader compresses anew what differs",
        Scope.BROKER,
    )
    yield _setting(
        "log.message.timestamp.type",
        TIMESTAMP_TYPE,
        "Whether a record has the producer's time, or the time of day at which the leader appended it",
        Scope.BROKER,
    )
    yield _setting(
        "log.message.timestamp.before.max.ms",
        long(0),
        "A record whose producer's time is further in the past is refused",
        Scope.BROKER,
    )
    yield _setting(
        "log.message.timestamp.after.max.ms",
        long(0),
        "A record whose producer's time is further in the future is refused; Kafka's default is an hour",
        Scope.BROKER,
    )
    yield _setting(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG_MILLISECONDS,
        "How often the checkpoints of offsets are written",
        field="high_watermark_checkpoint_interval_ms",
    )
    yield _setting(
        "harrow.storage",
        one_of("files", "page-cache"),
        "`files`: the host's files; `page-cache`: the host's files with a ledger of what was synced, so that a fault "
        "may drop the rest",
        field="storage",
    )


def _topics() -> Iterator[BrokerSetting]:
    yield _setting("num.partitions", COUNT, "Partitions of a topic whose creator names no number", Scope.CLUSTER)
    yield _setting(
        "default.replication.factor", REPLICAS, "Replicas of a topic whose creator names no number", Scope.CLUSTER
    )
    yield _setting(
        "min.insync.replicas",
        COUNT,
        "How many replicas must be in sync for acks=all; never more than a partition has",
        Scope.CLUSTER,
    )
    yield _setting(
        "auto.create.topics.enable", BOOLEAN, "Whether a topic is created when a client names it", Scope.BROKER
    )
    yield _setting(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        "Whether the controller lets preferred replicas lead that can",
        Scope.CLUSTER,
    )
    yield _setting(
        "leader.imbalance.check.interval.seconds",
        SECONDS,
        "How often it does, and holds elections that a setting allows by now",
        Scope.CLUSTER,
        "leader_imbalance_check_interval_ms",
    )
    yield _setting(
        "unclean.leader.election.enable",
        BOOLEAN,
        "Whether a replica may lead that was not in sync, which may lose records",
        Scope.CLUSTER,
    )
    yield _setting(
        "unclean.recovery.strategy",
        STRATEGY,
        "`proactive`, `balanced` or `manual`; KIP-966's final names `Aggressive`, `Balanced`, `None` mean the same. "
        "Without it `proactive` if unclean election is enabled, else `balanced`",
        Scope.CLUSTER,
    )
    yield _setting(
        "unclean.recovery.manager.enabled",
        BOOLEAN,
        "false: K5 elects the first active replica where unclean election is enabled, as K4 does",
    )
    yield _setting(
        "unclean.recovery.timeout.ms",
        LONG_MILLISECONDS,
        "A recovery that waits longer for a replica is reported in the log",
    )


def _groups() -> Iterator[BrokerSetting]:
    yield _setting(
        "offsets.topic.num.partitions",
        COUNT,
        "Partitions of the topic that keeps consumer groups; Kafka's default is 50",
    )
    yield _setting(
        "offsets.topic.replication.factor", REPLICAS, "Its replicas; never more than brokers at its creation"
    )
    yield _setting("offsets.topic.segment.bytes", COUNT, "Its `segment.bytes` when it is created")
    yield _setting(
        "offsets.retention.minutes",
        MINUTES,
        "How long committed offsets are kept after the last member of their group has left, or their last commit if "
        "that was later. `harrow run` keeps them for ever",
        field="offsets_retention_ms",
    )
    yield _setting("offsets.retention.check.interval.ms", LONG_MILLISECONDS, "How often that is checked")
    yield _setting(
        "offsets.commit.timeout.ms",
        MILLISECONDS,
        "How long a group coordinator waits for the replicas of what it writes",
    )
    yield _setting(
        "group.initial.rebalance.delay.ms",
        whole(0, INT32_MAX),
        "How long an empty group waits for more members after the first",
    )
    yield _setting("group.max.size", COUNT, "The most members that a group may have")
    yield _setting("group.min.session.timeout.ms", MILLISECONDS, "The shortest session that a member may ask for")
    yield _setting("group.max.session.timeout.ms", MILLISECONDS, "The longest session that a member may ask for")


def _replication() -> Iterator[BrokerSetting]:
    yield _setting(
        "initial.broker.registration.timeout.ms",
        MILLISECONDS,
        "A broker that cannot register for so long after its start ends with status 4, and says why: no active "
        "controller, or a living broker with the same `node.id`. `harrow run` sets a day",
    )
    yield _setting("broker.session.timeout.ms", MILLISECONDS, "A broker without a heartbeat for so long is fenced")
    yield _setting("broker.heartbeat.interval.ms", MILLISECONDS, "How often a broker reports to the controller")
    yield _setting(
        "controlled.shutdown.timeout.ms",
        MILLISECONDS,
        "How long a broker that got SIGTERM waits for the controller's permission",
    )
    yield _setting(
        "replica.lag.time.max.ms",
        LONG_MILLISECONDS,
        "A follower that has not caught up for so long leaves the in-sync replicas",
    )
    yield _setting("replica.fetch.wait.max.ms", MILLISECONDS, "How long a leader may hold a follower's empty fetch")
    yield _setting("replica.fetch.backoff.ms", MILLISECONDS, "How long a follower waits after a failed fetch")
    yield _setting("replica.fetch.max.bytes", COUNT, "The most bytes of a partition in a follower's fetch")
    yield _setting("replica.fetch.response.max.bytes", COUNT, "The most bytes in a follower's fetch")
    yield _setting(
        "request.timeout.ms",
        MILLISECONDS,
        "Timeout of a request between nodes, in addition to the wait that the request itself asks for",
    )


def _controllers() -> Iterator[BrokerSetting]:
    prefix = "controller.quorum."
    yield _setting(
        f"{prefix}election.timeout.ms", MILLISECONDS, "How long a candidate waits for the votes of a majority"
    )
    yield _setting(f"{prefix}election.backoff.max.ms", MILLISECONDS, "The longest pause before a candidate tries again")
    yield _setting(
        f"{prefix}fetch.timeout.ms", MILLISECONDS, "A voter that has not heard of the leader for so long stands itself"
    )
    yield _setting(f"{prefix}request.timeout.ms", MILLISECONDS, "Timeout of a request between controllers")
    yield _setting(
        f"{prefix}fetch.wait.max.ms",
        MILLISECONDS,
        "How long a controller may hold an empty fetch of the metadata log",
        field="metadata_fetch_wait_max_ms",
    )
    yield _setting(
        f"{prefix}fetch.max.bytes", COUNT, "The most bytes in such a fetch", field="metadata_fetch_max_bytes"
    )
    yield _setting(
        f"{prefix}fetch.snapshot.max.bytes",
        COUNT,
        "Size of the pieces in which a snapshot is fetched",
        field="metadata_snapshot_fetch_max_bytes",
    )
    yield _setting(
        f"{prefix}retry.backoff.ms",
        MILLISECONDS,
        "Pause after a failed request to the controller",
        field="metadata_retry_backoff_ms",
    )
    yield _setting(
        "harrow.metadata.snapshot.records",
        COUNT,
        "A snapshot of the metadata is taken after this many records",
        field="metadata_snapshot_records",
    )


def _process() -> Iterator[BrokerSetting]:
    yield _setting(
        "max.incremental.fetch.session.cache.slots",
        whole(0, INT32_MAX),
        "How many readers may have a fetch session; 0: none",
        field="fetch_session_slots",
    )
    yield _setting(
        "fetch.max.bytes",
        whole(1024, INT32_MAX),
        "No response to a fetch has more, but for one batch. Kafka's default is 55 MiB",
    )
    yield _setting(
        "socket.request.max.bytes",
        COUNT,
        "The largest request; a connection that sends more is closed. All connections together may hold four times as "
        "much. Kafka's default is 100 MiB",
    )
    yield _setting("connections.max.idle.ms", LONG_MILLISECONDS, "A connection that is idle for so long is closed")
    yield _setting("harrow.generation", TEXT, "The [protocol version](../protocol.md#19), K1 to K5", field="generation")
    yield _setting("harrow.flaws", WORDS, "Names of [flaws](flaws.md), separated by commas", field="flaws")
    yield _setting("harrow.admin.socket", SOCKET_PATH, "Path of the admin endpoint", field="admin_socket")
    yield _setting(
        "harrow.metrics.listener",
        ADDRESS,
        "`host:port` where `GET /metrics` is served over TCP too",
        field="metrics_listener",
    )


def _defaults() -> Iterator[tuple[str, object]]:
    for field in fields(Settings):
        if field.default is not MISSING:
            yield field.name, field.default
        elif field.default_factory is not MISSING:
            yield field.name, field.default_factory()


_DEFAULTS = dict(_defaults())

BROKER_SETTINGS: Mapping[str, BrokerSetting] = MappingProxyType(
    {
        setting.name: setting
        for part in (_identity, _logs, _topics, _groups, _replication, _controllers, _process)
        for setting in part()
    }
)
"""Name → setting, in the order of the docs."""
