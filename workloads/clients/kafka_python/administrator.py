"""Administers topics through `kafka.KafkaAdminClient`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka import KafkaAdminClient, TopicPartition

from workloads.clients.base import ClientError, ClientSettings, Partition
from workloads.clients.kafka_python.consumer import client_errors
from workloads.clients.kafka_python.wire import Untyped
from workloads.clients.optional_interfaces import Placement

CLUSTER_DEFAULT = -1
"""A replication factor: the cluster's default."""


class KafkaPythonAdministrator:
    """Implements `workloads.clients.optional_interfaces.Administrator`."""

    def __init__(self, settings: ClientSettings) -> None:
        with client_errors():
            self._client = KafkaAdminClient(
                bootstrap_servers=list(settings.bootstrap),
                **settings.security.python_options(),
                client_id=f"{settings.client_id}-administrator",
                request_timeout_ms=settings.request_timeout_ms,
                bootstrap_timeout_ms=settings.request_timeout_ms,
                reconnect_backoff_max_ms=settings.reconnect_backoff_max_ms,
                metadata_max_age_ms=settings.metadata_max_age_ms,
            )

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        wanted = {topic: {"num_partitions": partitions, "replication_factor": CLUSTER_DEFAULT}}
        with client_errors():
            self._client.create_topics(wanted)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        with client_errors():
            self._client.delete_topics([topic])

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase the number of a topic's partitions to `total`."""
        with client_errors():
            self._client.create_partitions({topic: total})

    def placement(self, partition: Partition) -> Placement:
        """Query the replicas of a partition, from any broker's metadata."""
        with client_errors():
            topics: list[dict[str, Any]] = self._client.describe_topics([partition.topic])
            brokers: list[dict[str, Any]] = self._client.describe_cluster()["brokers"]
        found = [each for topic in topics for each in topic["partitions"] if _number(each) == partition.partition]
        if not found:
            raise ClientError("UnknownTopicOrPartition")
        return Placement(tuple(found[0]["replica_nodes"]), tuple(sorted(each["broker_id"] for each in brokers)))

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Request these replicas."""
        key = TopicPartition(*partition)
        with client_errors():
            answers: dict[TopicPartition, Untyped] = self._client.alter_partition_reassignments({key: list(replicas)})
        if answers.get(key) is not None:
            raise ClientError(getattr(answers[key], "__name__", str(answers[key])))

    def close(self) -> None:
        """Disconnect."""
        with client_errors():
            self._client.close()


def _number(partition: dict[str, Any]) -> int:
    return int(partition["partition_index"])
