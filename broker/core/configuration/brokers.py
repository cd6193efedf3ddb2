"""The settings of brokers and controllers: the one list, from which file, validation, description and docs follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from broker.core.configuration.logs import logs
from broker.core.configuration.setting import BrokerSetting, Scope, broker_setting
from broker.core.configuration.values import (
    ADDRESS,
    ADDRESSES,
    BOOLEAN,
    COUNT,
    INT32_MAX,
    LISTENERS,
    LONG_MILLISECONDS,
    MILLISECONDS,
    MINUTES,
    REPLICAS,
    ROLES,
    SECONDS,
    SELECTOR,
    SERVERS,
    SOCKET_PATH,
    STRATEGY,
    TEXT,
    VOTERS,
    WORDS,
    whole,
)


def _identity() -> Iterator[BrokerSetting]:
    yield broker_setting(
        "process.roles", ROLES, "`broker`, `controller`, or `broker,controller`: both in one process", field="roles"
    )
    yield broker_setting("node.id", whole(0, INT32_MAX), "The number of this node, unique in the cluster")
    yield broker_setting("cluster.id", TEXT, "The name of the cluster; nodes of another one are refused")
    yield broker_setting(
        "broker.rack",
        TEXT,
        "Where the broker is; replicas are spread over the racks, and Metadata and DescribeCluster tell it",
        field="rack",
    )
    yield broker_setting(
        "replica.selector.class",
        SELECTOR,
        "With the rack-aware one consumers read from a [follower in their rack](broker.md#reading-from-followers)",
        field="replica_selector",
    )
    yield broker_setting(
        "controller.quorum.voters",
        VOTERS,
        "`100@host:port,…`: where each voter's CONTROLLER listener is reached",
        field="voters",
    )
    yield broker_setting(
        "listeners",
        LISTENERS,
        "Where the node binds: `CLIENT://host:port,BROKER://host:port` (broker), `CONTROLLER://host:port` (controller)",
    )
    yield broker_setting(
        "advertised.listeners",
        LISTENERS,
        "What clients (CLIENT) and the other brokers (BROKER) are given as the address; without it `listeners`",
    )
    yield broker_setting(
        "harrow.peer.addresses",
        ADDRESSES,
        "`ID@host:port,…`: where to reach the BROKER listeners of these nodes instead of their advertised address "
        "(per-link proxies)",
        field="peer_addresses",
    )


def _topics() -> Iterator[BrokerSetting]:
    yield broker_setting("num.partitions", COUNT, "Partitions of a topic whose creator names no number", Scope.CLUSTER)
    yield broker_setting(
        "default.replication.factor", REPLICAS, "Replicas of a topic whose creator names no number", Scope.CLUSTER
    )
    yield broker_setting(
        "min.insync.replicas",
        COUNT,
        "How many replicas must be in sync for acks=all; never more than a partition has",
        Scope.CLUSTER,
    )
    yield broker_setting(
        "auto.create.topics.enable", BOOLEAN, "Whether a topic is created when a client names it", Scope.BROKER
    )
    yield broker_setting(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        "Whether the controller lets preferred replicas lead that can",
        Scope.CLUSTER,
    )
    yield broker_setting(
        "leader.imbalance.check.interval.seconds",
        SECONDS,
        "How often it does, and holds elections that a setting allows by now",
        Scope.CLUSTER,
        "leader_imbalance_check_interval_ms",
    )
    yield broker_setting(
        "unclean.leader.election.enable",
        BOOLEAN,
        "Whether a replica may lead that was not in sync, which may lose records",
        Scope.CLUSTER,
    )
    yield broker_setting(
        "unclean.recovery.strategy",
        STRATEGY,
        "`proactive`, `balanced` or `manual`; KIP-966's final names `Aggressive`, `Balanced`, `None` mean the same. "
        "Without it `proactive` if unclean election is enabled, else `balanced`",
        Scope.CLUSTER,
    )
    yield broker_setting(
        "unclean.recovery.manager.enabled",
        BOOLEAN,
        "false: K5 elects the first active replica where unclean election is enabled, as K4 does",
    )
    yield broker_setting(
        "unclean.recovery.timeout.ms",
        LONG_MILLISECONDS,
        "A recovery that waits longer for a replica is reported in the log",
    )


def _groups() -> Iterator[BrokerSetting]:
    yield broker_setting(
        "offsets.topic.num.partitions",
        COUNT,
        "Partitions of the topic that keeps consumer groups; Kafka's default is 50",
    )
    yield broker_setting(
        "offsets.topic.replication.factor", REPLICAS, "Its replicas; never more than brokers at its creation"
    )
    yield broker_setting("offsets.topic.segment.bytes", COUNT, "Its `segment.bytes` when it is created")
    yield broker_setting(
        "offsets.retention.minutes",
        MINUTES,
        "How long committed offsets are kept after the last member of their group has left, or their last commit if "
        "that was later",
        field="offsets_retention_ms",
    )
    yield broker_setting(
        "offsets.retention.check.interval.ms",
        LONG_MILLISECONDS,
        "How often offsets that are kept no longer are looked for",
    )
    yield broker_setting(
        "offsets.commit.timeout.ms",
        MILLISECONDS,
        "How long a group coordinator waits for the replicas of what it writes",
    )
    yield broker_setting(
        "group.initial.rebalance.delay.ms",
        whole(0, INT32_MAX),
        "How long an empty group waits for more members after the first",
    )
    yield broker_setting("group.max.size", COUNT, "The most members that a group may have")
    yield broker_setting("group.min.session.timeout.ms", MILLISECONDS, "The shortest session that a member may ask for")
    yield broker_setting("group.max.session.timeout.ms", MILLISECONDS, "The longest session that a member may ask for")


def _replication() -> Iterator[BrokerSetting]:
    yield broker_setting(
        "initial.broker.registration.timeout.ms",
        MILLISECONDS,
        "A broker that cannot register for so long after its start ends with status 4, and says why: no active "
        "controller, or a living broker with the same `node.id`. `harrow run` sets a day",
    )
    yield broker_setting(
        "broker.session.timeout.ms", MILLISECONDS, "A broker without a heartbeat for so long is fenced"
    )
    yield broker_setting("broker.heartbeat.interval.ms", MILLISECONDS, "How often a broker reports to the controller")
    yield broker_setting(
        "controlled.shutdown.timeout.ms",
        MILLISECONDS,
        "How long a broker that got SIGTERM waits for the controller's permission",
    )
    yield broker_setting(
        "replica.lag.time.max.ms",
        LONG_MILLISECONDS,
        "A follower that has not caught up for so long leaves the in-sync replicas",
    )
    yield broker_setting(
        "replica.fetch.wait.max.ms", MILLISECONDS, "How long a leader may hold a follower's empty fetch"
    )
    yield broker_setting("replica.fetch.backoff.ms", MILLISECONDS, "How long a follower waits after a failed fetch")
    yield broker_setting("replica.fetch.max.bytes", COUNT, "The most bytes of a partition in a follower's fetch")
    yield broker_setting("replica.fetch.response.max.bytes", COUNT, "The most bytes in a follower's fetch")
    yield broker_setting(
        "request.timeout.ms",
        MILLISECONDS,
        "Timeout of a request between nodes, in addition to the wait that the request itself asks for",
    )


def _controllers() -> Iterator[BrokerSetting]:
    prefix = "controller.quorum."
    yield broker_setting(
        f"{prefix}election.timeout.ms", MILLISECONDS, "How long a candidate waits for the votes of a majority"
    )
    yield broker_setting(
        f"{prefix}election.backoff.max.ms", MILLISECONDS, "The longest pause before a candidate tries again"
    )
    yield broker_setting(
        f"{prefix}fetch.timeout.ms", MILLISECONDS, "A voter that has not heard of the leader for so long stands itself"
    )
    yield broker_setting(f"{prefix}request.timeout.ms", MILLISECONDS, "Timeout of a request between controllers")
    yield broker_setting(
        f"{prefix}fetch.wait.max.ms",
        MILLISECONDS,
        "How long a controller may hold an empty fetch of the metadata log",
        field="metadata_fetch_wait_max_ms",
    )
    yield broker_setting(
        f"{prefix}fetch.max.bytes", COUNT, "The most bytes in such a fetch", field="metadata_fetch_max_bytes"
    )
    yield broker_setting(
        f"{prefix}fetch.snapshot.max.bytes",
        COUNT,
        "Size of the pieces in which a snapshot is fetched",
        field="metadata_snapshot_fetch_max_bytes",
    )
    yield broker_setting(
        f"{prefix}retry.backoff.ms",
        MILLISECONDS,
        "Pause after a failed request to the controller",
        field="metadata_retry_backoff_ms",
    )
    yield broker_setting(
        "harrow.metadata.snapshot.records",
        COUNT,
        "A snapshot of the metadata is taken after this many records",
        field="metadata_snapshot_records",
    )


def _process() -> Iterator[BrokerSetting]:
    yield broker_setting(
        "max.incremental.fetch.session.cache.slots",
        whole(0, INT32_MAX),
        "How many readers may have a fetch session; 0: none",
        field="fetch_session_slots",
    )
    yield broker_setting(
        "fetch.max.bytes",
        whole(1024, INT32_MAX),
        "No response to a fetch has more, but for one batch. Kafka's default is 55 MiB",
    )
    yield broker_setting(
        "socket.request.max.bytes",
        COUNT,
        "The largest request; a connection that sends more is closed. All connections together may hold four times as "
        "much. Kafka's default is 100 MiB",
    )
    yield broker_setting(
        "connections.max.idle.ms", LONG_MILLISECONDS, "A connection that is idle for so long is closed"
    )
    yield broker_setting(
        "harrow.generation",
        TEXT,
        "The [protocol version](../protocol.md#19), K1 to K5, "
        "or `zk-v1`, `zk-v2`, C1 to C3 [on ZooKeeper](zookeeper.md)",
        field="generation",
    )
    yield broker_setting(
        "zookeeper.connect",
        SERVERS,
        "`host:port,…`: where the members of the ensemble are reached; the versions on ZooKeeper need it",
        field="zookeeper_connect",
    )
    yield broker_setting("harrow.flaws", WORDS, "Names of [flaws](flaws.md), separated by commas", field="flaws")
    yield broker_setting("harrow.admin.socket", SOCKET_PATH, "Path of the admin endpoint", field="admin_socket")
    yield broker_setting(
        "harrow.metrics.listener",
        ADDRESS,
        "`host:port` where `GET /metrics` is served over TCP too",
        field="metrics_listener",
    )


BROKER_SETTINGS: Mapping[str, BrokerSetting] = MappingProxyType(
    {
        setting.name: setting
        for part in (_identity, logs, _topics, _groups, _replication, _controllers, _process)
        for setting in part()
    }
)
"""Name → setting, in the order of the docs."""
