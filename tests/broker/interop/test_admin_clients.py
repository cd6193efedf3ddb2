"""The administration clients of the libraries, against a real cluster."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, NewTopic, OffsetSpec

from tests.support.local_cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(60)]

BROKERS = {1, 2, 3}


@pytest.fixture
def admin(cluster):
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(admin, request):
    name = request.node.name.translate(str.maketrans("[]", "--"))
    admin.create_topics([NewTopic(name, 1, 2)])
    return name


def has_partitions(cluster, topic, count):
    eventually(lambda: len(cluster.partitions(topic)) == count, 10, f"{topic} has {count} partitions")


# --- kafka-python -----------------------------------------------------------------------------------------


def test_kafka_python_describes_the_cluster(admin):
    assert {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]} == BROKERS


def test_kafka_python_adds_partitions(cluster, admin, topic):
    admin.create_partitions({topic: 3})
    has_partitions(cluster, topic, 3)


def test_kafka_python_moves_a_partition(cluster, admin, topic):
    before = set(cluster.partitions(topic)[0]["replicas"])
    wanted = sorted(BROKERS - {min(before)})
    admin.alter_partition_reassignments({TopicPartition(topic, 0): wanted})
    eventually(lambda: sorted(cluster.partitions(topic)[0]["isr"]) == wanted, 20, f"the replicas are {wanted}")
    eventually(lambda: not admin.list_partition_reassignments(), 10, "nothing moves any more")


def test_kafka_python_alters_and_describes_settings(admin, topic):
    resource = ConfigResource("TOPIC", topic)

    def altered():
        try:
            admin.alter_configs([ConfigResource("TOPIC", topic, {"min.insync.replicas": "2"})])
        except ValueError:  # it asks some broker for what may be set, which may not have heard of the topic yet
            return False
        return True

    def described():
        return str(admin.describe_configs([resource]))

    eventually(altered, 10, "the broker that was asked knows the topic")

    eventually(lambda: "min.insync.replicas" in described(), 10, "the setting has changed")


def test_kafka_python_deletes_records(cluster, admin, topic):
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    for number in range(10):
        producer.send(topic, b"%d" % number).get(10)
    producer.close()
    admin.delete_records({TopicPartition(topic, 0): 4})
    leader = cluster.nodes[cluster.leader_of(topic)]
    (replica,) = [each for each in leader.replicas() if each["topic"] == topic]
    assert (replica["log_start"], replica["log_end"]) == (4, 10)


def test_kafka_python_finds_the_record_with_the_largest_timestamp(cluster, admin, topic):
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    for timestamp_ms in (10_000, 30_000, 20_000):
        producer.send(topic, b"value", timestamp_ms=timestamp_ms).get(10)
    producer.close()
    partition = TopicPartition(topic, 0)
    found = admin.list_partition_offsets({partition: OffsetSpec.MAX_TIMESTAMP})[partition]
    assert (found.offset, found.timestamp) == (1, 30_000)


def test_kafka_python_finds_the_first_local_record(cluster, admin, topic):
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    for _ in range(3):
        producer.send(topic, b"value").get(10)
    producer.close()
    partition = TopicPartition(topic, 0)
    admin.delete_records({partition: 2})
    assert admin.list_partition_offsets({partition: OffsetSpec.EARLIEST_LOCAL})[partition].offset == 2
    assert admin.list_partition_offsets({partition: OffsetSpec.LATEST_TIERED})[partition].offset == -1


def test_kafka_python_describes_producers(cluster, admin, topic):
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True)
    for timestamp_ms in (10_000, 30_000):
        producer.send(topic, b"value", timestamp_ms=timestamp_ms).get(10)
    partition = TopicPartition(topic, 0)
    (described,) = admin.describe_producers([partition])[partition].active_producers
    producer.close()
    assert (described.last_timestamp, described.last_sequence) == (30_000, 1)
    assert (described.coordinator_epoch, described.current_transaction_start_offset) == (-1, -1)


def test_kafka_python_describes_log_directories(cluster, admin, topic):
    def holders():
        return {
            described["broker"]
            for described in admin.describe_log_dirs()
            for directory in described["log_dirs"]
            if any(each["name"] == topic for each in directory["topics"])
        }

    replicas = set(cluster.partitions(topic)[0]["replicas"])
    eventually(lambda: holders() == replicas, 10, "all replicas hold the topic, and no other broker")


def test_kafka_python_describes_partitions_with_their_eligible_leaders(admin, topic):
    found = []

    def is_described():
        (described,) = admin.describe_topic_partitions([topic])["topics"]
        found[:] = described["partitions"]
        return len(found) == 1

    eventually(is_described, 10, "the broker that is asked knows the topic")
    (partition,) = found
    assert sorted(partition["isr_nodes"]) == sorted(partition["replica_nodes"])
    assert not partition["eligible_leader_replicas"]


def test_kafka_python_learns_of_the_features(admin):
    features = admin.describe_features()
    assert features["harrow.generation"]["finalized"] == (5, 5)
    assert features["eligible.leader.replicas.version"]["finalized"] == (1, 1)


# --- aiokafka ---------------------------------------------------------------------------------------------


@pytest.mark.clients
def test_aiokafka_administers(cluster, topic):
    module = pytest.importorskip("aiokafka.admin", reason="aiokafka is not installed: pip install harrow[clients]")

    async def scenario():
        admin = module.AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            kind = module.config_resource.ConfigResourceType.TOPIC
            old_way = module.config_resource.ConfigResource(kind, topic, {"retention.ms": "1000000"})
            (answer,) = await admin.alter_configs([old_way])
            assert answer.resources[0][0] == 0
            answers = await admin.describe_configs([module.config_resource.ConfigResource(kind, topic)])
            values = {config[0]: config[1] for config in answers[0].resources[0][4]}
            assert values["min.insync.replicas"] == "2"
            await admin.create_partitions({topic: module.NewPartitions(2)})
            assert {broker["node_id"] for broker in (await admin.describe_cluster())["brokers"]} == BROKERS
        finally:
            await admin.close()

    asyncio.run(scenario())
    has_partitions(cluster, topic, 2)


# --- librdkafka -------------------------------------------------------------------------------------------


@pytest.mark.clients
def test_confluent_kafka_administers(cluster, topic):
    module = pytest.importorskip(
        "confluent_kafka.admin", reason="confluent-kafka is not installed: pip install harrow[clients]"
    )
    from confluent_kafka import TopicPartition as Position

    admin = module.AdminClient({"bootstrap.servers": ",".join(cluster.bootstrap)})
    resource = module.ConfigResource(module.ResourceType.TOPIC, topic)
    change = module.ConfigEntry("max.message.bytes", "5000", incremental_operation=module.AlterConfigOpType.SET)
    changed = module.ConfigResource(module.ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([changed])[changed].result(10)

    def value():
        return admin.describe_configs([resource])[resource].result(10)["max.message.bytes"].value

    eventually(lambda: value() == "5000", 10, "the setting has changed")
    admin.create_partitions([module.NewPartitions(topic, 2)])[topic].result(10)
    has_partitions(cluster, topic, 2)
    deleted = admin.delete_records([Position(topic, 0, 0)])
    assert [future.result(10).low_watermark for future in deleted.values()] == [0]
    described = admin.describe_cluster(include_authorized_operations=True).result(10)
    assert {node.id for node in described.nodes} == BROKERS
    assert "IDEMPOTENT_WRITE" in {each.name for each in described.authorized_operations}


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed: apt-get install kcat")
def test_kcat_describes_cluster_and_topic(cluster, topic):
    done = subprocess.run(
        ["kcat", "-L", "-J", "-b", ",".join(cluster.bootstrap), "-t", topic],
        capture_output=True,
        check=True,
        timeout=30,
    )
    listing = json.loads(done.stdout)
    assert {broker["id"] for broker in listing["brokers"]} == BROKERS
    (partition,) = listing["topics"][0]["partitions"]
    assert partition["leader"] == cluster.leader_of(topic)
    assert len(partition["replicas"]) == 2
