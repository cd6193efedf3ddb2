"""Group administration: list, describe, delete groups, delete offsets."""

from __future__ import annotations

import pytest

from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
)
from broker.core.messages.operations import NOT_ASKED
from tests.broker.groups.group_driver import (
    BROKERS,
    GROUP,
    coordinator_of,
    describe,
    fail_over,
    group_of,
    loner,
    make_cluster,
)
from tests.support.cluster import TOPIC, Cluster


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()


def test_groups_are_listed_by_their_coordinators(cluster: Cluster) -> None:
    group_of(cluster, 1, "one")
    assert loner(cluster, "two").commit(1) == ErrorCode.NONE

    def listed(**filters: tuple[str, ...]) -> dict[str, str]:
        answers = [cluster.call(number, ListGroupsRequest(**filters)) for number in BROKERS]
        assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
        return {group.group_id: group.state for answer in answers for group in answer.groups}

    assert listed() == {"one": "Stable", "two": "Empty"}
    assert listed(states=("stable",)) == {"one": "Stable"}
    assert listed(types=("classic",)) == {"one": "Stable", "two": "Empty"}
    assert listed(types=("consumer",)) == {}


def test_a_group_that_is_not_known_is_described_as_dead(cluster: Cluster) -> None:
    described = describe(cluster, "nobody")
    assert (described.error_code, described.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert described.error_message == "there is no group nobody"


def test_clients_that_ask_learn_what_they_may_do_with_a_group(cluster: Cluster) -> None:
    group_of(cluster, 1)
    coordinator = coordinator_of(cluster)
    (asked,) = cluster.call(coordinator, DescribeGroupsRequest((GROUP,), include_authorized_operations=True)).groups
    assert asked.authorized_operations == sum(1 << operation for operation in (3, 6, 8))  # read, delete, describe
    assert describe(cluster).authorized_operations == NOT_ASKED


def test_groups_without_members_can_be_deleted_for_good(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    assert member.commit(4) == ErrorCode.NONE

    def delete() -> int:
        answer = cluster.call(coordinator_of(cluster), DeleteGroupsRequest((GROUP,)))
        return answer.groups[0].error_code

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    assert member.leave() == ErrorCode.NONE
    assert delete() == ErrorCode.NONE
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
    cluster.run(100)
    fail_over(cluster, member)
    assert describe(cluster).state == "Dead"
    assert member.fetch() == (ErrorCode.NONE, -1)
    (again,) = group_of(cluster, 1)
    assert again.generation == 1


def test_several_groups_are_deleted_at_once_and_each_has_its_answer(cluster: Cluster) -> None:
    names = [f"group-{number}" for number in range(12)]
    for name in names:
        assert loner(cluster, name).commit(1) == ErrorCode.NONE
    coordinator = coordinator_of(cluster, names[0])
    answer = cluster.call(coordinator, DeleteGroupsRequest((*names, "", "nobody-0")))
    results = {each.group_id: each.error_code for each in answer.groups}
    assert results.keys() == {*names, "", "nobody-0"}
    for name in names:
        mine = coordinator_of(cluster, name) == coordinator
        assert results[name] == (ErrorCode.NONE if mine else ErrorCode.NOT_COORDINATOR)


def test_offsets_of_a_group_without_members_can_be_forgotten(cluster: Cluster) -> None:
    (member,) = group_of(cluster, 1)
    assert (member.commit(4, 0), member.commit(5, 1)) == (ErrorCode.NONE, ErrorCode.NONE)
    request = OffsetDeleteRequest(GROUP, ((TOPIC, 0), (TOPIC, 7)))
    assert cluster.call(member.coordinator, request).error_code == ErrorCode.NON_EMPTY_GROUP
    assert member.leave() == ErrorCode.NONE
    answer = cluster.call(member.coordinator, request)
    assert {each.partition: each.error_code for each in answer.partitions} == {0: ErrorCode.NONE, 7: ErrorCode.NONE}
    assert (member.fetch(0), member.fetch(1)) == ((ErrorCode.NONE, -1), (ErrorCode.NONE, 5))
    missing = OffsetDeleteRequest("nobody", ((TOPIC, 0),))
    coordinator = coordinator_of(cluster, "nobody")
    assert cluster.call(coordinator, missing).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    cluster.run(100)
    fail_over(cluster, member)
    assert (member.fetch(0), member.fetch(1)) == ((ErrorCode.NONE, -1), (ErrorCode.NONE, 5))
