"""A node's settings as typed values; `broker.shell.properties` reads them from a file.

Names are Kafka's own with underscores for dots. Times are milliseconds, sizes bytes. A flush interval of
0 means never: the page cache then decides when a record reaches the disk, which is Kafka's default and
the point of most faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from broker.core.messages import Listener

Address = tuple[str, int]
"""Host and port."""

CLIENT_LISTENER = "CLIENT"
BROKER_LISTENER = "BROKER"
CONTROLLER_LISTENER = "CONTROLLER"

Role = Literal["broker", "controller"]
UncleanRecoveryStrategy = Literal["proactive", "balanced", "manual"]
STRATEGIES: Mapping[str, UncleanRecoveryStrategy] = MappingProxyType(
    {
        "proactive": "proactive",
        "balanced": "balanced",
        "manual": "manual",
        "aggressive": "proactive",
        "none": "manual",
    }
)
"""The names of the strategies of unclean recovery, with those of KIP-966's final text."""

Storage = Literal["files", "page-cache"]
ReplicaSelector = Literal["leader", "rack-aware"]

UNLIMITED = (1 << 63) - 1
"""The largest long, by which Kafka writes "without a bound"."""


def _no_addresses() -> Mapping[int, Address]:
    return MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one node. Defaults are Kafka's unless docs/reference/broker.md says otherwise."""

    node_id: int
    voters: Mapping[int, Address]
    """`controller.quorum.voters`: where each controller listens."""

    listeners: tuple[Listener, ...]
    """Where the node binds: CLIENT and BROKER of a broker, CONTROLLER of a controller."""

    log_dirs: tuple[str, ...]
    """`log.dirs`: where logs are kept. The first is also that of the metadata log."""

    roles: tuple[Role, ...] = ("broker",)
    cluster_id: str = "harrow"
    advertised_listeners: tuple[Listener, ...] = ()
    """The addresses that clients and nodes get. `properties` fills it from `listeners`; ports are never 0 here."""

    peer_addresses: Mapping[int, Address] = field(default_factory=_no_addresses)
    """`harrow.peer.addresses`: where to reach these nodes instead of their advertised address."""

    rack: str | None = None
    """`broker.rack`: where the broker is."""

    replica_selector: ReplicaSelector = "leader"
    """`replica.selector.class`: which replica a leader sends consumers to (KIP-392)."""

    log_segment_bytes: int = 1 << 30
    log_roll_ms: int = 604_800_000
    """How much later than a segment's first record another one may be, to be appended to it."""

    log_index_interval_bytes: int = 4_096
    """A segment's indexes have an entry for the first batch after at least so many bytes without one."""

    log_segment_delete_delay_ms: int = 60_000
    """Has no effect: the files of a segment go with it, for nobody reads them any more."""

    log_flush_interval_messages: int = 0
    """1: fsync before a record counts; n: after every n records; 0: never."""

    log_flush_interval_ms: int = 0
    message_max_bytes: int = 1_048_588
    compression_type: str = "producer"
    log_message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    log_message_timestamp_before_max_ms: int = UNLIMITED
    log_message_timestamp_after_max_ms: int = UNLIMITED
    """Kafka's default is an hour; a node that started under a wrong clock would then refuse all records for ever."""

    high_watermark_checkpoint_interval_ms: int = 5_000

    log_cleanup_policy: tuple[str, ...] = ("delete",)
    """What is done to old records of a topic without `cleanup.policy`."""

    log_retention_ms: int = 604_800_000
    """How long a topic without `retention.ms` keeps its records; -1: unlimited."""

    log_retention_bytes: int = -1
    """The size up to which a log of a topic without `retention.bytes` is kept; -1: unlimited."""

    log_retention_check_interval_ms: int = 300_000

    log_cleaner_backoff_ms: int = 15_000
    """How long the cleaner rests when there is nothing to compact."""

    log_cleaner_min_cleanable_ratio: float = 0.5
    """Share of a log's closed segments that must be uncompacted before it is compacted."""

    log_cleaner_min_compaction_lag_ms: int = 0
    log_cleaner_max_compaction_lag_ms: int = UNLIMITED
    """After how long a record is compacted, whatever the share."""

    log_cleaner_delete_retention_ms: int = 86_400_000
    """How long readers can see a tombstone after a compaction has first met it."""

    log_cleaner_dedupe_buffer_bytes: int = 32 << 20
    """Memory for the keys of one compaction."""

    producer_id_expiration_ms: int = 86_400_000
    """How long a partition keeps the state of an idle producer."""

    producer_id_expiration_check_interval_ms: int = 600_000
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    auto_create_topics_enable: bool = True

    offsets_topic_num_partitions: int = 4
    """Kafka's default is 50. A group's coordinator leads the partition that the group's name hashes to."""

    offsets_topic_replication_factor: int = 3
    """Reduced to the number of brokers when the topic is created."""

    offsets_topic_segment_bytes: int = 100 << 20
    """`segment.bytes` of the topic when it is created."""

    offsets_retention_ms: int = 604_800_000
    """`offsets.retention.minutes`: how long the offsets of a group without members are kept."""

    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    """How long a coordinator waits for its writes to be replicated."""

    group_initial_rebalance_delay_ms: int = 3_000
    """How long an empty group waits for more members after the first."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 0x7FFFFFFF

    auto_leader_rebalance_enable: bool = True
    """Whether the controller elects preferred replicas every `leader_imbalance_check_interval_ms`."""

    leader_imbalance_check_interval_ms: int = 300_000
    unclean_leader_election_enable: bool = False
    unclean_recovery_strategy: UncleanRecoveryStrategy | None = None
    """None: proactive where unclean election is enabled, otherwise balanced."""

    unclean_recovery_manager_enabled: bool = True
    """Whether K5 looks for the best log. Otherwise it elects as K4 does where unclean election is enabled, or waits."""

    unclean_recovery_timeout_ms: int = 300_000
    """After this time a recovery that waits for a replica is reported."""

    initial_broker_registration_timeout_ms: int = 60_000
    """A broker that cannot register for so long after its start ends."""

    broker_session_timeout_ms: int = 9_000
    broker_heartbeat_interval_ms: int = 2_000
    controlled_shutdown_timeout_ms: int = 30_000

    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_backoff_ms: int = 1_000
    replica_fetch_max_bytes: int = 1 << 20
    """Per partition."""

    replica_fetch_response_max_bytes: int = 10 << 20
    """Per fetch."""

    controller_quorum_election_timeout_ms: int = 1_000
    controller_quorum_fetch_timeout_ms: int = 2_000
    controller_quorum_election_backoff_max_ms: int = 1_000
    controller_quorum_request_timeout_ms: int = 2_000
    metadata_snapshot_records: int = 5_000
    """A snapshot of the metadata is taken after this many records."""

    metadata_fetch_wait_max_ms: int = 500
    """How long a controller may hold a broker's fetch of the metadata log that finds nothing new."""

    metadata_fetch_max_bytes: int = 8 << 20
    metadata_snapshot_fetch_max_bytes: int = 8 << 20
    """Size of a snapshot chunk (QU-21)."""

    metadata_retry_backoff_ms: int = 100
    """Pause after a failed request to the controller."""

    request_timeout_ms: int = 2_000
    """Timeout of a request between nodes, in addition to the wait that the request itself asks for."""

    fetch_session_slots: int = 1_000
    """`max.incremental.fetch.session.cache.slots`: how many readers may have a fetch session; 0: none."""

    socket_request_max_bytes: int = 8 << 20
    """Kafka's default is 100 MiB. All connections together may hold four times as much."""

    fetch_max_bytes: int = 10 << 20
    """`fetch.max.bytes`: no response to a fetch has more, but for one batch. Kafka's default is 55 MiB."""

    connections_max_idle_ms: int = 600_000

    generation: str = "K5"
    """Protocol version, K1 to K5, or a design on ZooKeeper."""

    zookeeper_connect: tuple[Address, ...] = ()
    """`zookeeper.connect`: where a broker of a design on ZooKeeper reaches the members of its ensemble."""

    flaws: tuple[str, ...] = ()
    admin_socket: str | None = None
    metrics_listener: Address | None = None
    """`harrow.metrics.listener`: TCP address of the metrics, in addition to the admin socket."""

    storage: Storage = "files"

    given: frozenset[str] = frozenset()
    """The names of those that the file says, as DescribeConfigs reports them."""

    @property
    def is_controller(self) -> bool:
        """Whether the node is a controller."""
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        """Whether the node is a broker."""
        return "broker" in self.roles
