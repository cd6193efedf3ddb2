"""Settings altered and described by the libraries' administration clients, and what they change for their producers."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, NewTopic, OffsetSpec
from kafka.errors import InvalidTimestampError, MessageSizeTooLargeError, TopicAlreadyExistsError

from tests.support.local_cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(60)]

BROKERS = (1, 2, 3)
LOG_APPEND_TIME = 1


@pytest.fixture
def admin(cluster):
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(cluster, admin, request):
    name = request.node.name.translate(str.maketrans("[]", "--"))
    admin.create_topics([NewTopic(name, 1, 3)])
    known_by_all_brokers(cluster, name)
    return name


def known_by_all_brokers(cluster, topic):
    def is_known():
        return all(any(replica["topic"] == topic for replica in cluster.nodes[broker].replicas()) for broker in BROKERS)

    eventually(is_known, 10, f"all brokers know {topic}")


def described(admin, kind, name, **options):
    found = admin.describe_configs([ConfigResource(kind, name)], config_filter="all", **options)
    return found[kind.lower()][name]


def changes_to(admin, kind, name, key, value):
    eventually(lambda: described(admin, kind, name)[key]["value"] == value, 10, f"{key} of {name} is {value}")


def alter(admin, kind, name, incremental=True, validate_only=False, **configs):
    resource = ConfigResource(kind, name, {key.replace("_", "."): value for key, value in configs.items()})
    answer = admin.alter_configs(
        [resource], raise_on_unknown=False, incremental=incremental, validate_only=validate_only
    )
    return answer[kind.lower()][name]


# --- kafka-python -----------------------------------------------------------------------------------------


def test_kafka_python_sees_types_sources_and_synonyms(admin, topic):
    alter(admin, "TOPIC", topic, retention_ms="5000")
    changes_to(admin, "TOPIC", topic, "retention.ms", "5000")
    found = described(admin, "TOPIC", topic, include_synonyms=True)
    assert found["retention.ms"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert found["retention.ms"]["synonyms"][0]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert found["retention.ms"]["synonyms"][-1] == {
        "name": "log.retention.ms",
        "value": "604800000",
        "source": "DEFAULT_CONFIG",
    }
    assert found["segment.bytes"]["config_source"] == "DEFAULT_CONFIG"
    types = {"retention.ms": "LONG", "cleanup.policy": "LIST", "compression.type": "STRING", "segment.bytes": "INT"}
    assert {key: found[key]["config_type"] for key in types} == types
    broker = described(admin, "BROKER", "2")
    assert broker["node.id"]["value"] == "2"
    assert broker["node.id"]["config_source"] == "STATIC_BROKER_CONFIG"
    assert broker["node.id"]["read_only"]
    assert not broker["log.retention.ms"]["read_only"]


def test_kafka_python_changes_lists_word_by_word(admin, topic):
    for operation, expected in ((AlterConfigOp.SUBTRACT, ""), (AlterConfigOp.APPEND, "delete")):
        assert alter(admin, "TOPIC", topic, cleanup_policy=(operation, "delete")) == "OK"
        changes_to(admin, "TOPIC", topic, "cleanup.policy", expected)
    assert "InvalidConfig" in alter(admin, "TOPIC", topic, retention_ms=(AlterConfigOp.APPEND, "1"))


def test_kafka_python_deletes_and_validates(admin, topic):
    assert alter(admin, "TOPIC", topic, validate_only=True, retention_ms="7") == "OK"
    assert "InvalidConfig" in alter(admin, "TOPIC", topic, validate_only=True, retention_ms="-7")
    assert alter(admin, "TOPIC", topic, retention_ms="8") == "OK"
    changes_to(admin, "TOPIC", topic, "retention.ms", "8")
    assert alter(admin, "TOPIC", topic, retention_ms=(AlterConfigOp.DELETE, None)) == "OK"
    changes_to(admin, "TOPIC", topic, "retention.ms", "604800000")


def test_kafka_python_replaces_all_settings_in_the_older_way(admin, topic):
    alter(admin, "TOPIC", topic, retention_ms="8")
    changes_to(admin, "TOPIC", topic, "retention.ms", "8")
    alter(admin, "TOPIC", topic, incremental=False, segment_bytes="1000000")
    changes_to(admin, "TOPIC", topic, "segment.bytes", "1000000")
    kept = described(admin, "TOPIC", topic)["retention.ms"]  # the library sends again what the topic has
    assert (kept["value"], kept["config_source"]) == ("8", "DYNAMIC_TOPIC_CONFIG")


def test_kafka_python_alters_one_broker_and_it_takes_effect(cluster, admin, topic):
    leader = str(cluster.leader_of(topic))
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=False)
    producer.send(topic, bytes(50_000)).get(10)
    try:
        assert alter(admin, "BROKER", leader, message_max_bytes="10000") == "OK"
        changes_to(admin, "BROKER", leader, "message.max.bytes", "10000")
        assert described(admin, "BROKER", leader)["message.max.bytes"]["config_source"] == "DYNAMIC_BROKER_CONFIG"
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, bytes(50_000)).get(10)
    finally:
        assert alter(admin, "BROKER", leader, message_max_bytes=(AlterConfigOp.DELETE, None)) == "OK"
        changes_to(admin, "BROKER", leader, "message.max.bytes", "1048588")
    producer.send(topic, bytes(50_000)).get(10)
    producer.close()
    assert "read-only" in alter(admin, "BROKER", leader, log_dirs="/elsewhere")


def test_kafka_python_lists_what_has_settings(admin, topic):
    found = admin.list_config_resources()
    assert topic in found["topic"]
    assert {int(name) for name in found["broker"]} == set(BROKERS)
    assert admin.list_config_resources(["CLIENT_METRICS"]) == {}


def test_kafka_python_learns_the_settings_of_a_topic_that_it_creates(admin, request):
    wanted = NewTopic(request.node.name, 1, 1, topic_configs={"retention.ms": "9000"})
    (created,) = admin.create_topics([wanted])["topics"]
    assert created["configs"]["retention.ms"]["value"] == "9000"
    assert created["configs"]["retention.ms"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert created["configs"]["compression.type"]["value"] == "producer"
    assert created["topic_config_error_code"] == 0
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([wanted])


def compressed_by_leader(cluster, admin, topic, codec, values):
    """Have values compressed by the leader: all brokers know of the codec, the producer does not compress."""
    alter(admin, "TOPIC", topic, compression_type=codec)
    for broker in BROKERS:
        client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap[broker - 1])
        changes_to(client, "TOPIC", topic, "compression.type", codec)
        client.close()
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", linger_ms=50)
    for sent in [producer.send(topic, value) for value in values]:
        sent.get(10)
    producer.close()
    (replica,) = [each for each in cluster.nodes[cluster.leader_of(topic)].replicas() if each["topic"] == topic]
    assert replica["log_end"] == len(values)


VALUES = [b"record %d " % number * 100 for number in range(50)]


def test_kafka_python_reads_what_the_leader_compressed(cluster, admin, topic):
    compressed_by_leader(cluster, admin, topic, "gzip", VALUES)
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    found: list[bytes] = []
    while len(found) < len(VALUES):
        for records in consumer.poll(1000).values():
            found += [record.value for record in records]
    consumer.close()
    assert found == VALUES


@pytest.mark.clients
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_reads_what_the_leader_compressed(cluster, admin, topic, codec):
    module = pytest.importorskip(
        "confluent_kafka", reason="confluent-kafka is not installed: pip install harrow[clients]"
    )
    pytest.importorskip("cramjam", reason="the package cramjam is not installed")
    compressed_by_leader(cluster, admin, topic, codec, VALUES)
    consumer = module.Consumer({"bootstrap.servers": ",".join(cluster.bootstrap), "group.id": topic})
    consumer.assign([module.TopicPartition(topic, 0, 0)])
    found = []
    while len(found) < len(VALUES):
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None, message.error()
        found.append(message.value())
    consumer.close()
    assert found == VALUES


def test_records_get_the_leaders_time(cluster, admin, topic):
    alter(admin, "TOPIC", topic, message_timestamp_type="LogAppendTime")
    changes_to(admin, "TOPIC", topic, "message.timestamp.type", "LogAppendTime")
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    before_ms = int(time.time() * 1000)

    def stamped():
        return producer.send(topic, b"value", timestamp_ms=10_000).get(10)

    eventually(lambda: stamped().timestamp > 10_000, 10, "the leader has the setting")
    sent = stamped()
    producer.close()
    assert before_ms - 1_000 <= sent.timestamp <= time.time() * 1000 + 1_000
    partition = TopicPartition(topic, 0)
    latest = admin.list_partition_offsets({partition: OffsetSpec.MAX_TIMESTAMP})[partition]
    assert latest.timestamp == sent.timestamp
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap)
    consumer.assign([partition])
    consumer.seek(partition, sent.offset)
    (record,) = next(iter(eventually_polled(consumer).values()))
    consumer.close()
    assert (record.timestamp, record.timestamp_type) == (sent.timestamp, LOG_APPEND_TIME)


def eventually_polled(consumer):
    for _ in range(20):
        found = consumer.poll(500)
        if found:
            return found
    raise AssertionError("expected a record, found none in ten seconds")


def test_records_far_from_the_brokers_time_are_refused(cluster, admin, topic):
    alter(admin, "TOPIC", topic, message_timestamp_before_max_ms="60000", message_timestamp_after_max_ms="60000")
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=False)

    def is_refused(timestamp_ms):
        try:
            producer.send(topic, b"value", timestamp_ms=timestamp_ms).get(10)
        except InvalidTimestampError:
            return True
        return False

    eventually(lambda: is_refused(10_000), 10, "the leader has the setting")
    now_ms = int(time.time() * 1000)
    assert is_refused(now_ms + 3_600_000)
    assert not is_refused(now_ms)
    producer.close()


# --- librdkafka -------------------------------------------------------------------------------------------


@pytest.mark.clients
def test_confluent_kafka_alters_topics_and_brokers(cluster, topic):
    module = pytest.importorskip(
        "confluent_kafka.admin", reason="confluent-kafka is not installed: pip install harrow[clients]"
    )
    from confluent_kafka import KafkaException

    admin = module.AdminClient({"bootstrap.servers": ",".join(cluster.bootstrap)})
    operations, kinds = module.AlterConfigOpType, module.ResourceType

    def alter_one(kind, name, key, operation, value):
        change = module.ConfigEntry(key, value, incremental_operation=operation)
        resource = module.ConfigResource(kind, name, incremental_configs=[change])
        admin.incremental_alter_configs([resource])[resource].result(10)

    def entry(kind, name, key):
        resource = module.ConfigResource(kind, name)
        return admin.describe_configs([resource])[resource].result(10)[key]

    for operation, expected in ((operations.SUBTRACT, ""), (operations.APPEND, "delete")):
        alter_one(kinds.TOPIC, topic, "cleanup.policy", operation, "delete")
        eventually(lambda: entry(kinds.TOPIC, topic, "cleanup.policy").value == expected, 10, "the list has changed")  # noqa: B023
    with pytest.raises(KafkaException, match=r"retention\.ms: expected a whole number"):
        alter_one(kinds.TOPIC, topic, "retention.ms", operations.SET, "soon")
    alter_one(kinds.BROKER, "1", "log.retention.ms", operations.SET, "123456789")
    try:
        eventually(lambda: entry(kinds.BROKER, "1", "log.retention.ms").value == "123456789", 10, "it has changed")
        found = entry(kinds.BROKER, "1", "log.retention.ms")
        assert found.source == module.ConfigSource.DYNAMIC_BROKER_CONFIG.value
        assert not found.is_read_only
        assert "DEFAULT_CONFIG" in {module.ConfigSource(each.source).name for each in found.synonyms.values()}
    finally:
        alter_one(kinds.BROKER, "1", "log.retention.ms", operations.DELETE, None)
    with pytest.raises(KafkaException, match="read-only"):
        alter_one(kinds.BROKER, "1", "log.dirs", operations.SET, "/elsewhere")


@pytest.mark.clients
def test_confluent_kafka_replaces_all_settings_in_the_older_way(cluster, topic):
    module = pytest.importorskip(
        "confluent_kafka.admin", reason="confluent-kafka is not installed: pip install harrow[clients]"
    )
    admin = module.AdminClient({"bootstrap.servers": ",".join(cluster.bootstrap)})

    def replace(**configs):
        named = {key.replace("_", "."): value for key, value in configs.items()}
        resource = module.ConfigResource(module.ResourceType.TOPIC, topic, set_config=named)
        admin.alter_configs([resource])[resource].result(10)

    def values():
        resource = module.ConfigResource(module.ResourceType.TOPIC, topic)
        found = admin.describe_configs([resource])[resource].result(10)
        return found["retention.ms"].value, found["segment.bytes"].value

    replace(retention_ms="8000")
    eventually(lambda: values() == ("8000", "1073741824"), 10, "one setting is set")
    replace(segment_bytes="1000000")
    eventually(lambda: values() == ("604800000", "1000000"), 10, "only the other setting is set")
