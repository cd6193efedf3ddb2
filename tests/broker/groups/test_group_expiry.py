"""Committed offsets that nobody has needed for long are deleted, and groups that have none left (KIP-211)."""

from __future__ import annotations

import pytest

from broker.core.broker_node.groups.records import (
    OFFSETS_TOPIC,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredOffset,
    decode_key,
    decode_offset,
    encode_group,
    encode_key,
    encode_offset,
    partition_of,
)
from broker.core.messages import DeleteTopicsRequest, FetchRequest
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import ListGroupsRequest, ListGroupsResponse
from broker.core.records import Record, decode_records, encode_batch, iterate_headers
from tests.broker.groups.group_driver import (
    BROKERS,
    GROUP,
    coordinator_of,
    fail_over,
    group_of,
    loner,
    make_cluster,
    replica_of_group,
)
from tests.support.cluster import TOPIC, Cluster

RETENTION_MS = 5_000
CHECK_MS = 200
TIME_OF_DAY_MS = 1_800_000_000_000
NOTHING = (ErrorCode.NONE, -1)


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster(
        offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS, wall_clock_ms=TIME_OF_DAY_MS
    )


def groups_of(cluster: Cluster, number: int) -> list[str]:
    answer = cluster.call(number, ListGroupsRequest())
    assert isinstance(answer, ListGroupsResponse)
    return [group.group_id for group in answer.groups]


def stored_records(cluster: Cluster, number: int, group_id: str = GROUP) -> list[Record]:
    """What a broker's replica of the group's partition holds."""
    state = cluster.machines[number].node.state  # type: ignore[union-attr]
    log = state.replicas[OFFSETS_TOPIC, partition_of(group_id, state.settings.offsets_topic_num_partitions)].log
    data = log.read(0, 1 << 20, log.end_offset)
    return [record for at, _ in iterate_headers(data) for record in decode_records(data, at)]


def test_offsets_of_a_client_without_group_expire_after_their_last_commit(cluster: Cluster) -> None:
    client = loner(cluster)
    assert client.commit(7, partition=0) == ErrorCode.NONE
    cluster.run(RETENTION_MS // 2)
    assert client.commit(9, partition=1) == ErrorCode.NONE
    cluster.run(RETENTION_MS // 2 + 2 * CHECK_MS)
    assert (client.fetch(0), client.fetch(1)) == (NOTHING, (ErrorCode.NONE, 9))
    assert groups_of(cluster, client.coordinator) == [GROUP]
    cluster.run(RETENTION_MS // 2)
    assert client.fetch(1) == NOTHING
    assert groups_of(cluster, client.coordinator) == []


def test_offsets_of_a_group_stay_while_it_has_members_and_go_after_the_last_has_left(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    assert member.commit(7) == ErrorCode.NONE
    for _ in range(2 * RETENTION_MS // 1000):
        cluster.run(1000)
        assert member.heartbeat() == ErrorCode.NONE
    assert member.fetch() == (ErrorCode.NONE, 7)
    assert member.leave() == ErrorCode.NONE
    cluster.run(RETENTION_MS - 2 * CHECK_MS)
    assert member.fetch() == (ErrorCode.NONE, 7)
    cluster.run(4 * CHECK_MS)
    assert member.fetch() == NOTHING
    assert groups_of(cluster, member.coordinator) == []


def test_the_time_goes_on_over_a_change_of_coordinators(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    assert member.commit(7) == ErrorCode.NONE
    assert member.leave() == ErrorCode.NONE
    cluster.run(RETENTION_MS // 2)
    began_ms = cluster.now_ms
    fail_over(cluster, member)
    assert member.fetch() == (ErrorCode.NONE, 7)
    cluster.run(max(0, began_ms + RETENTION_MS // 2 + 2 * CHECK_MS - cluster.now_ms))
    assert member.fetch() == NOTHING


def test_a_deletion_is_what_the_next_coordinator_finds(cluster: Cluster) -> None:
    client = loner(cluster)
    assert client.commit(7) == ErrorCode.NONE
    cluster.run(RETENTION_MS + 2 * CHECK_MS)
    assert client.fetch() == NOTHING
    fail_over(cluster, client)
    assert client.fetch() == NOTHING
    assert groups_of(cluster, client.coordinator) == []
    tombstones = [decode_key(one.key) for one in stored_records(cluster, client.coordinator) if one.value is None]
    assert tombstones == [OffsetKey(GROUP, TOPIC, 0), GroupKey(GROUP)]


def test_offsets_of_a_deleted_topic_go_from_a_living_group_too(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    assert member.commit(7) == ErrorCode.NONE
    cluster.call(1, DeleteTopicsRequest(((TOPIC, ""),)))
    cluster.run(4 * CHECK_MS)
    assert member.fetch() == NOTHING
    assert member.heartbeat() == ErrorCode.NONE
    assert groups_of(cluster, member.coordinator) == [GROUP]


def test_a_commit_on_its_way_is_not_deleted(cluster: Cluster) -> None:
    client = loner(cluster)
    assert client.commit(7) == ErrorCode.NONE
    cluster.run(RETENTION_MS - 3 * CHECK_MS)

    def is_replicating(source: int, target: int, message: object) -> bool:
        return isinstance(message, FetchRequest) and any(part.topic == OFFSETS_TOPIC for part in message.partitions)

    cluster.held = is_replicating
    client.ask_commit(8)
    cluster.run(6 * CHECK_MS)
    cluster.held = None
    cluster.run(1000)
    assert client.fetch() == (ErrorCode.NONE, 8)


def test_commits_and_generations_are_stored_with_the_time_of_day(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    assert member.commit(7) == ErrorCode.NONE
    records = stored_records(cluster, member.coordinator)
    times = [one.timestamp for one in records]
    committed = next(
        decode_offset(one.value) for one in records if isinstance(decode_key(one.key), OffsetKey) and one.value
    )
    for ms in (*times, committed.commit_ms):
        assert TIME_OF_DAY_MS < ms <= TIME_OF_DAY_MS + cluster.now_ms


def test_what_an_older_harrow_wrote_counts_from_when_it_is_read(cluster: Cluster) -> None:
    coordinator = coordinator_of(cluster)
    number = partition_of(GROUP, cluster.machines[coordinator].settings.offsets_topic_num_partitions)
    old = encode_batch(
        [
            (encode_key(GroupKey(GROUP)), encode_group(StoredGroup("consumer", 3, None, None, ()))),
            (encode_key(OffsetKey(GROUP, TOPIC, 0)), encode_offset(StoredOffset(42, 0, ""))),
        ],
        0,
        0,
        -1,
    )
    replica = cluster.machines[coordinator].node.state.replicas[OFFSETS_TOPIC, number]  # type: ignore[union-attr]
    replica.log.append_as_leader(old, replica.leader_epoch)
    member = loner(cluster)
    cluster.run_until(lambda: {replica_of_group(cluster, one)["log_end"] for one in BROKERS} == {2})
    fail_over(cluster, member)
    assert member.fetch() == (ErrorCode.NONE, 42)
    cluster.run(RETENTION_MS // 2)
    assert member.fetch() == (ErrorCode.NONE, 42)
    cluster.run(RETENTION_MS // 2 + 4 * CHECK_MS)
    assert member.fetch() == NOTHING


def test_the_log_of_committed_offsets_stays_small() -> None:
    cluster = make_cluster(offsets_topic_segment_bytes=2_000, log_cleaner_backoff_ms=100)
    client = loner(cluster)
    for offset in range(300):
        assert client.commit(offset) == ErrorCode.NONE
    cluster.run(2_000)
    for number in BROKERS:
        records = stored_records(cluster, number)
        assert len(records) < 100
    fail_over(cluster, client)
    assert client.fetch() == (ErrorCode.NONE, 299)
