"""Members of groups of each library that leave or crash, on a real cluster: how long their group still has them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from tests.support.local_cluster import LocalCluster, eventually
from tests.support.quick import first_quick
from workloads.clients import client_named
from workloads.clients.base import ClientMissingError, ClientSettings
from workloads.clients.optional_interfaces import Assigned, GroupMember, Membership, group_library

pytestmark = [pytest.mark.cluster, pytest.mark.clients, pytest.mark.timeout(240)]

TOPIC = "departures"
PATIENCE_S = 60.0
LIBRARIES = ("kafka-python", "aiokafka", "confluent-kafka")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, combined=True, group_initial_rebalance_delay_ms="0") as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    client.create_topics([NewTopic(TOPIC, 2, 1)])
    yield client
    client.close()


def joined(cluster: LocalCluster, library: str, group: str, session_ms: int) -> GroupMember:
    try:
        known = group_library(client_named(library))
    except ClientMissingError as missing:
        pytest.skip(str(missing))
    settings = ClientSettings(tuple(cluster.bootstrap))
    member = known.member(settings, Membership(group, (TOPIC,), session_timeout_ms=session_ms), time.monotonic_ns)
    assigned: list[Assigned] = []

    def has_partitions() -> bool:
        member.poll(0.1)
        assigned.extend(change for change in member.changes() if isinstance(change, Assigned))
        return any(each.partitions for each in assigned)

    eventually(has_partitions, PATIENCE_S, "the member has partitions")
    return member


def members_of(admin: KafkaAdminClient, group: str) -> int:
    return len(admin.describe_groups([group])[group]["members"])


@pytest.mark.slow
@pytest.mark.parametrize("library", first_quick(LIBRARIES))
def test_a_group_has_a_member_that_crashed_until_its_session_ends(
    cluster: LocalCluster, admin: KafkaAdminClient, library: str
) -> None:
    member = joined(cluster, library, group := f"crash-{library}", 10_000)
    assert members_of(admin, group) == 1
    member.crash()
    crashed_s = time.monotonic()
    eventually(lambda: members_of(admin, group) == 0, PATIENCE_S, "its session has ended")
    assert time.monotonic() - crashed_s > 5, "it did not leave: its last heartbeat was up to seconds before"


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_member_that_leaves_is_gone_long_before_its_session_would_end(
    cluster: LocalCluster, admin: KafkaAdminClient, library: str
) -> None:
    member = joined(cluster, library, group := f"leave-{library}", 30_000)
    member.leave()
    left_s = time.monotonic()
    eventually(lambda: members_of(admin, group) == 0, PATIENCE_S, "it has left")
    assert time.monotonic() - left_s < 20
