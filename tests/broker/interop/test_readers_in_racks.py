"""Consumers of three libraries read from the follower in their rack, and from the leader when it is gone (KIP-392)."""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tests.support.local_cluster import LocalCluster, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

RACKS = {1: "a", 2: "b", 3: "c"}
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RECORD_BYTES = 10_000
RECORDS = 40
PATIENCE_S = 60


@pytest.fixture(scope="module")
def racked() -> Iterator[LocalCluster]:
    with LocalCluster(racks=RACKS, replica_selector_class=RACK_AWARE) as cluster:
        yield cluster


class Reader(ABC):
    """A consumer in a rack, at the beginning of partition 0."""

    @abstractmethod
    def read(self, count: int) -> list[bytes]:
        """The next records."""

    @abstractmethod
    def close(self) -> None:
        """End."""


class Confluent(Reader):
    def __init__(self, bootstrap: str, topic: str, rack: str) -> None:
        module = pytest.importorskip(
            "confluent_kafka", reason="confluent-kafka is not installed: pip install harrow[clients]"
        )
        self.consumer = module.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "client.rack": rack})
        self.consumer.assign([module.TopicPartition(topic, 0, module.OFFSET_BEGINNING)])

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            found += [one.value() for one in self.consumer.consume(count - len(found), 1) if one.error() is None]
        return found

    def close(self) -> None:
        self.consumer.close()


class KafkaPython(Reader):
    def __init__(self, bootstrap: str, topic: str, rack: str) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self.consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), client_rack=rack)
        self.consumer.assign([TopicPartition(topic, 0)])
        self.consumer.seek_to_beginning()

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            for records in self.consumer.poll(1000, max_records=count - len(found)).values():
                found += [record.value for record in records]
        return found

    def close(self) -> None:
        self.consumer.close()


class Aiokafka(Reader):
    def __init__(self, bootstrap: str, topic: str, rack: str) -> None:
        module = pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install harrow[clients]")
        self.loop = asyncio.new_event_loop()

        async def start() -> None:
            partition = module.TopicPartition(topic, 0)
            self.consumer = module.AIOKafkaConsumer(bootstrap_servers=bootstrap, client_rack=rack)
            await self.consumer.start()
            self.consumer.assign([partition])
            await self.consumer.seek_to_beginning(partition)

        self.loop.run_until_complete(start())

    def read(self, count: int) -> list[bytes]:
        async def go() -> list[bytes]:
            found: list[bytes] = []
            deadline = time.monotonic() + PATIENCE_S
            while len(found) < count and time.monotonic() < deadline:
                for records in (await self.consumer.getmany(timeout_ms=1000, max_records=count - len(found))).values():
                    found += [record.value for record in records]
            return found

        return self.loop.run_until_complete(go())

    def close(self) -> None:
        self.loop.run_until_complete(self.consumer.stop())
        self.loop.close()


READERS = {"confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


def sent_to_clients(cluster: LocalCluster, broker: int) -> int:
    """The bytes that a broker has sent to clients so far; before the first there is no such metric."""
    text = cluster.nodes[broker].ask("/metrics").decode()
    found = re.search(r'harrow_bytes_out_total\{listener="CLIENT"\} ([0-9.e+]+)', text)
    return int(float(found[1])) if found else 0


def write(cluster: LocalCluster, topic: str, numbers: range) -> list[bytes]:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    sent = [b"%0*d" % (RECORD_BYTES, number) for number in numbers]
    for future in [producer.send(topic, value) for value in sent]:
        future.get(PATIENCE_S)
    producer.close()
    return sent


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("library", READERS)
def test_a_consumer_reads_from_its_rack_and_from_elsewhere_when_that_broker_dies(racked, library):
    topic = f"read-by-{library}"
    admin = KafkaAdminClient(bootstrap_servers=racked.bootstrap)
    admin.create_topics([NewTopic(topic, 1, 3)])
    admin.close()
    eventually(lambda: racked.leader_of(topic) > 0, PATIENCE_S, "there is a leader")
    leader = racked.leader_of(topic)
    follower = next(one for one in RACKS if one != leader)
    written = write(racked, topic, range(RECORDS))
    before = {one: sent_to_clients(racked, one) for one in RACKS}
    reader = READERS[library](",".join(racked.bootstrap), topic, RACKS[follower])
    try:
        assert reader.read(RECORDS) == written
        sent = {one: sent_to_clients(racked, one) - before[one] for one in RACKS}
        assert sent[follower] > RECORDS * RECORD_BYTES
        assert sent[leader] < RECORDS * RECORD_BYTES / 2
        racked.nodes[follower].kill()
        more = write(racked, topic, range(RECORDS, RECORDS + 5))
        assert reader.read(len(more)) == more
    finally:
        reader.close()
        racked.start()
