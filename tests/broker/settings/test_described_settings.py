"""What DescribeConfigs, ListConfigResources and CreateTopics tell of settings: values, types, sources, synonyms."""

from __future__ import annotations

import dataclasses

import pytest

from broker.core.configuration.brokers import BROKER_SETTINGS
from broker.core.configuration.description import Source
from broker.core.configuration.setting import Scope
from broker.core.configuration.settings import Settings
from broker.core.configuration.topics import TOPIC_SETTINGS
from broker.core.messages import (
    ConfigOperation,
    ConfigResource,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    NewTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.shell import properties
from tests.support.cluster import TOPIC, Cluster

TOPIC_TYPE, BROKER_TYPE = 2, 4


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(log_retention_ms=60_000)
    cluster.create_topic(retention_ms="5000")
    return cluster


def settings_of(cluster, kind, name, at=1, keys=None, **options):
    (result,) = cluster.call(at, DescribeConfigsRequest(((kind, name, keys),), **options)).results
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: config for config in result.configs}


def put(cluster, name, key, value):
    resource = ConfigResource(BROKER_TYPE, name, (ConfigOperation(key, 0, value),))
    answer = cluster.call(1, IncrementalAlterConfigsRequest((resource,)))
    assert answer.results[0].error_code == ErrorCode.NONE
    cluster.run(300)


def test_all_settings_of_a_topic_are_described(cluster):
    found = settings_of(cluster, TOPIC_TYPE, TOPIC)
    assert list(found) == list(TOPIC_SETTINGS)
    assert not any(config.read_only for config in found.values())
    kinds = {"retention.ms": 5, "segment.bytes": 3, "cleanup.policy": 7, "compression.type": 2}
    assert {name: found[name].config_type for name in kinds} == kinds
    assert found["unclean.leader.election.enable"].config_type == 1


def test_all_settings_of_a_broker_are_described(cluster):
    found = settings_of(cluster, BROKER_TYPE, "1")
    assert list(found) == list(BROKER_SETTINGS)
    for name, setting in BROKER_SETTINGS.items():
        assert found[name].read_only == (setting.scope is Scope.READ_ONLY)
        assert found[name].config_type == setting.type.kind
    assert found["node.id"].value == "1"
    assert found["listeners"].value == "CLIENT://b1:1,BROKER://b1:2"
    assert found["log.flush.interval.messages"].value == str((1 << 63) - 1)
    assert found["leader.imbalance.check.interval.seconds"].value == "300"
    assert found["broker.rack"].value is None
    assert found["node.id"].config_source == Source.STATIC_BROKER
    assert found["num.partitions"].config_source == Source.DEFAULT


def test_values_are_written_as_a_file_has_them(cluster):
    lines = [
        f"{config.name}={config.value}"
        for config in settings_of(cluster, BROKER_TYPE, "2", at=2).values()
        if config.value is not None
    ]
    settings = cluster.machines[2].settings
    again = properties.parse("\n".join(line for line in lines if not line.endswith("=")) + "\n")
    advertised = dataclasses.replace(settings, advertised_listeners=settings.listeners)
    assert dataclasses.replace(again, given=frozenset()) == advertised


def test_synonyms_are_the_places_in_the_order_in_which_they_count(cluster):
    put(cluster, "", "log.retention.ms", "7000")
    put(cluster, "1", "log.retention.ms", "8000")
    topic = settings_of(cluster, TOPIC_TYPE, TOPIC, include_synonyms=True)["retention.ms"]
    of_brokers = (
        ("log.retention.ms", "8000", 2),
        ("log.retention.ms", "7000", 3),
        ("log.retention.ms", "60000", 4),
        ("log.retention.ms", "604800000", 5),
    )
    assert topic.synonyms == (("retention.ms", "5000", 1), *of_brokers)
    assert (topic.value, topic.config_source) == ("5000", Source.DYNAMIC_TOPIC)
    assert settings_of(cluster, BROKER_TYPE, "1", include_synonyms=True)["log.retention.ms"].synonyms == of_brokers
    other = settings_of(cluster, BROKER_TYPE, "2", at=2, include_synonyms=True)["log.retention.ms"]
    assert other.synonyms == of_brokers[1:]
    assert (other.value, other.config_source) == ("7000", Source.DYNAMIC_DEFAULT_BROKER)
    assert settings_of(cluster, TOPIC_TYPE, TOPIC)["retention.ms"].synonyms == ()


def test_all_brokers_have_only_what_was_altered_for_all(cluster):
    put(cluster, "", "log.retention.ms", "7000")
    put(cluster, "1", "message.max.bytes", "8000")
    found = settings_of(cluster, BROKER_TYPE, "")
    assert {name: (config.value, config.config_source) for name, config in found.items()} == {
        "min.insync.replicas": ("2", Source.DYNAMIC_DEFAULT_BROKER),
        "log.retention.ms": ("7000", Source.DYNAMIC_DEFAULT_BROKER),
    }


def test_a_setting_of_the_file_is_static_even_if_it_has_the_default_value():
    cluster = Cluster()
    machine = cluster.machines[1]
    machine.settings = dataclasses.replace(machine.settings, given=frozenset({"num.partitions"}))
    cluster.kill(1)
    cluster.start(1)
    cluster.create_topic()
    found = settings_of(cluster, BROKER_TYPE, "1")
    assert (found["num.partitions"].value, found["num.partitions"].config_source) == ("1", Source.STATIC_BROKER)
    assert settings_of(cluster, BROKER_TYPE, "2", at=2)["num.partitions"].config_source == Source.DEFAULT


def test_documentation_comes_if_it_is_asked_for(cluster):
    for kind, name in ((TOPIC_TYPE, TOPIC), (BROKER_TYPE, "1"), (BROKER_TYPE, "")):
        with_it = settings_of(cluster, kind, name, include_documentation=True)
        assert all(config.documentation for config in with_it.values())
        assert not any(config.documentation for config in settings_of(cluster, kind, name).values())


def test_only_the_named_settings_come_and_none_named_means_all(cluster):
    assert list(settings_of(cluster, TOPIC_TYPE, TOPIC, keys=("segment.bytes", "nonsense"))) == ["segment.bytes"]
    assert len(settings_of(cluster, TOPIC_TYPE, TOPIC, keys=())) == len(TOPIC_SETTINGS)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC_TYPE, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER_TYPE, "2", ErrorCode.INVALID_REQUEST),
        (BROKER_TYPE, "first", ErrorCode.INVALID_REQUEST),
        (16, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_this_broker_cannot_describe_is_refused_with_a_message(cluster, kind, name, error):
    (result,) = cluster.call(1, DescribeConfigsRequest(((kind, name, None),))).results
    assert (result.error_code, result.configs) == (error, ())
    assert result.error_message


def test_a_created_topic_comes_with_its_settings(cluster):
    put(cluster, "", "log.segment.bytes", "4096")
    topic = NewTopic("other", 1, 1, configs=(("retention.ms", "9"),))
    created = cluster.call(1, CreateTopicsRequest((topic,))).topics[0]
    found = {name: (value, source) for name, value, _, source in created.configs}
    assert list(found) == list(TOPIC_SETTINGS)
    assert found["retention.ms"] == ("9", Source.DYNAMIC_TOPIC)
    assert found["segment.bytes"] == ("4096", Source.DYNAMIC_DEFAULT_BROKER)
    assert found["retention.bytes"] == ("-1", Source.DEFAULT)
    again = cluster.call(1, CreateTopicsRequest((topic,))).topics[0]
    assert (again.error_code, again.configs) == (ErrorCode.TOPIC_ALREADY_EXISTS, ())


def test_a_setting_without_a_value_is_no_setting_of_a_new_topic(cluster):
    topic = NewTopic("other", 1, 1, configs=(("retention.ms", None),))
    created = cluster.call(1, CreateTopicsRequest((topic,))).topics[0]
    assert created.error_code == ErrorCode.INVALID_CONFIG
    assert "retention.ms" in created.error_message


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((), [(TOPIC, 2), ("1", 4), ("2", 4), ("3", 4)]),
        ((2,), [(TOPIC, 2)]),
        ((4, 16), [("1", 4), ("2", 4), ("3", 4)]),
        ((16,), []),
    ],
)
def test_resources_with_settings_are_listed_by_their_types(cluster, kinds, expected):
    answer = cluster.call(1, ListConfigResourcesRequest(kinds))
    assert answer.error_code == ErrorCode.NONE
    assert sorted(answer.resources, key=lambda one: (one[1], one[0])) == expected


def test_resources_of_an_unknown_type_are_refused(cluster):
    answer = cluster.call(1, ListConfigResourcesRequest((2, 3)))
    assert (answer.error_code, answer.resources) == (ErrorCode.UNSUPPORTED_VERSION, ())


def test_every_default_is_a_legal_value():
    defaults = {setting.name: setting.default for setting in BROKER_SETTINGS.values() if setting.default}
    assert {name: BROKER_SETTINGS[name].type.check(value) for name, value in defaults.items()} == defaults
    fields = {field.name for field in dataclasses.fields(Settings)}
    assert {setting.broker.field for setting in TOPIC_SETTINGS.values()} <= fields
