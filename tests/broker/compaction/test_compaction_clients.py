"""Real clients write the same keys over and over to a real cluster, and read a log of bounded size."""

from __future__ import annotations

import asyncio

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.support.local_cluster import LocalCluster, eventually
from tests.support.quick import first_quick

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

SEGMENT_BYTES = 4_000
KEYS = 20
ROUNDS = 400
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.1"}
EXPECTED = {b"key-%d" % key: b"%d" % (ROUNDS - 1) * 10 for key in range(1, KEYS)}
"""What a reader must find; the last record of key 0 is a tombstone."""


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(**{"log.cleaner.backoff.ms": "100"}) as running:
        yield running


def records():
    for number in range(ROUNDS):
        for key in range(KEYS):
            yield b"key-%d" % key, b"%d" % number * 10
    yield b"key-0", None


def create(cluster, topic):
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic(topic, 1, 3, topic_configs=SETTINGS)])
    admin.close()


@pytest.fixture(scope="module")
def plain(cluster):
    """A topic that kafka-python has written and all replicas have compacted."""
    create(cluster, "plain")
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", batch_size=2000)
    for key, value in records():
        producer.send("plain", key=key, value=value)
    producer.flush()
    producer.close()
    eventually(lambda: is_compacted(cluster, "plain"), 30, "all replicas are compacted")
    return "plain"


def is_compacted(cluster, topic):
    """Whether every replica has hardly more than the segment that is being written."""
    for node in cluster.brokers:
        directory = next(node.directory.rglob(f"{topic}-0"), None)
        if directory is None:
            return False
        if sum(size_of(file) for file in directory.glob("*.log")) > 3 * SEGMENT_BYTES:
            return False
    return True


def size_of(file):
    """The size of a segment; 0 if it has been replaced meanwhile."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def applied(records):
    values = {}
    count = 0
    for key, value in records:
        count += 1
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    return values, count


def test_kafka_python_reads_the_last_value_of_each_key(cluster, plain):
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, consumer_timeout_ms=3000)
    partition = TopicPartition(plain, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    assert end == ROUNDS * KEYS + 1
    values, count = applied((one.key, one.value) for one in consumer)
    assert consumer.position(partition) == end
    consumer.close()
    assert values == EXPECTED
    assert count < end / 2


@pytest.mark.slow
@pytest.mark.parametrize("codec", first_quick(["none", "gzip", "snappy", "lz4", "zstd"]))
def test_librdkafka_reads_the_last_value_of_each_key_in_every_codec(cluster, codec):
    confluent = pytest.importorskip("confluent_kafka")
    bootstrap = ",".join(cluster.bootstrap)
    create(cluster, codec)
    producer = confluent.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "batch.num.messages": 50, "acks": "all"}
    )
    for key, value in records():
        producer.produce(codec, key=key, value=value)
    assert producer.flush(30) == 0
    eventually(lambda: is_compacted(cluster, codec), 30, "all replicas are compacted")
    consumer = confluent.Consumer({"bootstrap.servers": bootstrap, "group.id": f"readers-{codec}"})
    consumer.assign([confluent.TopicPartition(codec, 0, confluent.OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(3)) is not None:
        assert message.error() is None
        found.append((message.key(), message.value()))
    consumer.close()
    values, count = applied(found)
    assert values == EXPECTED
    assert count < ROUNDS * KEYS / 2


def test_aiokafka_reads_the_last_value_of_each_key(cluster, plain):
    aiokafka = pytest.importorskip("aiokafka")

    async def read():
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=",".join(cluster.bootstrap))
        await consumer.start()
        partition = aiokafka.TopicPartition(plain, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        found = []
        while await consumer.position(partition) < end:
            batches = await consumer.getmany(partition, timeout_ms=1000)
            found += [(one.key, one.value) for records in batches.values() for one in records]
        await consumer.stop()
        return found

    values, _ = applied(asyncio.run(asyncio.wait_for(read(), 30)))
    assert values == EXPECTED
