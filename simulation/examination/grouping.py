"""Lets two members join a group, commit, and leave it, and asks about the group meanwhile (P-E5)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from broker.core.broker_node.groups.administration import CLASSIC
from broker.core.broker_node.groups.state import GroupState
from broker.core.messages import AnyRequest, FindCoordinatorRequest, FindCoordinatorResponse
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    DeleteGroupsRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedOffset,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from simulation.engine.cluster import SimulatedCluster
from simulation.examination.examiner import PASSING, Examiner
from simulation.examination.topics import PLAIN
from simulation.workload.members import SESSION_MS

PROPERTY = "P-E5"
GROUP, NO_GROUP = "exam-group", "exam-no-group"
_TYPE = "consumer"
_REBALANCE_MS = 3_000
_TRIES = 10
_METADATA_TOO_LONG = "x" * 4_097
_COMMITTED = (
    OffsetCommitPartition(PLAIN, 0, 3, 1, "first"),
    OffsetCommitPartition(PLAIN, 1, 5, -1, "second"),
)


class _Offer(NamedTuple):
    """What a member offers: protocols with its own metadata for each, the preferred one first; its instance id."""

    protocols: tuple[tuple[str, bytes], ...]
    instance_id: str | None = None


_OFFERS = (
    _Offer((("sticky", b"a sticky"), ("range", b"a range"), ("other", b"a other"))),
    _Offer((("range", b"b range"), ("sticky", b"b sticky")), "exam-instance"),
    _Offer((("range", b"c range"), ("sticky", b"c sticky"))),
)
"""Two prefer `range`, so that it is chosen, though the first member prefers another one."""

_CHOSEN = "range"


class _Joined(NamedTuple):
    """A member of the generation, with its own assignment to be."""

    member_id: str
    offer: _Offer
    assignment: bytes


def examine(examiner: Examiner, cluster: SimulatedCluster, broker: int) -> None:
    """Use a group whose coordinator `broker` names. Raises `WrongAnswer`."""
    at = _coordinator(examiner, cluster, broker)
    _impossible_joins(examiner, cluster, at)
    ids = _new_members(examiner, cluster, at)
    for _ in range(_TRIES):  # an assignment that is not replicated in time starts the rebalance over
        generation, members = _join(examiner, cluster, at, ids)
        if _sync(examiner, cluster, at, generation, members):
            break
        ids = [next(one.member_id for one in members if one.offer is offer) for offer in _OFFERS]
    else:
        raise examiner.wrong("the group", "no generation with assignments", f"one within {_TRIES} rebalances")
    _strangers(examiner, cluster, at, generation, members)
    examiner.soon(cluster, partial(_described, examiner, cluster, at, members))
    _commit(examiner, cluster, at, generation, members[0])
    _leave(examiner, cluster, at, members)
    _forget(examiner, cluster, at)


def _coordinator(examiner: Examiner, cluster: SimulatedCluster, broker: int) -> int:
    """The broker that coordinates the group, once it has loaded what there is of it."""
    found = -1

    def ready() -> None:
        nonlocal found
        response = examiner.ask(cluster, broker, FindCoordinatorRequest(0, (GROUP,)))
        assert isinstance(response, FindCoordinatorResponse)
        [answer] = response.coordinators
        examiner.expect("the coordinator", (answer.key, answer.error_code), (GROUP, ErrorCode.NONE))
        found = answer.node_id
        listed = examiner.ask(cluster, found, ListGroupsRequest())
        examiner.expect("a coordinator that has loaded", getattr(listed, "error_code", None), ErrorCode.NONE)
        described = _describe(examiner, cluster, found)
        examiner.expect("a group that there is not", described.error_code, ErrorCode.GROUP_ID_NOT_FOUND)

    examiner.soon(cluster, ready)
    return found


def _joining(
    offer: _Offer, member_id: str = "", *, group: str = GROUP, session_ms: int = SESSION_MS
) -> JoinGroupRequest:
    return JoinGroupRequest(group, 4 * session_ms, _REBALANCE_MS, member_id, _TYPE, offer.protocols, offer.instance_id)


def _impossible_joins(examiner: Examiner, cluster: SimulatedCluster, at: int) -> None:
    offer = _OFFERS[0]
    cases: list[tuple[str, AnyRequest, ErrorCode]] = [
        ("a group without a name", _joining(offer, group=""), ErrorCode.INVALID_GROUP_ID),
        ("a session that is too short", _joining(offer, session_ms=0), ErrorCode.INVALID_SESSION_TIMEOUT),
        ("a member without protocols", _joining(_Offer(())), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("a member that nobody knows", _joining(offer, "nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for about, request, error in cases:
        examiner.errors(cluster, at, about, request, error)


def _new_members(examiner: Examiner, cluster: SimulatedCluster, at: int) -> list[str]:
    """The member ids with which each is to join: all get one first, but those that have an instance id."""
    ids = []
    for offer in _OFFERS:
        ids.append("")
        if offer.instance_id is None:
            answer = examiner.errors(cluster, at, "a new member", _joining(offer), ErrorCode.MEMBER_ID_REQUIRED)
            assert isinstance(answer, JoinGroupResponse)
            examiner.expect("a new member, whether it gets an id", bool(answer.member_id), True)
            ids[-1] = answer.member_id
    return ids


def _join(examiner: Examiner, cluster: SimulatedCluster, at: int, known_as: Sequence[str]) -> tuple[int, list[_Joined]]:
    """All join at once; the leader hears of all, with their metadata. Returns the generation, its leader first."""
    offers = zip(known_as, _OFFERS, strict=True)
    waiting = [examiner.send(cluster, at, _joining(offer, member_id)) for member_id, offer in offers]
    answers: list[JoinGroupResponse] = []
    for number in waiting:
        response = examiner.take(cluster, number, "a member that joins")
        assert isinstance(response, JoinGroupResponse)
        answers.append(response)
    generations = {(one.error_code, one.generation_id, one.protocol_name, one.leader) for one in answers}
    first_answer = answers[0]
    expected = {(ErrorCode.NONE, first_answer.generation_id, _CHOSEN, first_answer.leader)}
    examiner.expect("one generation of all members", generations, expected)
    ids = [one.member_id for one in answers]
    examiner.expect("a leader among the members", first_answer.leader in ids, True)
    for answer in answers:
        told = sorted((one.member_id, one.instance_id, one.metadata) for one in answer.members)
        whole = sorted(
            (member, offer.instance_id, dict(offer.protocols)[_CHOSEN])
            for member, offer in zip(ids, _OFFERS, strict=True)
        )
        about = f"member {answer.member_id}, what it is told of the others"
        examiner.expect(about, told, whole if answer.member_id == answer.leader else [])
    members = [
        _Joined(one.member_id, offer, f"part {number}".encode())
        for number, (one, offer) in enumerate(zip(answers, _OFFERS, strict=True))
    ]
    leader_first = sorted(members, key=lambda one: one.member_id != first_answer.leader)
    return first_answer.generation_id, leader_first


def _sync(examiner: Examiner, cluster: SimulatedCluster, at: int, generation: int, members: list[_Joined]) -> bool:
    """The followers wait for the leader, and each gets its own part; or all are told to join again."""
    assignments = tuple((one.member_id, one.assignment) for one in members)
    wrong = SyncGroupRequest(GROUP, generation, members[1].member_id, (), None, _TYPE, "sticky")
    examiner.errors(
        cluster,
        at,
        "an assignment by another protocol",
        wrong._replace(instance_id=members[1].offer.instance_id),
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    )
    numbers = []
    for one in reversed(members):  # the leader last
        sent = assignments if one is members[0] else ()
        request = SyncGroupRequest(GROUP, generation, one.member_id, sent, one.offer.instance_id, _TYPE, _CHOSEN)
        numbers.append((one, examiner.send(cluster, at, request)))
    again = False
    for one, number in numbers:
        response = examiner.take(cluster, number, "a member that asks for its assignment")
        assert isinstance(response, SyncGroupResponse)
        if response.error_code in PASSING or response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            again = True
            continue
        answer = (response.error_code, response.protocol_name, response.assignment)
        examiner.expect(f"member {one.member_id}, its assignment", answer, (ErrorCode.NONE, _CHOSEN, one.assignment))
    return not again


def _strangers(examiner: Examiner, cluster: SimulatedCluster, at: int, generation: int, members: list[_Joined]) -> None:
    """Heartbeats, commits and so on of those who are no members, or not of this generation."""
    member = members[0]
    name, instance = member.member_id, member.offer.instance_id
    old, nobody = ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID
    other = _joining(_Offer((("another", b""),)))
    foreign = _joining(_OFFERS[0])._replace(protocol_type="connect")
    part = _COMMITTED[:1]
    cases: list[tuple[str, AnyRequest, ErrorCode]] = [
        ("a heartbeat", HeartbeatRequest(GROUP, generation, name, instance), ErrorCode.NONE),
        ("a heartbeat of an old generation", HeartbeatRequest(GROUP, generation - 1, name, instance), old),
        ("a heartbeat of nobody", HeartbeatRequest(GROUP, generation, "nobody"), nobody),
        ("a heartbeat for no group", HeartbeatRequest(NO_GROUP, generation, name), nobody),
        ("a heartbeat of no such instance", HeartbeatRequest(GROUP, generation, name, "none"), nobody),
        (
            "a heartbeat under another's instance",
            HeartbeatRequest(GROUP, generation, "nobody", "exam-instance"),
            ErrorCode.FENCED_INSTANCE_ID,
        ),
        ("a member with no protocol of the others", other, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("a member of another type", foreign, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("a commit of an old generation", OffsetCommitRequest(GROUP, generation - 1, name, part, instance), old),
        ("a commit of nobody", OffsetCommitRequest(GROUP, generation, "nobody", part), nobody),
        ("a commit for no group", OffsetCommitRequest(NO_GROUP, generation, name, part), old),
        ("deletion of a group with members", DeleteGroupsRequest((GROUP,)), ErrorCode.NON_EMPTY_GROUP),
        ("deletion of offsets in use", OffsetDeleteRequest(GROUP, ((PLAIN, 0),)), ErrorCode.NON_EMPTY_GROUP),
        ("deletion of no group", DeleteGroupsRequest((NO_GROUP,)), ErrorCode.GROUP_ID_NOT_FOUND),
        ("deletion of offsets of no group", OffsetDeleteRequest(NO_GROUP, ()), ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    for about, request, error in cases:
        examiner.errors(cluster, at, about, request, error)


def _describe(examiner: Examiner, cluster: SimulatedCluster, at: int) -> DescribedGroup:
    response = examiner.ask(cluster, at, DescribeGroupsRequest((GROUP,), include_authorized_operations=True))
    assert isinstance(response, DescribeGroupsResponse)
    return response.groups[0]


def _described(examiner: Examiner, cluster: SimulatedCluster, at: int, members: list[_Joined]) -> None:
    """A stable group with its members, their metadata and assignments; it is listed by state and by type."""
    group = _describe(examiner, cluster, at)
    found = (group.error_code, group.state, group.protocol_type, group.protocol)
    examiner.expect("the group", found, (ErrorCode.NONE, GroupState.STABLE.value, _TYPE, _CHOSEN))
    examiner.expect("the group, operations", group.authorized_operations > 0, True)
    told = sorted((one.member_id, one.instance_id, one.metadata, one.assignment) for one in group.members)
    expected = sorted(
        (one.member_id, one.offer.instance_id, dict(one.offer.protocols)[_CHOSEN], one.assignment) for one in members
    )
    examiner.expect("the group's members", told, expected)
    stable, empty = GroupState.STABLE.value, GroupState.EMPTY.value
    for states, types, is_there in (
        ((), (), True),
        ((stable,), (CLASSIC,), True),
        ((empty,), (), False),
        ((), ("share",), False),
    ):
        listed = examiner.ask(cluster, at, ListGroupsRequest(states, types))
        assert isinstance(listed, ListGroupsResponse)
        own = [(one.protocol_type, one.state) for one in listed.groups if one.group_id == GROUP]
        examiner.expect(f"groups of states {states} and types {types}", own, [(_TYPE, stable)] if is_there else [])


def _fetch(examiner: Examiner, cluster: SimulatedCluster, at: int, *partitions: tuple[str, int]) -> list[FetchedOffset]:
    """The committed offsets of these partitions, or of all that have one."""
    request = OffsetFetchRequest((OffsetFetchGroup(GROUP, partitions or None),), require_stable=True)
    response = examiner.ask(cluster, at, request)
    assert isinstance(response, OffsetFetchResponse)
    return sorted(response.groups[0].partitions)


def _commit(examiner: Examiner, cluster: SimulatedCluster, at: int, generation: int, member: _Joined) -> None:
    """Several offsets at once, of which impossible ones are refused alone."""
    impossible = (
        OffsetCommitPartition(PLAIN, 99, 1),
        OffsetCommitPartition(PLAIN, 0, 9, metadata=_METADATA_TOO_LONG),
    )
    by = (GROUP, generation, member.member_id)
    instance = member.offer.instance_id
    wrong = OffsetCommitRequest(*by, impossible, instance)
    refused = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    examiner.errors(cluster, at, "impossible offsets", wrong, *refused)
    both = OffsetCommitRequest(*by, (*_COMMITTED, impossible[0]), instance)
    answer = (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    examiner.errors(cluster, at, "offsets, one of them impossible", both, *answer)
    stored = [FetchedOffset(one.topic, one.partition, one.offset, one.leader_epoch, one.metadata) for one in _COMMITTED]

    def committed() -> None:
        examiner.expect("all committed offsets", _fetch(examiner, cluster, at), stored)
        none = FetchedOffset(PLAIN, 7, -1)
        examiner.expect("two offsets", _fetch(examiner, cluster, at, (PLAIN, 1), (PLAIN, 7)), [stored[1], none])

    examiner.soon(cluster, committed)


def _leave(examiner: Examiner, cluster: SimulatedCluster, at: int, members: list[_Joined]) -> None:
    """All leave, each by its id or its instance, beside one that never was there."""
    leaving = [LeavingMember("" if one.offer.instance_id else one.member_id, one.offer.instance_id) for one in members]
    request = LeaveGroupRequest(GROUP, (LeavingMember("nobody"), *leaving))
    response = examiner.ask(cluster, at, request)
    assert isinstance(response, LeaveGroupResponse)
    errors = [one.error_code for one in response.members]
    expected = [ErrorCode.UNKNOWN_MEMBER_ID, *(ErrorCode.NONE for _ in members)]
    examiner.expect("members that leave", (response.error_code, errors), (ErrorCode.NONE, expected))

    def is_empty() -> None:
        group = _describe(examiner, cluster, at)
        examiner.expect("a group that all have left", (group.state, group.members), (GroupState.EMPTY.value, ()))

    examiner.soon(cluster, is_empty)


def _forget(examiner: Examiner, cluster: SimulatedCluster, at: int) -> None:
    """Without members anybody may commit; offsets are deleted one by one, and the group at last."""
    alone = OffsetCommitRequest(GROUP, -1, "", (OffsetCommitPartition(PLAIN, 0, 4, metadata="alone"),))
    examiner.errors(cluster, at, "a commit without a member", alone, ErrorCode.NONE)
    deletion = OffsetDeleteRequest(GROUP, ((PLAIN, 1), (PLAIN, 7)))
    examiner.errors(cluster, at, "deletion of two offsets", deletion, ErrorCode.NONE, ErrorCode.NONE)

    def is_left() -> None:
        left = [FetchedOffset(PLAIN, 0, 4, -1, "alone")]
        examiner.expect("the offset that is left", _fetch(examiner, cluster, at), left)

    examiner.soon(cluster, is_left)
    examiner.errors(cluster, at, "deletion of the group", DeleteGroupsRequest((GROUP,)), ErrorCode.NONE)

    def is_gone() -> None:
        group = _describe(examiner, cluster, at)
        examiner.expect("a group that is deleted", group.error_code, ErrorCode.GROUP_ID_NOT_FOUND)
        listed = examiner.ask(cluster, at, ListGroupsRequest())
        assert isinstance(listed, ListGroupsResponse)
        examiner.expect("groups that are deleted", [one for one in listed.groups if one.group_id == GROUP], [])
        examiner.expect("offsets of a deleted group", _fetch(examiner, cluster, at), [])

    examiner.soon(cluster, is_gone)
