"""Administrative requests: topics, partitions, replicas, settings, records, descriptions."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from broker.core.messages.clients import MetadataBroker
from broker.core.messages.operations import NOT_ASKED


class NewTopic(NamedTuple):
    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()  # (partition, replicas)
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopicsRequest(NamedTuple):
    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class CreatedTopic(NamedTuple):
    """`configs`: (name, value, whether it is read-only, number of its source) of each setting in force."""

    name: str
    error_code: int
    error_message: str | None = None
    topic_id: str = ""
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str | None, bool, int], ...] = ()


class CreateTopicsResponse(NamedTuple):
    topics: tuple[CreatedTopic, ...]


class DeleteTopicsRequest(NamedTuple):
    topics: tuple[tuple[str | None, str], ...]  # (name or None, topic id or "")
    timeout_ms: int = 60_000


class DeletedTopic(NamedTuple):
    name: str | None
    topic_id: str
    error_code: int
    error_message: str | None = None


class DeleteTopicsResponse(NamedTuple):
    topics: tuple[DeletedTopic, ...]


class ElectLeadersRequest(NamedTuple):
    election_type: int  # 0 preferred, 1 unclean
    partitions: tuple[tuple[str, int], ...] | None = None  # None: all
    timeout_ms: int = 60_000


class ElectedPartition(NamedTuple):
    topic: str
    partition: int
    error_code: int
    error_message: str | None = None


class ElectLeadersResponse(NamedTuple):
    error_code: int
    partitions: tuple[ElectedPartition, ...]


class NewPartitions(NamedTuple):
    topic: str
    total_count: int  # after the change
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitionsRequest(NamedTuple):
    topics: tuple[NewPartitions, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class NamedResult(NamedTuple):
    name: str
    error_code: int
    error_message: str | None = None


class CreatePartitionsResponse(NamedTuple):
    results: tuple[NamedResult, ...]


class Reassignment(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[int, ...] | None  # None cancels


class AlterPartitionReassignmentsRequest(NamedTuple):
    reassignments: tuple[Reassignment, ...]
    timeout_ms: int = 60_000
    allow_replication_factor_change: bool = True


class ReassignmentResult(NamedTuple):
    topic: str
    partition: int
    error_code: int
    error_message: str | None = None


class AlterPartitionReassignmentsResponse(NamedTuple):
    error_code: int
    results: tuple[ReassignmentResult, ...] = ()


class ListPartitionReassignmentsRequest(NamedTuple):
    partitions: tuple[tuple[str, int], ...] | None = None  # None: all
    timeout_ms: int = 60_000


class OngoingReassignment(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ListPartitionReassignmentsResponse(NamedTuple):
    error_code: int
    reassignments: tuple[OngoingReassignment, ...] = ()


class ResourceType(IntEnum):
    """What has settings, as the wire numbers it. Harrow has settings of topics and of brokers."""

    TOPIC = 2
    BROKER = 4
    """With an empty name: all brokers."""

    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(NamedTuple):
    key: str
    operation: int  # 0 set, 1 delete, 2 append, 3 subtract
    value: str | None


class ConfigResource(NamedTuple):
    resource_type: int
    name: str
    operations: tuple[ConfigOperation, ...]


class IncrementalAlterConfigsRequest(NamedTuple):
    resources: tuple[ConfigResource, ...]
    validate_only: bool = False


class AlteredConfig(NamedTuple):
    error_code: int
    error_message: str | None
    resource_type: int
    name: str


class IncrementalAlterConfigsResponse(NamedTuple):
    results: tuple[AlteredConfig, ...]


class ReplacedConfigs(NamedTuple):
    """A resource and all settings of its own that it is to have."""

    resource_type: int
    name: str
    configs: tuple[tuple[str, str | None], ...]


class AlterConfigsRequest(NamedTuple):
    """AlterConfigs (33), the older way: what a resource has and the request does not name is removed."""

    resources: tuple[ReplacedConfigs, ...]
    validate_only: bool = False


class AlterConfigsResponse(NamedTuple):
    results: tuple[AlteredConfig, ...]


class DescribeConfigsRequest(NamedTuple):
    """Resources as (type, name, keys or None for all)."""

    resources: tuple[tuple[int, str, tuple[str, ...] | None], ...]
    include_synonyms: bool = False
    include_documentation: bool = False


class DescribedConfig(NamedTuple):
    """`synonyms`: (name, value, number of the source) of each place that has a value, the one in force first."""

    name: str
    value: str | None
    read_only: bool
    config_source: int
    config_type: int
    synonyms: tuple[tuple[str, str | None, int], ...] = ()
    documentation: str | None = None


class DescribedResource(NamedTuple):
    error_code: int
    error_message: str | None
    resource_type: int
    name: str
    configs: tuple[DescribedConfig, ...]


class DescribeConfigsResponse(NamedTuple):
    results: tuple[DescribedResource, ...]


class ListConfigResourcesRequest(NamedTuple):
    """ListConfigResources (74). No type asks for all; version 0 asks for the metrics of clients only."""

    resource_types: tuple[int, ...] = ()


class ListConfigResourcesResponse(NamedTuple):
    """Resources as (name, type)."""

    error_code: int
    resources: tuple[tuple[str, int], ...] = ()


class DeleteRecordsPartition(NamedTuple):
    topic: str
    partition: int
    offset: int  # -1: the high watermark


class DeleteRecordsRequest(NamedTuple):
    partitions: tuple[DeleteRecordsPartition, ...]
    timeout_ms: int = 60_000


class DeletedRecords(NamedTuple):
    topic: str
    partition: int
    error_code: int
    low_watermark: int = -1


class DeleteRecordsResponse(NamedTuple):
    partitions: tuple[DeletedRecords, ...]


class DescribeLogDirsPartition(NamedTuple):
    topic: str
    partition: int


class DescribeLogDirsRequest(NamedTuple):
    """DescribeLogDirs (35); None asks for all partitions."""

    partitions: tuple[DescribeLogDirsPartition, ...] | None


class DescribedLog(NamedTuple):
    """`size` in bytes; `offset_lag`: how far the log end is behind the high watermark."""

    topic: str
    partition: int
    size: int
    offset_lag: int


class DescribedLogDirectory(NamedTuple):
    error_code: int
    path: str
    logs: tuple[DescribedLog, ...]


class DescribeLogDirsResponse(NamedTuple):
    directories: tuple[DescribedLogDirectory, ...]


class DescribeTopicPartitionsRequest(NamedTuple):
    """DescribeTopicPartitions (75); an empty tuple asks for all topics."""

    topics: tuple[str, ...]
    partition_limit: int = 2000
    cursor: tuple[str, int] | None = None


class DescribedPartition(NamedTuple):
    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class DescribedTopic(NamedTuple):
    error_code: int
    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[DescribedPartition, ...]
    authorized_operations: int = NOT_ASKED


class DescribeTopicPartitionsResponse(NamedTuple):
    topics: tuple[DescribedTopic, ...]
    next_cursor: tuple[str, int] | None = None


class DescribeClusterRequest(NamedTuple):
    """DescribeCluster (60)."""

    endpoint_type: int = 1  # 1 brokers, 2 controllers (KIP-919)
    include_cluster_authorized_operations: bool = False


class DescribeClusterResponse(NamedTuple):
    error_code: int
    cluster_id: str
    controller_id: int
    brokers: tuple[MetadataBroker, ...]
    authorized_operations: int = NOT_ASKED


class DescribeProducersRequest(NamedTuple):
    """DescribeProducers (61): (topic, partition) pairs."""

    partitions: tuple[tuple[str, int], ...]


class DescribedProducer(NamedTuple):
    """`last_timestamp` is that of its last batch in milliseconds, -1 if the batch is not in the log any more."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int = -1  # of a transaction


class DescribedProducers(NamedTuple):
    topic: str
    partition: int
    error_code: int
    error_message: str | None = None
    producers: tuple[DescribedProducer, ...] = ()


class DescribeProducersResponse(NamedTuple):
    partitions: tuple[DescribedProducers, ...]


class UnregisterBrokerRequest(NamedTuple):
    """UnregisterBroker (64)."""

    broker_id: int


class UnregisterBrokerResponse(NamedTuple):
    error_code: int
    error_message: str | None = None
