"""Codecs of the requests of a controller on ZooKeeper (4 to 7), in the versions of Kafka 0.8.2 to 0.9."""

from __future__ import annotations

from broker.core.messages.leadership import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LiveBroker,
    PartitionLeadership,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from broker.shell.codec import mapping
from broker.shell.codec.mapping import ARRAY, many, mapped, message, record, row

_STATES = (
    "ungrouped_partition_states",
    many(
        record(
            PartitionLeadership,
            topic="topic_name",
            partition="partition_index",
            isr=ARRAY,
            version="zk_version",
            replicas=ARRAY,
        )
    ),
)
_PARTITIONS = many(row("topic_name", "partition_index"))


def _define(name: str) -> mapping.WireMessage:
    return mapping.define("leadership", name)


LEADER_AND_ISR = mapped(
    (0, 0),
    message(
        _define("LeaderAndIsrRequest"),
        record(
            LeaderAndIsrRequest,
            partitions=_STATES,
            live_brokers=("live_leaders", many(record(LiveBroker, node_id="broker_id", host="host_name"))),
        ),
    ),
    message(_define("LeaderAndIsrResponse"), record(LeaderAndIsrResponse)),
)

STOP_REPLICA = mapped(
    (0, 0),
    message(
        _define("StopReplicaRequest"), record(StopReplicaRequest, partitions=("ungrouped_partitions", _PARTITIONS))
    ),
    message(_define("StopReplicaResponse"), record(StopReplicaResponse)),
)

UPDATE_METADATA = mapped(
    (0, 0),
    message(
        _define("UpdateMetadataRequest"),
        record(
            UpdateMetadataRequest,
            partitions=_STATES,
            live_brokers=many(record(LiveBroker, node_id="id", host="v0_host", port="v0_port")),
        ),
    ),
    message(_define("UpdateMetadataResponse"), record(UpdateMetadataResponse)),
)

CONTROLLED_SHUTDOWN = mapped(
    (1, 1),
    message(_define("ControlledShutdownRequest"), record(ControlledShutdownRequest)),
    message(
        _define("ControlledShutdownResponse"),
        record(ControlledShutdownResponse, remaining=("remaining_partitions", _PARTITIONS)),
    ),
)
