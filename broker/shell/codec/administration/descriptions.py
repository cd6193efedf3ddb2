"""Codec of descriptions.

DescribeTopicPartitions (75), version 0, DescribeCluster (60), 0 and 1, and DescribeLogDirs (35), 1 to 4. Version 2 of
DescribeCluster asks for fenced brokers too, which the core does not report. Volume sizes are not reported (-1).
"""

from __future__ import annotations

from kafka.protocol.admin import DescribeClusterRequest as WireClusterRequest
from kafka.protocol.admin import DescribeClusterResponse as WireClusterResponse
from kafka.protocol.admin import DescribeLogDirsRequest as WireDirectoriesRequest
from kafka.protocol.admin import DescribeLogDirsResponse as WireDirectoriesResponse
from kafka.protocol.admin import DescribeTopicPartitionsRequest as WirePartitionsRequest
from kafka.protocol.admin import DescribeTopicPartitionsResponse as WirePartitionsResponse

from broker.core.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedLog,
    DescribedLogDirectory,
    DescribedPartition,
    DescribedTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataBroker,
)
from broker.shell.codec.mapping import (
    ARRAY,
    BITS,
    TEXT,
    UUID,
    by_topic,
    many,
    mapped,
    message,
    nullable,
    only,
    record,
    row,
)

# --- DescribeTopicPartitions ------------------------------------------------------------------------------

_CURSOR = nullable(row("topic_name", "partition_index"))
"""The topic and the partition with which the next page begins."""

_PARTITION = record(
    DescribedPartition,
    partition="partition_index",
    leader="leader_id",
    replicas=("replica_nodes", ARRAY),
    isr=("isr_nodes", ARRAY),
    elr=("eligible_leader_replicas", ARRAY),
    last_known_elr=ARRAY,
    offline_replicas=ARRAY,
)
_TOPIC = record(
    DescribedTopic,
    name=TEXT,
    topic_id=UUID,
    partitions=many(_PARTITION),
    authorized_operations="topic_authorized_operations",
)

DESCRIBE_TOPIC_PARTITIONS = mapped(
    (0, 0),
    message(
        WirePartitionsRequest,
        record(
            DescribeTopicPartitionsRequest,
            topics=many(only("name")),
            partition_limit="response_partition_limit",
            cursor=_CURSOR,
        ),
    ),
    message(
        WirePartitionsResponse,
        record(DescribeTopicPartitionsResponse, topics=many(_TOPIC), next_cursor=_CURSOR),
    ),
)

# --- DescribeCluster --------------------------------------------------------------------------------------

_BROKER = record(MetadataBroker, node_id="broker_id")

DESCRIBE_CLUSTER = mapped(
    (0, 1),
    message(WireClusterRequest, record(DescribeClusterRequest)),
    message(WireClusterResponse, record(DescribeClusterResponse, brokers=many(_BROKER), authorized_operations=BITS)),
)


_LOGS = nullable(by_topic(record(DescribeLogDirsPartition), key="topic"))
_LOG = record(DescribedLog, partition="partition_index", size="partition_size")
_DIRECTORY = record(DescribedLogDirectory, path="log_dir", logs=("topics", by_topic(_LOG)))

DESCRIBE_LOG_DIRS = mapped(
    (1, 4),
    message(WireDirectoriesRequest, record(DescribeLogDirsRequest, partitions=("topics", _LOGS))),
    message(WireDirectoriesResponse, record(DescribeLogDirsResponse, directories=("results", many(_DIRECTORY)))),
)
