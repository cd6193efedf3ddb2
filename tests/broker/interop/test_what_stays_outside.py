"""What the broker does not have is refused at once, and real clients then give up with an error that says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ACLFilter, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePatternFilter
from kafka.admin import ResourceType as AclType
from kafka.errors import IncompatibleBrokerVersion, TransactionalIdAuthorizationFailedError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

GIVES_UP_S_MAX = 15
"""The error comes within a second of the connection; without it each client would wait for a minute."""
WAITS_S = 60


@contextmanager
def at_once() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < GIVES_UP_S_MAX


@pytest.fixture
def bootstrap(cluster) -> str:
    return ",".join(cluster.bootstrap)


# --- librdkafka -------------------------------------------------------------------------------------------


@pytest.fixture
def confluent():
    return pytest.importorskip(
        "confluent_kafka", reason="confluent-kafka is not installed: pip install harrow[clients]"
    )


def first_error(poll) -> str:
    """What the client reports first, by an exception or in place of a record."""
    deadline = time.monotonic() + WAITS_S
    while time.monotonic() < deadline:
        for message in poll():
            if message.error() is not None:
                return message.error().str()
    return "nothing"


@pytest.mark.clients
def test_librdkafka_gives_up_a_group_of_the_newer_protocol(bootstrap, confluent):
    settings = {"bootstrap.servers": bootstrap, "group.id": "newer", "group.protocol": "consumer"}
    consumer = confluent.Consumer(settings)
    with at_once():
        consumer.subscribe(["anything"])
        assert "ConsumerGroupHeartbeat fatal error" in first_error(lambda: consumer.consume(1, 1))
    consumer.close()


@pytest.mark.clients
def test_librdkafka_gives_up_a_share_group(bootstrap, confluent):
    consumer = confluent.ShareConsumer({"bootstrap.servers": bootstrap, "group.id": "shared"})
    consumer.subscribe(["anything"])
    with at_once(), pytest.raises(confluent.KafkaException, match="ShareGroupHeartbeat fatal error"):
        first_error(lambda: consumer.poll(1))
    consumer.close()


@pytest.mark.clients
def test_librdkafka_gives_up_transactions(bootstrap, confluent):
    producer = confluent.Producer({"bootstrap.servers": bootstrap, "transactional.id": "a"})
    with at_once(), pytest.raises(confluent.KafkaException) as raised:
        producer.init_transactions(WAITS_S)
    assert raised.value.args[0].fatal()
    assert "it has no transactions" in raised.value.args[0].str()


@pytest.mark.clients
def test_librdkafka_refuses_access_control_and_credentials_by_itself(bootstrap, confluent):
    from confluent_kafka import admin as module

    admin = module.AdminClient({"bootstrap.servers": bootstrap})
    everything = module.AclBindingFilter(
        module.ResourceType.ANY,
        None,
        module.ResourcePatternType.ANY,
        None,
        None,
        module.AclOperation.ANY,
        module.AclPermissionType.ANY,
    )
    with at_once(), pytest.raises(confluent.KafkaException, match="not supported by broker"):
        admin.describe_acls(everything).result(WAITS_S)
    with at_once(), pytest.raises(confluent.KafkaException, match="not supported by broker"):
        admin.describe_user_scram_credentials(["a"])["a"].result(WAITS_S)


# --- kafka-python -----------------------------------------------------------------------------------------


def test_kafka_python_gives_up_transactions(cluster):
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="b", max_block_ms=1000 * WAITS_S)
    with at_once(), pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(0)


def test_kafka_python_refuses_what_is_not_listed_by_itself(cluster):
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    pattern = ResourcePatternFilter(AclType.TOPIC, "t", ACLResourcePatternType.ANY)
    everything = ACLFilter(None, "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)
    for ask in (
        lambda: admin.describe_acls(everything),
        admin.list_transactions,
        admin.describe_user_scram_credentials,
        lambda: admin.update_features({"metadata.version": 1}),
    ):
        with at_once(), pytest.raises(IncompatibleBrokerVersion, match="does not support"):
            ask()
    admin.close()


def test_kafka_python_gives_up_sasl(cluster):
    with at_once(), pytest.raises(IncompatibleBrokerVersion, match="SaslHandshake"):
        KafkaProducer(
            bootstrap_servers=cluster.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="a",
            sasl_plain_password="b",
        ).send("anything", b"").get(WAITS_S)


# --- aiokafka ---------------------------------------------------------------------------------------------


@pytest.mark.clients
def test_aiokafka_gives_up_transactions_and_sasl(bootstrap):
    aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install harrow[clients]")

    async def start(**settings: object) -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
        try:
            await producer.start()
        finally:
            await producer.stop()

    with at_once(), pytest.raises(aiokafka.errors.TransactionalIdAuthorizationFailed):
        asyncio.run(start(transactional_id="c"))
    plain = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "a", "sasl_plain_password": "b"}
    with at_once(), pytest.raises(aiokafka.errors.KafkaConnectionError):
        asyncio.run(start(security_protocol="SASL_PLAINTEXT", **plain))
