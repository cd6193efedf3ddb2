"""Joining, assigning, leaving: a group's transition from one generation to the next."""

from __future__ import annotations

import pytest

from broker.core.messages import FindCoordinatorRequest, MetadataRequest
from broker.core.messages.errors import ErrorCode
from tests.broker.groups.group_driver import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Driver,
    coordinator_of,
    describe,
    group_of,
    join_all,
    make_cluster,
    sync_all,
)
from tests.support.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()


def test_two_members_that_come_together_share_a_generation(cluster: Cluster) -> None:
    first, second = group_of(cluster, 2)
    assert first.generation == second.generation == 1
    assert [first.leads, second.leads].count(True) == 1
    leader = first if first.leads else second
    assert {each.member_id for each in leader.joined.members} == {first.member_id, second.member_id}
    assert (second if first.leads else first).joined.members == ()
    group = describe(cluster)
    assert (group.state, group.protocol) == ("Stable", "range")
    assert {each.member_id: each.assignment for each in group.members} == {
        each.member_id: each.member_id.encode() for each in (first, second)
    }


def test_every_broker_names_the_same_coordinator_and_its_topic_is_internal(cluster: Cluster) -> None:
    coordinator = coordinator_of(cluster)
    for number in (1, 2, 3):
        found = cluster.call(number, FindCoordinatorRequest(0, (GROUP,))).coordinators[0]
        assert (found.error_code, found.node_id, found.host) == (ErrorCode.NONE, coordinator, f"b{coordinator}")
        topics = {topic.name: topic for topic in cluster.call(number, MetadataRequest()).topics}
        assert topics["__consumer_offsets"].is_internal
        assert len(topics["__consumer_offsets"].partitions) == 4
        assert all(len(each.replicas) == 3 for each in topics["__consumer_offsets"].partitions)
        assert not topics["log"].is_internal


def test_transactions_have_no_coordinator(cluster: Cluster) -> None:
    found = cluster.call(1, FindCoordinatorRequest(1, ("t",))).coordinators[0]
    assert found.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "expected what clients give up at"
    assert "no transactions" in (found.error_message or "")


def test_a_broker_that_is_not_the_coordinator_says_so(cluster: Cluster) -> None:
    coordinator = coordinator_of(cluster)
    other = Driver(cluster, next(number for number in (1, 2, 3) if number != coordinator))
    assert other.join().error_code == ErrorCode.NOT_COORDINATOR
    assert other.heartbeat() == ErrorCode.NOT_COORDINATOR
    assert other.commit(1) == ErrorCode.NOT_COORDINATOR
    assert other.fetch() == (ErrorCode.NOT_COORDINATOR, -1)


def test_a_new_member_is_sent_back_with_an_id_first(cluster: Cluster) -> None:
    member = Driver(cluster, coordinator_of(cluster))
    assert member.join(api_version=4).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert member.member_id.startswith("test-")
    given = member.member_id
    assert member.join(api_version=4).error_code == ErrorCode.NONE
    assert (member.member_id, member.generation) == (given, 1)


def test_an_id_that_no_client_uses_is_forgotten_and_delays_no_rebalance(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    ghost = Driver(cluster, member.coordinator)
    assert ghost.join(api_version=4).error_code == ErrorCode.MEMBER_ID_REQUIRED
    began_ms = cluster.now_ms
    join_all(cluster, member)
    assert SESSION_MS / 2 < cluster.now_ms - began_ms < REBALANCE_MS
    sync_all(cluster, member)
    assert ghost.join(api_version=4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_third_member_makes_the_others_join_again(cluster: Cluster) -> None:
    first, second = group_of(cluster, 2)
    third = Driver(cluster, first.coordinator)
    own_id = third.ask_join()
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert own_id not in cluster.answers
    join_all(cluster, first, second)
    assert own_id in cluster.answers
    third.take_join(own_id)
    assert {first.generation, second.generation, third.generation} == {2}
    sync_all(cluster, first, second, third)
    assert [each.heartbeat() for each in (first, second, third)] == [ErrorCode.NONE] * 3


def test_a_member_that_leaves_hands_over_to_the_others(cluster: Cluster) -> None:
    first, second = group_of(cluster, 2)
    assert first.leave() == ErrorCode.NONE
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    join_all(cluster, second)
    assert second.leads
    sync_all(cluster, second)
    assert (second.generation, describe(cluster).state) == (2, "Stable")


def test_the_last_member_leaves_an_empty_group(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    assert member.leave() == ErrorCode.NONE
    assert (describe(cluster).state, describe(cluster).members) == ("Empty", ())
    assert member.leave() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_heartbeat_is_out_after_its_session(cluster: Cluster) -> None:
    first, second = group_of(cluster, 2)
    began_ms = cluster.now_ms
    while second.heartbeat() == ErrorCode.NONE:
        cluster.run(500)
    assert SESSION_MS <= cluster.now_ms - began_ms <= SESSION_MS + 1_000
    join_all(cluster, second)
    sync_all(cluster, second)
    assert [each.member_id for each in describe(cluster).members] == [second.member_id]
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_its_time_only(cluster: Cluster) -> None:
    first, silent = group_of(cluster, 2)
    own_id = first.ask_join() if first.leads else Driver(cluster, first.coordinator).ask_join()
    began_ms = cluster.now_ms
    while own_id not in cluster.answers:
        silent.heartbeat()  # alive, but ignores the responses
        cluster.run(500)
    assert REBALANCE_MS <= cluster.now_ms - began_ms <= REBALANCE_MS + 1_000
    assert silent.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_joins_and_never_syncs_is_removed(cluster: Cluster) -> None:
    """KAFKA-13417."""
    coordinator = coordinator_of(cluster)
    first, second = Driver(cluster, coordinator), Driver(cluster, coordinator)
    join_all(cluster, first, second)
    leader, other = (first, second) if first.leads else (second, first)
    own_id = leader.ask_sync({leader.member_id: b"all"})
    cluster.run_until(lambda: own_id in cluster.answers)
    assert leader.take_sync(own_id) == ErrorCode.NONE
    began_ms = cluster.now_ms
    while leader.heartbeat() == ErrorCode.NONE:
        other.heartbeat()
        cluster.run(500)
    assert cluster.now_ms - began_ms <= REBALANCE_MS + 1_000
    assert other.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_never_assigns_is_removed_and_another_one_leads(cluster: Cluster) -> None:
    coordinator = coordinator_of(cluster)
    first, second = Driver(cluster, coordinator), Driver(cluster, coordinator)
    join_all(cluster, first, second)
    leader, other = (first, second) if first.leads else (second, first)
    own_id = other.ask_sync()
    cluster.run_until(lambda: own_id in cluster.answers)
    assert other.take_sync(own_id) == ErrorCode.REBALANCE_IN_PROGRESS
    join_all(cluster, other)
    assert other.leads
    assert leader.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_members_are_given_time_to_come_together() -> None:
    cluster = make_cluster(group_initial_rebalance_delay_ms=1_000)
    coordinator = coordinator_of(cluster)
    began_ms = cluster.now_ms
    members, asked = [], []
    for _ in range(3):
        members.append(Driver(cluster, coordinator))
        asked.append(members[-1].ask_join())
        cluster.run(700)
    cluster.run_until(lambda: all(own_id in cluster.answers for own_id in asked))
    assert {member.take_join(own_id).generation_id for member, own_id in zip(members, asked, strict=True)} == {1}
    assert 2_000 <= cluster.now_ms - began_ms <= 3_100


def test_a_follower_that_joins_again_unchanged_causes_no_rebalance(cluster: Cluster) -> None:
    first, second = group_of(cluster, 2)
    follower = second if first.leads else first
    assert follower.join().error_code == ErrorCode.NONE
    assert follower.generation == 1
    assert describe(cluster).state == "Stable"
    follower.protocols = (("range", b"wants more"),)
    follower.ask_join()
    assert describe(cluster).state == "PreparingRebalance"


def test_a_member_that_asks_for_its_missed_generation_again_has_been_heard_from(cluster: Cluster) -> None:
    coordinator = coordinator_of(cluster)
    members = [Driver(cluster, coordinator), Driver(cluster, coordinator)]
    join_all(cluster, *members)
    cluster.run(SESSION_MS - 1_000)
    for member in members:
        assert member.join().error_code == ErrorCode.NONE
    cluster.run(2_000)
    assert describe(cluster).state == "CompletingRebalance"
    sync_all(cluster, *members)


def test_a_repeated_sync_is_answered_with_the_same_assignment(cluster: Cluster) -> None:
    first, second = group_of(cluster, 2)
    for member in (first, second):
        own_id = member.ask_sync()
        cluster.run_until(lambda own_id=own_id: own_id in cluster.answers)
        assert member.take_sync(own_id) == ErrorCode.NONE
        assert member.assignment == member.member_id.encode()


def test_the_protocol_is_one_that_all_members_have_and_most_prefer(cluster: Cluster) -> None:
    coordinator = coordinator_of(cluster)
    wishes = (("sticky", "range", "own"), ("range", "sticky"), ("other", "range", "sticky"))
    members = [
        Driver(cluster, coordinator, protocols=tuple((name, name.encode()) for name in names)) for names in wishes
    ]
    join_all(cluster, *members)
    assert {member.joined.protocol_name for member in members} == {"range"}
    leader = next(member for member in members if member.leads)
    assert {each.metadata for each in leader.joined.members} == {b"range"}


def test_a_member_without_a_common_protocol_is_refused(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    outsider = Driver(cluster, member.coordinator, protocols=(("own", b""),))
    assert outsider.join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert member.heartbeat() == ErrorCode.NONE


@pytest.mark.parametrize("session_ms", [SESSION_MS - 1, 1_800_001, -1])
def test_a_session_that_is_too_short_or_too_long_is_refused(cluster: Cluster, session_ms: int) -> None:
    member = Driver(cluster, coordinator_of(cluster))
    assert member.join(session_ms=session_ms).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_full_group_accepts_no_member() -> None:
    cluster = make_cluster(group_max_size=2)
    first, second = group_of(cluster, 2)
    third = Driver(cluster, first.coordinator)
    assert third.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    join_all(cluster, first, second)


@pytest.mark.parametrize("group_id", ["", "x" * 40_000], ids=["none", "too long"])
def test_a_group_needs_a_name_that_can_be_written_down(cluster: Cluster, group_id: str) -> None:
    member = Driver(cluster, coordinator_of(cluster), group_id)
    assert member.join().error_code == ErrorCode.INVALID_GROUP_ID


def test_a_protocol_without_measure_is_refused(cluster: Cluster) -> None:
    member = Driver(cluster, coordinator_of(cluster), protocols=(("p" * 40_000, b""),))
    assert member.join().error_code == ErrorCode.INVALID_REQUEST


# --- static members (KIP-345) ----------------------------------------------------------------------------------------


def static_pair(cluster: Cluster) -> tuple[Driver, Driver]:
    coordinator = coordinator_of(cluster)
    pair = Driver(cluster, coordinator, instance_id="a"), Driver(cluster, coordinator, instance_id="b")
    join_all(cluster, *pair)
    sync_all(cluster, *pair)
    return pair


def test_a_restarted_static_member_keeps_its_place_without_a_rebalance(cluster: Cluster) -> None:
    first, second = static_pair(cluster)
    again = Driver(cluster, first.coordinator, instance_id="a")
    assert again.join().error_code == ErrorCode.NONE
    assert again.member_id != first.member_id
    assert (again.generation, again.leads) == (1, False)
    own_id = again.ask_sync()
    cluster.run_until(lambda: own_id in cluster.answers)
    assert again.take_sync(own_id) == ErrorCode.NONE
    assert again.assignment == first.member_id.encode()
    assert second.heartbeat() == ErrorCode.NONE
    assert first.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert first.commit(1) == ErrorCode.FENCED_INSTANCE_ID
    assert first.join().error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_came_back_and_is_silent_is_out_after_its_session(cluster: Cluster) -> None:
    first, second = static_pair(cluster)
    again = Driver(cluster, first.coordinator, instance_id="a")
    assert again.join().error_code == ErrorCode.NONE
    began_ms = cluster.now_ms
    cluster.run_until(lambda: second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS)
    assert SESSION_MS - 100 <= cluster.now_ms - began_ms <= SESSION_MS + 1_000
    assert again.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert [each.instance_id for each in describe(cluster).members] == ["b"]


def test_a_static_member_that_comes_back_with_other_wishes_causes_a_rebalance(cluster: Cluster) -> None:
    _, second = static_pair(cluster)
    again = Driver(cluster, second.coordinator, instance_id="a", protocols=(("range", b"more"),))
    own_id = again.ask_join()
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    join_all(cluster, second)
    assert again.take_join(own_id).generation_id == 2


def test_an_administrator_removes_a_static_member_by_its_name(cluster: Cluster) -> None:
    first, second = static_pair(cluster)
    by_name = Driver(cluster, first.coordinator, instance_id="a")
    assert by_name.leave() == ErrorCode.NONE
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
