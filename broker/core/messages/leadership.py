"""Requests of the ZooKeeper controller to brokers: who leads, what clients may know, what to stop (before KRaft)."""

from __future__ import annotations

from typing import NamedTuple

LEADER_DURING_DELETE = -2
"""The leader of a partition of which clients are to hear no more, because its topic is being deleted."""


class LiveBroker(NamedTuple):
    """A registered broker, and where clients reach it."""

    node_id: int
    host: str
    port: int


class PartitionLeadership(NamedTuple):
    """What the controller knows of a partition. `version` is that of its znode, which the leader's writes expect."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int
    replicas: tuple[int, ...]

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition


class LeaderAndIsrRequest(NamedTuple):
    """LeaderAndIsr (4): lead or follow these partitions."""

    controller_id: int
    controller_epoch: int
    partitions: tuple[PartitionLeadership, ...]
    live_brokers: tuple[LiveBroker, ...]


class LeaderAndIsrResponse(NamedTuple):
    error_code: int


class StopReplicaRequest(NamedTuple):
    """StopReplica (5): neither lead nor follow these partitions; delete their logs, if asked to."""

    controller_id: int
    controller_epoch: int
    partitions: tuple[tuple[str, int], ...]
    delete_partitions: bool = False


class StopReplicaResponse(NamedTuple):
    error_code: int


class UpdateMetadataRequest(NamedTuple):
    """UpdateMetadata (6): what to answer clients."""

    controller_id: int
    controller_epoch: int
    partitions: tuple[PartitionLeadership, ...]
    live_brokers: tuple[LiveBroker, ...]


class UpdateMetadataResponse(NamedTuple):
    error_code: int


class ControlledShutdownRequest(NamedTuple):
    """ControlledShutdown (7): a broker is about to stop."""

    broker_id: int


class ControlledShutdownResponse(NamedTuple):
    """`remaining` are the partitions that the broker still leads, since nobody else can."""

    error_code: int
    remaining: tuple[tuple[str, int], ...] = ()


OrderRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
"""What a controller sends."""

LeadershipRequest = OrderRequest | ControlledShutdownRequest
LeadershipResponse = LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse | ControlledShutdownResponse
