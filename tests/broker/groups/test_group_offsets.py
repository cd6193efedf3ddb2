"""Committed offsets: who may commit, what is stored, and what survives a change of coordinator."""

from __future__ import annotations

from itertools import pairwise

import pytest

from broker.core.broker_node.groups import loading
from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.messages import CreateTopicsRequest, FetchRequest, NewTopic, ProducePartition, ProduceRequest
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    ListGroupsRequest,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from broker.core.records import encode_batch
from tests.broker.groups.group_driver import (
    BROKERS,
    GROUP,
    Driver,
    coordinator_of,
    describe,
    fail_over,
    group_of,
    join_all,
    loner,
    make_cluster,
    replica_of_group,
    sync_all,
)
from tests.support.cluster import TOPIC, Cluster


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()


def is_replicating(source: int, message: object) -> bool:
    return isinstance(message, FetchRequest) and any(part.topic == OFFSETS_TOPIC for part in message.partitions)


# --- commit and fetch ------------------------------------------------------------------------------------------------


def test_every_member_can_fetch_what_one_commits(cluster: Cluster) -> None:
    first, second = group_of(cluster, 2)
    assert first.commit(7, partition=0) == ErrorCode.NONE
    assert second.commit(9, partition=1) == ErrorCode.NONE
    assert first.commit(8, partition=0) == ErrorCode.NONE
    assert (second.fetch(0), first.fetch(1)) == ((ErrorCode.NONE, 8), (ErrorCode.NONE, 9))
    everything = cluster.call(first.coordinator, OffsetFetchRequest((OffsetFetchGroup(GROUP),))).groups[0]
    assert [(each.topic, each.partition, each.offset) for each in everything.partitions] == [
        (TOPIC, 0, 8),
        (TOPIC, 1, 9),
    ]


def test_nothing_committed_is_offset_minus_one(cluster: Cluster) -> None:
    assert loner(cluster).fetch() == (ErrorCode.NONE, -1)
    everything = cluster.call(coordinator_of(cluster), OffsetFetchRequest((OffsetFetchGroup(GROUP),))).groups[0]
    assert (everything.error_code, everything.partitions) == (ErrorCode.NONE, ())


def test_offsets_can_be_kept_without_membership_while_the_group_is_empty(cluster: Cluster) -> None:
    client = loner(cluster)
    assert client.commit(5, metadata="note") == ErrorCode.NONE
    assert client.fetch() == (ErrorCode.NONE, 5)
    assert describe(cluster).state == "Empty"
    group_of(cluster, 1)
    assert client.commit(6) == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.fetch() == (ErrorCode.NONE, 5)


def test_a_zombie_of_an_old_generation_is_refused(cluster: Cluster) -> None:
    first, second = group_of(cluster, 2)
    zombie = Driver(cluster, first.coordinator, member_id=first.member_id, generation=first.generation)
    third = Driver(cluster, first.coordinator)
    third.ask_join()
    join_all(cluster, first, second)
    assert first.commit(3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert zombie.commit(3) == ErrorCode.ILLEGAL_GENERATION
    assert zombie.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    own_id = zombie.ask_sync()
    cluster.run_until(lambda: own_id in cluster.answers)
    assert zombie.take_sync(own_id) == ErrorCode.ILLEGAL_GENERATION
    assert zombie.fetch() == (ErrorCode.NONE, -1)


def test_a_member_that_left_may_not_commit(cluster: Cluster) -> None:
    first, _ = group_of(cluster, 2)
    first.leave()
    assert first.commit(3) == ErrorCode.UNKNOWN_MEMBER_ID
    non_member = Driver(cluster, coordinator_of(cluster, "nobody"), "nobody", "member", generation=1)
    assert non_member.commit(3) == ErrorCode.ILLEGAL_GENERATION


def test_a_member_may_commit_while_the_others_are_waited_for(cluster: Cluster) -> None:
    first, _ = group_of(cluster, 2)
    Driver(cluster, first.coordinator).ask_join()
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.commit(3) == ErrorCode.NONE


def test_partitions_that_do_not_exist_and_notes_that_are_too_long_are_refused_alone(cluster: Cluster) -> None:
    client = loner(cluster)
    parts = (
        OffsetCommitPartition(TOPIC, 0, 4),
        OffsetCommitPartition("missing", 0, 4),
        OffsetCommitPartition(TOPIC, 2, 4),
        OffsetCommitPartition(TOPIC, 1, 4, metadata="n" * 4_097),
    )
    answer = cluster.call(client.coordinator, OffsetCommitRequest(GROUP, -1, "", parts))
    assert {(each.topic, each.partition): each.error_code for each in answer.partitions} == {
        (TOPIC, 0): ErrorCode.NONE,
        ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (TOPIC, 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (TOPIC, 1): ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }
    assert (client.fetch(0), client.fetch(1)) == ((ErrorCode.NONE, 4), (ErrorCode.NONE, -1))


def test_a_commit_larger_than_a_batch_is_refused() -> None:
    cluster = make_cluster(message_max_bytes=1_000)
    client = loner(cluster)
    assert client.commit(4, metadata="n" * 2_000) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert client.commit(4) == ErrorCode.NONE


def test_only_the_coordinator_writes_to_its_topic(cluster: Cluster) -> None:
    coordinator_of(cluster)
    batch = encode_batch([(b"k", b"v")], 0, 0, 0)
    for number in BROKERS:
        request = ProduceRequest(-1, 1_000, (ProducePartition(OFFSETS_TOPIC, 0, batch),))
        answer = cluster.call(number, request)
        assert answer.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


# --- replication -----------------------------------------------------------------------------------------------------


def test_a_commit_is_answered_and_shown_when_it_is_replicated_and_not_before(cluster: Cluster) -> None:
    client = loner(cluster)
    assert client.commit(5) == ErrorCode.NONE
    cluster.held = lambda source, to, message: is_replicating(source, message)
    own_id = client.ask_commit(6)
    cluster.run(400)
    assert own_id not in cluster.answers
    assert client.fetch() == (ErrorCode.NONE, 5)
    assert client.fetch(require_stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert client.fetch(1, require_stable=True) == (ErrorCode.NONE, -1)
    cluster.held = None
    cluster.run_until(lambda: own_id in cluster.answers)
    assert cluster.error_of(own_id) == ErrorCode.NONE
    assert client.fetch(require_stable=True) == (ErrorCode.NONE, 6)


def test_a_commit_that_is_not_replicated_in_time_is_given_up_and_may_still_come_true() -> None:
    cluster = make_cluster(offsets_commit_timeout_ms=1_000, replica_lag_time_max_ms=60_000)
    client = loner(cluster)
    cluster.held = lambda source, to, message: is_replicating(source, message)
    began_ms = cluster.now_ms
    assert client.commit(6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.now_ms - began_ms == 1_000
    assert client.fetch() == (ErrorCode.NONE, -1)
    cluster.held = None
    cluster.run_until(lambda: client.fetch() == (ErrorCode.NONE, 6))


def test_an_assignment_that_is_not_replicated_in_time_starts_the_rebalance_over() -> None:
    cluster = make_cluster(offsets_commit_timeout_ms=1_000, replica_lag_time_max_ms=60_000)
    member = Driver(cluster, coordinator_of(cluster))
    join_all(cluster, member)
    cluster.held = lambda source, to, message: is_replicating(source, message)
    own_id = member.ask_sync({member.member_id: b"late"})
    cluster.run_until(lambda: own_id in cluster.answers)
    assert member.take_sync(own_id) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    cluster.held = None
    join_all(cluster, member)
    sync_all(cluster, member)
    assert member.generation == 2


def test_below_min_isr_nothing_is_committed(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    for number in BROKERS:
        if number != member.coordinator:
            cluster.kill(number)
    cluster.run_until(lambda: replica_of_group(cluster, member.coordinator)["isr"] == [member.coordinator])
    assert member.commit(3) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert member.fetch() == (ErrorCode.NONE, -1)


def test_a_single_broker_asks_no_more_in_sync_replicas_than_it_has() -> None:
    cluster = Cluster(brokers=1, min_insync_replicas=2)
    cluster.run_until(cluster.machines[1].node.is_ready)
    cluster.call(1, CreateTopicsRequest((NewTopic(TOPIC, 1, 1),)))
    assert loner(cluster).commit(5) == ErrorCode.NONE


# --- fail-over -------------------------------------------------------------------------------------------------------


def test_commits_and_members_survive_their_coordinator(cluster: Cluster) -> None:
    first, second = group_of(cluster, 2)
    assert first.commit(7, 0) == ErrorCode.NONE
    assert second.commit(9, 1) == ErrorCode.NONE
    fail_over(cluster, first)
    second.moved()
    assert (first.fetch(0), first.fetch(1)) == ((ErrorCode.NONE, 7), (ErrorCode.NONE, 9))
    assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert first.commit(8, 0) == ErrorCode.NONE
    group = describe(cluster)
    assert {each.member_id: each.assignment for each in group.members} == {
        each.member_id: each.member_id.encode() for each in (first, second)
    }
    Driver(cluster, first.coordinator).ask_join()
    join_all(cluster, first, second)
    assert first.generation == 2


def test_a_new_coordinator_misses_the_heartbeats_of_who_is_gone(cluster: Cluster) -> None:
    first, second = group_of(cluster, 2)
    fail_over(cluster, first)
    cluster.run(1_000)
    while first.heartbeat() == ErrorCode.NONE:
        cluster.run(500)
    join_all(cluster, first)
    sync_all(cluster, first)
    assert [each.member_id for each in describe(cluster).members] == [first.member_id]
    second.moved()
    assert second.commit(3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_generation_continues_after_all_have_left(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    assert member.commit(4) == ErrorCode.NONE
    assert member.leave() == ErrorCode.NONE
    assert describe(cluster).state == "Empty"
    cluster.run(100)
    fail_over(cluster, member)
    assert describe(cluster).state == "Empty"
    (again,) = group_of(cluster, 1)
    assert again.generation == 3
    assert again.fetch() == (ErrorCode.NONE, 4)


def test_members_that_wait_for_a_deposed_coordinator_are_sent_to_find_the_next() -> None:
    cluster = make_cluster(offsets_commit_timeout_ms=60_000)
    first, second = group_of(cluster, 2)
    old = first.coordinator
    cluster.isolate(old)
    waiting_join = first.ask_join() if first.leads else second.ask_join()
    lone = Driver(cluster, old, member_id=first.member_id, generation=first.generation)
    waiting_commit = lone.ask_commit(5)
    cluster.run_until(lambda: bool(leader_but(cluster, old)))
    cluster.heal()
    cluster.run_until(lambda: waiting_join in cluster.answers and waiting_commit in cluster.answers)
    assert cluster.answers[waiting_join].error_code == ErrorCode.NOT_COORDINATOR
    assert cluster.error_of(waiting_commit) == ErrorCode.NOT_COORDINATOR
    first.moved()
    assert first.coordinator != old
    assert first.fetch() == (ErrorCode.NONE, -1)


def leader_but(cluster: Cluster, old: int) -> int:
    """The broker that now leads the group's partition, 0 if there is none yet."""
    return next((n for n in BROKERS if n != old and replica_of_group(cluster, n).get("role") == "leader"), 0)


def test_a_new_coordinator_serves_no_member_before_it_has_read_what_was_committed(cluster: Cluster) -> None:
    """HW-9: the coordinator does not answer until the high watermark has reached the start of its epoch."""
    (member,) = group_of(cluster, 1)
    assert member.commit(4) == ErrorCode.NONE
    old = member.coordinator
    cluster.held = lambda source, to, message: is_replicating(source, message) and old not in (source, to)
    cluster.kill(old)

    cluster.run_until(lambda: bool(leader_but(cluster, old)))
    member.coordinator = leader_but(cluster, old)
    replica = replica_of_group(cluster, member.coordinator)
    assert replica["high_watermark"] < replica["log_end"]
    assert member.fetch() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
    assert member.commit(5) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert member.join().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert member.heartbeat() == ErrorCode.NONE
    answer = cluster.call(member.coordinator, ListGroupsRequest())
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.held = None
    cluster.run_until(lambda: member.fetch() == (ErrorCode.NONE, 4))


def test_a_long_log_is_loaded_in_steps_between_which_others_are_served() -> None:
    cluster = make_cluster()
    client = loner(cluster)
    note = "n" * 4_000
    for offset in range(200):
        assert client.commit(offset, metadata=note) == ErrorCode.NONE
    old = client.coordinator
    cluster.kill(old)
    cluster.run_until(lambda: bool(leader_but(cluster, old)))
    client.coordinator = leader_but(cluster, old)
    partition = replica_of_group(cluster, client.coordinator)["partition"]
    coordinator = cluster.machines[client.coordinator].node.state.coordinator  # type: ignore[union-attr]
    reached: set[int | None] = set()

    def is_loaded() -> bool:
        shard = coordinator.shards.get(partition)
        reached.add(shard.load_from if shard is not None else 0)
        return None in reached

    cluster.run_until(is_loaded)
    assert len(reached) > 3
    assert client.fetch() == (ErrorCode.NONE, 199)


# --- determinism -----------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_run_and_ids_never_repeat() -> None:
    stories = []
    for _ in range(2):
        cluster = make_cluster(seed=5)
        members = group_of(cluster, 3)
        members[0].leave()
        stories.append((cluster.story(), [member.member_id for member in members]))
    assert stories[0] == stories[1]
    ids = stories[0][1]
    assert all(one != other for one, other in pairwise(sorted(ids)))


def test_a_request_is_never_answered_twice_whatever_comes_after() -> None:
    """The client disconnected and reconnected with the same member id while its first join was waiting."""
    cluster = make_cluster()
    first, _ = group_of(cluster, 2)
    newcomer = Driver(cluster, first.coordinator)
    newcomer.join(api_version=4)
    earlier = newcomer.ask_join(api_version=4)
    later = newcomer.ask_join(api_version=4)
    cluster.run_until(lambda: earlier in cluster.answers)
    assert cluster.answers[earlier].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert later not in cluster.answers


# --- loading ---------------------------------------------------------------------------------------------------------


def test_only_partitions_of_the_offsets_topic_have_groups(cluster: Cluster) -> None:
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE
    for number in (1, 2, 3):
        assert not cluster.machines[number].node.state.coordinator.shards  # type: ignore[union-attr]


def test_loading_goes_on_at_the_start_of_a_log_that_has_moved_meanwhile(cluster: Cluster) -> None:
    client = loner(cluster)
    for offset in range(5):
        assert client.commit(offset) == ErrorCode.NONE
    state = cluster.machines[client.coordinator].node.state  # type: ignore[union-attr]
    partition = replica_of_group(cluster, client.coordinator)["partition"]
    replica = state.replicas[OFFSETS_TOPIC, partition]
    shard = loading.begin(replica)
    replica.log.advance_start(replica.log.end_offset - 1)
    replica.leader_epoch_start = replica.log.end_offset
    loading.go_on(state, shard, replica)
    assert shard.load_from is None
    assert shard.groups
