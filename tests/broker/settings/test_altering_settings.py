"""Settings of topics and brokers altered while the cluster runs: what is accepted, refused, kept, and in force."""

from __future__ import annotations

import pytest

from broker.core.configuration import topics
from broker.core.messages import (
    AlterConfigsRequest,
    ConfigOperation,
    ConfigResource,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
    NewTopic,
    ProducePartition,
    ProduceRequest,
    ReplacedConfigs,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import Image
from broker.core.metadata.records import BrokerConfigChanged, ConfigChanged, decode_change, encode_change
from broker.core.records import encode_batch
from tests.support.cluster import CONTROLLER, TOPIC, Cluster

SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPIC, OF_BROKER = 2, 4


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic()
    return cluster


def alter(cluster, *resources, validate_only=False, at=1):
    """Errors and messages of an incremental request; a resource is (type, name, (key, operation, value), …)."""
    asked = tuple(
        ConfigResource(kind, name, tuple(ConfigOperation(*operation) for operation in operations))
        for kind, name, *operations in resources
    )
    answer = cluster.call(at, IncrementalAlterConfigsRequest(asked, validate_only))
    cluster.run(300)
    return [(result.error_code, result.error_message) for result in answer.results]


def error_of(cluster, kind, name, *operations):
    ((error, message),) = alter(cluster, (kind, name, *operations))
    assert (message is None) == (error == ErrorCode.NONE)
    return error


def described(cluster, kind, name, at=1, **options):
    request = DescribeConfigsRequest(((kind, name, None),), **options)
    (result,) = cluster.call(at, request).results
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: config for config in result.configs}


# --- what a topic's settings may be ----------------------------------------------------------------------------------

ILLEGAL = [
    ("retention.ms", "-2"),
    ("retention.ms", "1_000"),
    ("retention.ms", " 5 "),
    ("retention.ms", str(1 << 63)),
    ("segment.bytes", "0"),
    ("min.insync.replicas", "0"),
    ("min.insync.replicas", "two"),
    ("cleanup.policy", "shred"),
    ("cleanup.policy", "delete,delete"),
    ("compression.type", "brotli"),
    ("compression.type", "none"),
    ("message.timestamp.type", "createtime"),
    ("flush.messages", "0"),
    ("unclean.leader.election.enable", "perhaps"),
    ("unclean.recovery.strategy", "brave"),
    ("message.format.version", "2.0"),
    ("no.such.setting", "1"),
]


@pytest.mark.parametrize(("key", "value"), ILLEGAL)
def test_an_illegal_value_is_refused_in_all_three_ways_with_a_message_that_names_it(cluster, key, value):
    before = described(cluster, OF_TOPIC, TOPIC)
    created = cluster.call(1, CreateTopicsRequest((NewTopic("other", 1, 1, configs=((key, value),)),))).topics[0]
    ((error, message),) = alter(cluster, (OF_TOPIC, TOPIC, (key, SET, value)))
    replaced = cluster.call(1, AlterConfigsRequest((ReplacedConfigs(OF_TOPIC, TOPIC, ((key, value),)),))).results[0]
    assert (created.error_code, error, replaced.error_code) == (ErrorCode.INVALID_CONFIG,) * 3
    for text in (created.error_message, message, replaced.error_message):
        assert key in text
        assert "expected" in text
    assert described(cluster, OF_TOPIC, TOPIC) == before


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("retention.ms", "-1", "-1"),
        ("unclean.leader.election.enable", "TRUE", "true"),
        ("unclean.recovery.strategy", "Aggressive", "proactive"),
        ("flush.messages", "9223372036854775807", "9223372036854775807"),
        ("cleanup.policy", "", ""),
        ("compression.type", "uncompressed", "uncompressed"),
    ],
)
def test_a_legal_value_is_stored_in_one_form(cluster, key, value, stored):
    assert error_of(cluster, OF_TOPIC, TOPIC, (key, SET, value)) == ErrorCode.NONE
    assert described(cluster, OF_TOPIC, TOPIC)[key].value == stored


@pytest.mark.parametrize(
    ("kind", "name", "operations", "error"),
    [
        (OF_TOPIC, "none", [("retention.ms", SET, "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (OF_TOPIC, "", [("retention.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
        (OF_TOPIC, TOPIC, [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        (OF_TOPIC, TOPIC, [("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST),
        (OF_TOPIC, TOPIC, [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
        (OF_TOPIC, TOPIC, [("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        (OF_TOPIC, TOPIC, [("cleanup.policy", APPEND, None)], ErrorCode.INVALID_REQUEST),
        (OF_TOPIC, TOPIC, [("cleanup.policy", APPEND, "shred")], ErrorCode.INVALID_CONFIG),
        (OF_BROKER, "7", [("log.retention.ms", SET, "1")], ErrorCode.BROKER_ID_NOT_REGISTERED),
        (OF_BROKER, "first", [("log.retention.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
        (OF_BROKER, "1", [("log.dirs", SET, "x")], ErrorCode.INVALID_REQUEST),
        (OF_BROKER, "", [("node.id", SET, "9")], ErrorCode.INVALID_REQUEST),
        (OF_BROKER, "1", [("min.insync.replicas", SET, "1")], ErrorCode.INVALID_REQUEST),
        (OF_BROKER, "1", [("no.such.setting", SET, "1")], ErrorCode.INVALID_REQUEST),
        (8, "1", [("root", SET, "debug")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_altered_is_refused_and_changes_nothing(cluster, kind, name, operations, error):
    end = cluster.machines[CONTROLLER].node.state.image.end_offset
    assert error_of(cluster, kind, name, *operations) == error
    assert cluster.machines[CONTROLLER].node.state.image.end_offset == end


def test_what_is_named_at_great_length_is_refused_in_a_short_message(cluster):
    long = "9" * 30_000
    for kind, name, key, value in (
        (OF_TOPIC, TOPIC, "retention.ms", long),
        (OF_TOPIC, TOPIC, long, "1"),
        (OF_TOPIC, long, "retention.ms", "1"),
        (OF_BROKER, long, "log.retention.ms", "1"),
    ):
        ((error, message),) = alter(cluster, (kind, name, (key, SET, value)))
        assert error != ErrorCode.NONE
        assert len(message) < 1_000
    for kind in (OF_TOPIC, OF_BROKER):
        (result,) = cluster.call(1, DescribeConfigsRequest(((kind, long, None),))).results
        assert len(result.error_message) < 1_000


def test_a_read_only_setting_is_called_read_only(cluster):
    ((_, message),) = alter(cluster, (OF_BROKER, "1", ("log.dirs", SET, "/x")))
    assert "read-only" in message


def test_a_resource_named_twice_is_refused_both_times_and_others_are_altered(cluster):
    twice = (OF_TOPIC, TOPIC, ("retention.ms", SET, "7"))
    results = alter(cluster, twice, (OF_BROKER, "2", ("log.retention.ms", SET, "9")), twice)
    assert [error for error, _ in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert described(cluster, OF_TOPIC, TOPIC)["retention.ms"].value != "7"
    assert described(cluster, OF_BROKER, "2", at=2)["log.retention.ms"].value == "9"


def test_a_request_that_only_validates_changes_nothing(cluster):
    resource = (OF_TOPIC, TOPIC, ("retention.ms", SET, "7"))
    assert alter(cluster, resource, validate_only=True) == [(ErrorCode.NONE, None)]
    replace = AlterConfigsRequest((ReplacedConfigs(OF_TOPIC, TOPIC, (("retention.ms", "7"),)),), validate_only=True)
    assert cluster.call(1, replace).results[0].error_code == ErrorCode.NONE
    cluster.run(300)
    assert described(cluster, OF_TOPIC, TOPIC)["retention.ms"].value == "604800000"


def test_lists_grow_and_shrink_by_words(cluster):
    def policy():
        return described(cluster, OF_TOPIC, TOPIC)["cleanup.policy"].value

    for operation, value, expected in [
        (APPEND, "delete", "delete"),
        (SUBTRACT, "compact", "delete"),
        (SUBTRACT, "delete", ""),
        (SUBTRACT, "delete", ""),
        (APPEND, "delete, delete", "delete"),
    ]:
        assert error_of(cluster, OF_TOPIC, TOPIC, ("cleanup.policy", operation, value)) == ErrorCode.NONE
        assert policy() == expected


def test_what_is_not_there_can_be_deleted(cluster):
    for key in ("retention.ms", "message.format.version"):
        assert error_of(cluster, OF_TOPIC, TOPIC, (key, DELETE, None)) == ErrorCode.NONE
    assert error_of(cluster, OF_BROKER, "1", ("log.retention.ms", DELETE, None)) == ErrorCode.NONE


def test_the_older_request_replaces_all_settings(cluster):
    alter(cluster, (OF_TOPIC, TOPIC, ("retention.ms", SET, "7"), ("segment.bytes", SET, "1000000")))
    replaced = ReplacedConfigs(OF_TOPIC, TOPIC, (("retention.bytes", "8"), ("retention.ms", "9")))
    assert cluster.call(1, AlterConfigsRequest((replaced,))).results[0].error_code == ErrorCode.NONE
    cluster.run(300)
    assert cluster.machines[2].node.state.image.topics[TOPIC].configs == {"retention.ms": "9", "retention.bytes": "8"}
    twice = ReplacedConfigs(OF_TOPIC, TOPIC, (("retention.ms", "1"), ("retention.ms", "2")))
    null = ReplacedConfigs(OF_TOPIC, TOPIC, (("retention.ms", None),))
    for wrong in (twice, null):
        result = cluster.call(1, AlterConfigsRequest((wrong,))).results[0]
        assert result.error_code == ErrorCode.INVALID_REQUEST
    assert cluster.call(1, AlterConfigsRequest((replaced, replaced))).results[1].error_code == ErrorCode.INVALID_REQUEST


def test_the_older_request_for_all_brokers_restores_the_controllers_min_isr(cluster):
    alter(cluster, (OF_BROKER, "", ("min.insync.replicas", SET, "1"), ("log.retention.ms", SET, "5")))
    assert cluster.call(1, AlterConfigsRequest((ReplacedConfigs(OF_BROKER, "", ()),))).results[0].error_code == 0
    cluster.run(300)
    assert cluster.machines[2].node.state.image.configs == {"min.insync.replicas": "2"}


# --- brokers ---------------------------------------------------------------------------------------------------------


def in_force(cluster, number, field):
    return getattr(cluster.machines[number].node.state.settings, field)


def test_one_broker_comes_before_all_brokers_before_the_file(cluster):
    field, key = "log_retention_ms", "log.retention.ms"
    alter(cluster, (OF_BROKER, "", (key, SET, "1000")), (OF_BROKER, "2", (key, SET, "2000")))
    assert [in_force(cluster, number, field) for number in (1, 2, 3)] == [1000, 2000, 1000]
    alter(cluster, (OF_BROKER, "", (key, DELETE, None)))
    assert [in_force(cluster, number, field) for number in (1, 2, 3)] == [604_800_000, 2000, 604_800_000]
    alter(cluster, (OF_BROKER, "2", (key, DELETE, None)))
    assert in_force(cluster, 2, field) == 604_800_000
    assert cluster.machines[2].node.state.image.broker_configs == {}


def test_settings_of_brokers_outlive_the_nodes_and_a_snapshot():
    cluster = Cluster(metadata_snapshot_records=5)
    cluster.create_topic()
    alter(
        cluster,
        (OF_BROKER, "", ("message.max.bytes", SET, "5000")),
        (OF_BROKER, "2", ("message.max.bytes", SET, "6000")),
    )
    for number in range(8):
        alter(cluster, (OF_TOPIC, TOPIC, ("retention.ms", SET, str(1000 + number))))
    assert cluster.machines[CONTROLLER].node.describe()["snapshot"][0] > 5
    for number in (CONTROLLER, 1, 2, 3):
        cluster.kill(number)
    for number in (CONTROLLER, 1, 2, 3):
        cluster.start(number)
    cluster.run_until(lambda: all(machine.node.is_ready() for machine in cluster.machines.values()))
    assert [in_force(cluster, number, "message_max_bytes") for number in (1, 2, 3)] == [5000, 6000, 5000]


def test_a_topics_own_setting_comes_before_its_brokers(cluster):
    leader = cluster.leader()
    batch = encode_batch([(None, bytes(500))], 0, 0, 0)

    def produce():
        part = ProducePartition(TOPIC, 0, batch)
        return cluster.call(leader, ProduceRequest(-1, 1000, (part,))).partitions[0].error_code

    assert produce() == ErrorCode.NONE
    alter(cluster, (OF_BROKER, str(leader), ("message.max.bytes", SET, "100")))
    assert produce() == ErrorCode.MESSAGE_TOO_LARGE
    alter(cluster, (OF_TOPIC, TOPIC, ("max.message.bytes", SET, "1000")))
    assert produce() == ErrorCode.NONE
    alter(cluster, (OF_TOPIC, TOPIC, ("max.message.bytes", DELETE, None)))
    assert produce() == ErrorCode.MESSAGE_TOO_LARGE


def test_segments_end_where_all_brokers_are_told_to_end_them(cluster):
    alter(cluster, (OF_BROKER, "", ("log.segment.bytes", SET, "1024")))
    for value in range(60):
        assert cluster.produce(cluster.leader(), value) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    for number in (1, 2, 3):
        (replica,) = cluster.machines[number].node.state.replicas.values()
        assert len(replica.log.segment_offsets) > 2


def test_topics_are_created_by_clients_only_where_that_is_enabled_now(cluster):
    alter(cluster, (OF_BROKER, "2", ("auto.create.topics.enable", SET, "false")))

    def created(number, name):
        cluster.call(number, MetadataRequest(((name, ""),), allow_auto_topic_creation=True))
        cluster.run(300)
        return name in cluster.machines[1].node.state.image.topics

    assert not created(2, "by-the-second")
    assert created(1, "by-the-first")


def test_new_topics_get_the_numbers_that_all_brokers_are_told(cluster):
    alter(
        cluster,
        (OF_BROKER, "", ("num.partitions", SET, "4"), ("default.replication.factor", SET, "2")),
    )
    created = cluster.call(1, CreateTopicsRequest((NewTopic("other"),))).topics[0]
    assert (created.num_partitions, created.replication_factor) == (4, 2)


def test_leaders_are_balanced_in_the_interval_of_now_without_waiting_for_the_old_one(cluster):
    preferred = cluster.view()["replicas"][0]
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE
    cluster.stop(preferred)
    cluster.run_until(lambda: cluster.leader() != preferred)
    cluster.run_until(lambda: cluster.machines[preferred].node is None)
    cluster.start(preferred)
    cluster.run_until(cluster.is_whole)
    cluster.run(5_000)
    assert cluster.leader() != preferred
    alter(cluster, (OF_BROKER, "", ("leader.imbalance.check.interval.seconds", SET, "1")), at=cluster.leader())
    cluster.run_until(lambda: cluster.leader() == preferred, 3_000)


@pytest.mark.parametrize(
    "resource",
    [
        (OF_TOPIC, TOPIC, ("flush.messages", SET, "1")),
        (OF_BROKER, "", ("log.flush.interval.messages", SET, "1")),
    ],
)
def test_from_now_on_only_what_is_synced_counts_and_back(cluster, resource):
    leader = cluster.leader()
    assert cluster.produce(leader, 1, 2) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    assert cluster.replica(leader)["flushed"] == 0
    assert alter(cluster, resource) == [(ErrorCode.NONE, None)]
    cluster.run_until(lambda: all(cluster.replica(number)["flushed"] == 2 for number in (1, 2, 3)), 500)
    assert cluster.produce(leader, 3) == ErrorCode.NONE
    assert cluster.replica(leader)["flushed"] == 3
    kind, name, (key, _, _) = resource
    assert error_of(cluster, kind, name, (key, DELETE, None)) == ErrorCode.NONE
    assert cluster.produce(leader, 4) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    assert cluster.replica(leader)["flushed"] == 3


def test_flushes_are_planned_as_soon_as_an_interval_is_in_force(cluster):
    leader = cluster.leader()
    assert cluster.produce(leader, 1) == ErrorCode.NONE
    cluster.run(2_000)
    assert cluster.replica(leader)["flushed"] == 0
    alter(cluster, (OF_BROKER, "", ("log.flush.interval.ms", SET, "100")))
    cluster.run_until(lambda: cluster.replica(leader)["flushed"] == 1, 500)


def test_what_another_version_stored_and_this_one_cannot_read_ends_nothing():
    image = Image()
    records = [
        ConfigChanged("", "from.the.future", "x"),
        ConfigChanged("", "log.retention.ms", "many"),
        BrokerConfigChanged(1, "log.dirs", "/elsewhere"),
        BrokerConfigChanged(1, "min.insync.replicas", "3"),
    ]
    for offset, record in decode_change(encode_change(records, 0, 0)):
        image.apply(offset, record)
    cluster = Cluster()
    cluster.create_topic()
    for machine in cluster.machines.values():
        state = machine.node.state
        state.image.configs.update(image.configs)
        state.image.broker_configs.update(image.broker_configs)
    assert cluster.call(1, CreateTopicsRequest((NewTopic("more", 1, 3),))).topics[0].error_code == ErrorCode.NONE
    cluster.run(300)
    assert in_force(cluster, 1, "log_dirs") == ("/",)
    assert in_force(cluster, 1, "min_insync_replicas") == 2
    assert in_force(cluster, 1, "log_retention_ms") == 604_800_000
    settings = cluster.machines[1].node.state.settings
    assert topics.RETENTION_MS.value(settings, {"retention.ms": "many"}) == 604_800_000


def test_settings_that_were_stored_before_there_were_those_of_single_brokers_are_read():
    old = [ConfigChanged("", "min.insync.replicas", "2"), ConfigChanged("t", "retention.ms", None)]
    assert [record for _, record in decode_change(encode_change(old, 5, 1))] == old
