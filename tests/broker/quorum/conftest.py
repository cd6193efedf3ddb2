"""Real clusters with several controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.support.local_cluster import LocalCluster, eventually

LIMIT_S = 20.0


class Driven:
    """A cluster, and a client's operations on it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            yield client
        finally:
            client.close()

    @property
    def bootstrap(self) -> list[str]:
        return [self.cluster.addresses[node.number] for node in self.cluster.brokers if node.process is not None]

    def create(self, topic: str, partitions: int = 3) -> None:
        with self.admin() as admin:
            admin.create_topics([NewTopic(topic, partitions, 3)])
        self.wait(lambda: len(self.cluster.partitions(topic)) == partitions, f"{topic} is there")

    def produce(self, topic: str, numbers: range) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", enable_idempotence=True)
        futures = [producer.send(topic, b"%d" % number, partition=0) for number in numbers]
        for future in futures:
            future.get(LIMIT_S)
        producer.close()

    def read(self, topic: str) -> list[int]:
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest")
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        found: list[int] = []
        while consumer.position(partition) < end:
            found += [int(each.value) for records in consumer.poll(timeout_ms=500).values() for each in records]
        consumer.close()
        return found

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        eventually(condition, LIMIT_S, what)

    def wait_for_one_leader(self) -> None:
        """Wait until all controllers agree on the leader."""

        def agreed() -> bool:
            described = [node.quorum() for node in self.cluster.nodes.values() if node.process is not None]
            return len({(each["epoch"], each["controller"]) for each in described if each}) == 1

        self.wait(lambda: self.cluster.active_controller() is not None and agreed(), "all follow one controller")


@pytest.fixture(scope="module")
def separate() -> Iterator[Driven]:
    with LocalCluster(5, 3) as cluster:
        yield Driven(cluster)


@pytest.fixture(scope="module")
def combined() -> Iterator[Driven]:
    with LocalCluster(3, combined=True) as cluster:
        yield Driven(cluster)
