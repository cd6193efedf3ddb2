"""Real clients in groups against a real cluster: share, rebalance, commit, and resume after their coordinator's death.

The list of behaviours in `docs/reference/clients.md` is this module and `tests/broker/interop`.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from broker.core.broker_node.groups.records import OFFSETS_TOPIC, partition_of
from tests.broker.groups.group_clients import MEMBERS, Member
from tests.support.local_cluster import LocalCluster, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.clients, pytest.mark.timeout(120)]

PARTITIONS = 4
PATIENCE_S = 45.0
KCAT_S_MAX = 40.0


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(group_initial_rebalance_delay_ms="300") as running:
        yield running


@pytest.fixture
def admin(cluster):
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(admin, request):
    name = request.node.name.translate(str.maketrans("[]", "--"))
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])
    return name


@pytest.fixture(params=MEMBERS)
def join(request, cluster, topic):
    """Creates members of one group, named like the topic; all have left by the end."""
    kind = MEMBERS[request.param]
    kind.needs()
    members: list[Member] = []

    def joined() -> Member:
        members.append(kind(cluster.bootstrap, topic, topic))
        return members[-1]

    def leave(member: Member) -> None:
        members.remove(member)
        member.close()

    joined.leave = leave  # type: ignore[attr-defined]
    yield joined
    for member in members:
        member.close()


def produce(cluster: LocalCluster, topic: str, numbers: range) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", reconnect_backoff_max_ms=500)
    sent = [producer.send(topic, b"%d" % number, partition=number % PARTITIONS) for number in numbers]
    for each in sent:
        each.get(PATIENCE_S)
    producer.close()


def share(*members: Member) -> None:
    """Poll until the members share all partitions: none assigned twice, at least one each."""

    def shared() -> bool:
        for member in members:
            member.poll()
        shares = [member.assigned() for member in members]
        return all(shares) and sum(map(len, shares)) == PARTITIONS and set.union(*shares) == set(range(PARTITIONS))

    eventually(shared, PATIENCE_S, f"{len(members)} members share {PARTITIONS} partitions")


def read(member: Member, count: int) -> list[int]:
    return read_between((member,), count)


def read_between(members: Iterable[Member], count: int) -> list[int]:
    numbers: list[int] = []

    def enough() -> bool:
        for member in members:
            numbers.extend(member.poll())
        return len(set(numbers)) >= count

    eventually(enough, PATIENCE_S, f"{count} records come")
    return sorted(numbers)


def coordinator_of(cluster: LocalCluster, group: str) -> int:
    return cluster.leader_of(OFFSETS_TOPIC, partition_of(group, len(cluster.partitions(OFFSETS_TOPIC))))


@pytest.mark.slow
def test_two_share_and_the_one_that_stays_takes_over(join):
    first, second = join(), join()
    share(first, second)
    third = join()
    share(first, second, third)
    join.leave(second)
    share(first, third)
    join.leave(third)
    share(first)


def test_a_group_resumes_where_it_committed(cluster, topic, join):
    produce(cluster, topic, range(40))
    first = join()
    assert read(first, 40) == list(range(40))
    first.commit()
    join.leave(first)
    produce(cluster, topic, range(40, 60))
    assert read(join(), 20) == list(range(40, 60))


@pytest.mark.slow
def test_a_group_continues_after_the_death_of_its_coordinator(cluster, topic, join):
    produce(cluster, topic, range(40))
    first = join()
    assert read(first, 40) == list(range(40))
    first.commit()
    killed = cluster.nodes[coordinator_of(cluster, topic)]
    killed.kill()
    try:
        produce(cluster, topic, range(40, 80))
        assert read(first, 40) == list(range(40, 80))
        first.commit()
        join.leave(first)
        produce(cluster, topic, range(80, 100))
        assert read(join(), 20) == list(range(80, 100))
        assert coordinator_of(cluster, topic) != killed.number
    finally:
        cluster.start()
        cluster.wait_until_whole(OFFSETS_TOPIC, topic)


@pytest.mark.slow
def test_two_members_go_on_through_the_controlled_stop_of_their_coordinator(cluster, topic, join):
    first, second = join(), join()
    share(first, second)
    stopped = cluster.nodes[coordinator_of(cluster, topic)]
    assert stopped.stop() == 0
    try:
        share(first, second)
        produce(cluster, topic, range(40))
        assert set(read_between((first, second), 40)) == set(range(40))
        # Without the commit a client may not have found the new coordinator, and leaves without LeaveGroup.
        first.commit()
        second.commit()
        join.leave(first)
        share(second)
    finally:
        cluster.start()
        cluster.wait_until_whole(OFFSETS_TOPIC, topic)


# --- kcat ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_resumes_where_it_committed(cluster, topic):
    def read_all() -> list[int]:
        arguments = ["-b", ",".join(cluster.bootstrap), "-X", "auto.offset.reset=earliest", "-e", "-q"]
        done = subprocess.run(
            ["kcat", *arguments, "-G", topic, topic], capture_output=True, check=True, text=True, timeout=KCAT_S_MAX
        )
        return sorted(map(int, done.stdout.split()))

    produce(cluster, topic, range(40))
    assert read_all() == list(range(40))
    produce(cluster, topic, range(40, 60))
    assert read_all() == list(range(40, 60))


class KcatMember:
    """`kcat -G`, which prints its assignment on standard error."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        arguments = ["-b", ",".join(cluster.bootstrap), "-G", topic, topic]
        self._process = subprocess.Popen(["kcat", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.assigned: set[int] = set()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stderr:
            if b"rebalanced" in line and b"assigned:" in line:
                self.assigned = {int(number) for number in re.findall(rb"\[(\d+)\]", line)}

    def leave(self) -> None:
        self._process.terminate()
        self._process.wait(KCAT_S_MAX)
        self._reader.join()
        self._process.stderr.close()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_two_kcats_share_and_the_one_that_stays_takes_over(cluster, topic):
    everything = set(range(PARTITIONS))
    first = KcatMember(cluster, topic)
    try:
        eventually(lambda: first.assigned == everything, PATIENCE_S, "the first has all partitions")
        second = KcatMember(cluster, topic)
        try:
            eventually(
                lambda: (
                    bool(first.assigned and second.assigned)
                    and first.assigned | second.assigned == everything
                    and not first.assigned & second.assigned
                ),
                PATIENCE_S,
                "the two share them",
            )
        finally:
            second.leave()
        eventually(lambda: first.assigned == everything, PATIENCE_S, "the first has all of them again")
    finally:
        first.leave()


# --- administration --------------------------------------------------------------------------------------------------


def test_kafka_python_administers_groups(cluster, admin, topic):
    produce(cluster, topic, range(40))
    member = MEMBERS["kafka-python"](cluster.bootstrap, topic, topic)
    assert read(member, 40) == list(range(40))
    member.commit()
    assert topic in {group["group_id"] for group in admin.list_groups()}
    described = admin.describe_groups([topic])[topic]
    assert (described["group_state"], described["protocol_type"], len(described["members"])) == (
        "Stable",
        "consumer",
        1,
    )
    assert described["members"][0]["client_host"] == "/127.0.0.1"
    offsets = admin.list_group_offsets([topic])[topic]
    assert {each.partition: at.offset for each, at in offsets.items()} == dict.fromkeys(range(PARTITIONS), 10)
    member.close()
    admin.alter_group_offsets(topic, {TopicPartition(topic, 0): _offset(3)})
    assert admin.list_group_offsets([topic])[topic][TopicPartition(topic, 0)].offset == 3
    admin.delete_group_offsets(topic, [TopicPartition(topic, 1)])
    assert TopicPartition(topic, 1) not in admin.list_group_offsets([topic])[topic]
    admin.delete_groups([topic])
    assert topic not in {group["group_id"] for group in admin.list_groups()}


def _offset(offset):
    from kafka.structs import OffsetAndMetadata

    return OffsetAndMetadata(offset, "", -1)


def test_confluent_administers_groups(cluster, topic):
    MEMBERS["confluent"].needs()
    from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType
    from confluent_kafka.admin import AdminClient

    produce(cluster, topic, range(40))
    member = MEMBERS["confluent"](cluster.bootstrap, topic, topic)
    assert read(member, 40) == list(range(40))
    member.commit()
    admin = AdminClient({"bootstrap.servers": ",".join(cluster.bootstrap)})
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert topic in {group.group_id for group in listed.valid}
    assert not listed.errors
    stable = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}, types={ConsumerGroupType.CLASSIC})
    assert topic in {group.group_id for group in stable.result(PATIENCE_S).valid}
    empty = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(PATIENCE_S)
    assert topic not in {group.group_id for group in empty.valid}
    asked = admin.describe_consumer_groups([topic], include_authorized_operations=True)
    described = asked[topic].result(PATIENCE_S)
    assert (described.state, len(described.members)) == (ConsumerGroupState.STABLE, 1)
    assert described.members[0].host == "/127.0.0.1"
    assert {each.name for each in described.authorized_operations} == {"READ", "DELETE", "DESCRIBE"}
    assert {each.partition for each in described.members[0].assignment.topic_partitions} == set(range(PARTITIONS))
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)])[topic].result(PATIENCE_S)
    assert {each.partition: each.offset for each in asked.topic_partitions} == dict.fromkeys(range(PARTITIONS), 10)
    member.close()
    assert admin.delete_consumer_groups([topic])[topic].result(PATIENCE_S) is None
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert topic not in {group.group_id for group in listed.valid}


def test_aiokafka_administers_groups(cluster, topic):
    MEMBERS["aiokafka"].needs()
    from aiokafka.admin import AIOKafkaAdminClient

    produce(cluster, topic, range(40))
    member = MEMBERS["aiokafka"](cluster.bootstrap, topic, topic)
    assert read(member, 40) == list(range(40))
    member.commit()

    async def described():
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            listed = await admin.list_consumer_groups()
            offsets = await admin.list_consumer_group_offsets(topic)
        finally:
            await admin.close()
        return {group[0] for group in listed}, {each.partition: at.offset for each, at in offsets.items()}

    groups, offsets = asyncio.run(described())
    member.close()
    assert topic in groups
    assert offsets == dict.fromkeys(range(PARTITIONS), 10)
