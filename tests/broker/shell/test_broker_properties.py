"""Settings from a file: valid values become typed, invalid ones an error of one line."""

from __future__ import annotations

import dataclasses

import pytest

from broker.core.configuration.brokers import BROKER_SETTINGS
from broker.core.configuration.settings import Settings
from broker.core.messages import Listener
from broker.shell import properties
from broker.shell.properties import SettingsError

BROKER = """
# a broker
process.roles=broker
node.id = 1
controller.quorum.voters=100@10.0.0.100:9093
listeners=CLIENT://10.0.0.1:9092,BROKER://10.0.0.1:9091
log.dirs=data
"""

CONTROLLER = """
process.roles=controller
node.id=100
controller.quorum.voters=100@h:9093
listeners=CONTROLLER://h:9093
log.dirs=data
"""


def test_a_minimal_broker_gets_kafkas_defaults():
    settings = properties.parse(BROKER)
    assert settings.node_id == 1
    assert settings.roles == ("broker",)
    assert not settings.is_controller
    assert settings.voters == {100: ("10.0.0.100", 9093)}
    assert settings.listeners == (Listener("CLIENT", "10.0.0.1", 9092), Listener("BROKER", "10.0.0.1", 9091))
    assert settings.advertised_listeners == settings.listeners
    assert settings.broker_session_timeout_ms == 9000
    assert settings.log_flush_interval_messages == 0
    assert settings.generation == "K5"
    assert settings.flaws == ()


def test_what_the_file_says_is_told_from_defaults():
    names = {"process.roles", "node.id", "controller.quorum.voters", "listeners", "log.dirs"}
    assert properties.parse(BROKER).given == names
    assert properties.parse(BROKER + "num.partitions=1").given == names | {"num.partitions"}


def test_a_node_of_both_roles_has_all_three_listeners():
    text = BROKER.replace("process.roles=broker", "process.roles=broker,controller")
    text = text.replace("100@10.0.0.100:9093", "1@10.0.0.1:9093,2@10.0.0.2:9093")
    with pytest.raises(SettingsError, match="expected CLIENT and BROKER and CONTROLLER for a broker and controller"):
        properties.parse(text)
    settings = properties.parse(text.replace("9091\n", "9091,CONTROLLER://10.0.0.1:9093\n"))
    assert settings.is_broker
    assert settings.is_controller


@pytest.mark.parametrize("roles", ["", "broker,broker", "broker,witness"])
def test_roles_that_there_are_not_are_refused(roles):
    with pytest.raises(SettingsError, match=r"process\.roles: expected broker, controller or broker,controller"):
        properties.parse(BROKER.replace("process.roles=broker", f"process.roles={roles}"))


def test_a_controller_has_one_listener():
    settings = properties.parse(CONTROLLER)
    assert settings.is_controller
    assert settings.listeners == (Listener("CONTROLLER", "h", 9093),)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("advertised.listeners=CLIENT://a:1,BROKER://b:2", "advertised_listeners", "CLIENT BROKER"),
        ("harrow.peer.addresses=100@127.0.0.1:7,2@127.0.0.1:8", "peer_addresses", {100: 7, 2: 8}),
        ("harrow.peer.addresses=", "peer_addresses", {}),
        ("log.flush.interval.messages=1", "log_flush_interval_messages", 1),
        ("log.flush.interval.messages=9223372036854775807", "log_flush_interval_messages", 0),
        ("log.flush.interval.ms=never", "log_flush_interval_ms", 0),
        ("unclean.recovery.strategy=aggressive", "unclean_recovery_strategy", "proactive"),
        ("unclean.leader.election.enable=TRUE", "unclean_leader_election_enable", True),
        ("auto.create.topics.enable=false", "auto_create_topics_enable", False),
        ("harrow.flaws=a-flaw, another", "flaws", ("a-flaw", "another")),
        ("harrow.flaws=", "flaws", ()),
        ("harrow.admin.socket=/run/x", "admin_socket", "/run/x"),
        ("harrow.storage=page-cache", "storage", "page-cache"),
        ("broker.rack=r1", "rack", "r1"),
        ("replica.selector.class=org.apache.kafka.common.replica.LeaderSelector", "replica_selector", "leader"),
        (
            "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "replica_selector",
            "rack-aware",
        ),
        ("listeners=CLIENT://[::1]:9092,BROKER://[::1]:9091", "listeners", "::1"),
    ],
)
def test_settings_are_read_into_their_types(line, field, value):
    name = line.split("=")[0]
    text = "\n".join(each for each in BROKER.splitlines() if not each.startswith(name)) + "\n" + line
    found = getattr(properties.parse(text), field)
    if field == "advertised_listeners":
        found = " ".join(listener.name for listener in found)
    elif field == "peer_addresses":
        found = {node_id: port for node_id, (_, port) in found.items()}
    elif field == "listeners":
        found = found[0].host
    assert found == value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("no.such.setting=1", "expected a setting that exists, found 'no.such.setting'"),
        ("nonsense", "expected name=value, found 'nonsense'"),
        ("=1", "expected name=value"),
        ("node.id=2", "expected each setting once, found node.id again"),
        ("num.partitions=0", "num.partitions: expected a whole number from 1"),
        ("num.partitions=many", "found 'many'"),
        ("log.segment.bytes=10", "log.segment.bytes: expected a whole number from 1024"),
        ("log.flush.interval.ms=0", "expected a whole number from 1, or never"),
        ("auto.create.topics.enable=yes", "expected true or false, found 'yes'"),
        (
            "unclean.recovery.strategy=Brave",
            "expected proactive or balanced or manual or aggressive or none, found 'Brave'",
        ),
        ("replica.selector.class=my.Own", "RackAwareReplicaSelector or org.apache.kafka.common.replica.LeaderSelector"),
        ("harrow.storage=tape", "expected files or page-cache"),
        ("harrow.peer.addresses=2@h:1,2@h:2", "each ID once"),
        ("harrow.peer.addresses=h:1", "ID@host:port"),
        ("harrow.peer.addresses=2@h:0", "a port from 1 to 65535"),
        ("harrow.admin.socket=" + "x" * 200, "a path of 1 to 107 bytes"),
        ("advertised.listeners=CLIENT://h:1", "expected CLIENT and BROKER for a broker, found CLIENT"),
        ("advertised.listeners=CLEINT://h:1", "expected CLIENT://host:port"),
        ("broker.heartbeat.interval.ms=9000", "expected less than broker.session.timeout.ms (9000)"),
        ("group.min.session.timeout.ms=1800001", "expected no more than group.max.session.timeout.ms (1800000)"),
        ("group.initial.rebalance.delay.ms=-1", "expected a whole number from 0"),
        ("cluster.id=", "expected some text"),
        ("log.retention.ms=-2", "expected a whole number from -1"),
        ("producer.id.expiration.ms=0", "expected a whole number from 1"),
        ("log.retention.check.interval.ms=0", "expected a whole number from 1"),
    ],
)
def test_an_impossible_setting_is_one_line_that_says_what_to_do(line, expected):
    with pytest.raises(SettingsError) as caught:
        properties.parse(BROKER + line)
    text = str(caught.value)
    assert expected in text
    assert "\n" not in text
    assert ";" in text


@pytest.mark.parametrize("value", [",", "a,b,a", "a,./a"])
def test_log_directories_must_be_there_and_differ(value):
    with pytest.raises(SettingsError, match="expected one or more directories, separated by commas, each once"):
        properties.parse(BROKER.replace("log.dirs=data", f"log.dirs={value}"))


def test_several_log_directories_are_read_in_their_order():
    assert properties.parse(BROKER.replace("log.dirs=data", "log.dirs=b, a")).log_dirs == ("b", "a")


@pytest.mark.parametrize("name", ["node.id", "controller.quorum.voters", "listeners", "log.dirs"])
def test_a_missing_setting_is_named(name):
    text = "\n".join(line for line in BROKER.splitlines() if not line.startswith(name))
    with pytest.raises(SettingsError, match=f"expected {name}, found no such line; add it"):
        properties.parse(text)


def test_node_ids_of_brokers_and_controllers_are_apart():
    with pytest.raises(SettingsError, match="that no controller has"):
        properties.parse(BROKER.replace("100@", "1@"))
    with pytest.raises(SettingsError, match="expected this controller, 100, among them"):
        properties.parse(CONTROLLER.replace("100@", "101@"))


def test_a_controller_without_its_listener_is_an_error():
    with pytest.raises(SettingsError, match="expected CONTROLLER for a controller, found CLIENT, BROKER"):
        properties.parse(CONTROLLER.replace("CONTROLLER://h:9093", "CLIENT://h:1,BROKER://h:2"))


def test_every_field_of_the_settings_can_be_set_from_a_file():
    settable = {setting.field for setting in BROKER_SETTINGS.values()}
    fields = {field.name for field in dataclasses.fields(Settings)}
    assert settable == fields - {"given"}


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SettingsError, match="expected a readable file of properties"):
        properties.load(tmp_path / "none.properties")
    file = tmp_path / "bad.properties"
    file.write_text("x=1\n")
    with pytest.raises(SettingsError, match=r"bad\.properties: expected a setting that exists"):
        properties.load(file)
