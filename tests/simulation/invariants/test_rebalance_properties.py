"""Coordinators that remove whom they hear from, or begin too soon or too late, break P-50 to P-53 and V-26."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker.core.broker_node.groups import offsets, rebalancing
from broker.core.broker_node.groups.records import OffsetKey
from broker.core.broker_node.groups.state import AssignmentWrite, Group, GroupState, Member, Shard, Write
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    CommittedPartition,
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from broker.core.ports.events import Event, Reply, RequestReceived, TimerFired
from simulation.engine.event_queue import MS
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.groups import checks, rebalances
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.scenario.configuration import SimulatedFault
from simulation.workload.members import INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, UNSTABLE
from tests.simulation.invariants.planting import broken_by, observe

LONG = {"duration_ms": 40_000, "partitions": 2, "group_members": 3}
PAUSED = tuple(SimulatedFault(6_000 + 9_000 * node, "pause", node, 5_000, 0) for node in range(3))
"""Each broker stands still for longer than a session, so that it finds heartbeats and timers in its queue."""


HELD_UP = tuple(SimulatedFault(5_000 + 2_500 * number, "pause", number % 3, 1_400, 0) for number in range(13))
"""A follower stands still again and again, so that commits wait for it."""


def broken(seeds: range = range(4), faults: Sequence[SimulatedFault] = PAUSED) -> set[str | None]:
    return {observe(faults=faults, seed=seed, **LONG).failed_property for seed in seeds}


def test_coordinators_that_stand_still_remove_nobody_from_whom_they_have_heard() -> None:
    assert broken() == {None}


def test_coordinators_that_tell_the_truth_about_commits_break_nothing() -> None:
    outcomes = [observe(faults=HELD_UP, seed=seed, **LONG) for seed in range(6)]
    assert {outcome.failure for outcome in outcomes} == {None}
    assert any(outcome.marks.get(UNSTABLE.name) for outcome in outcomes)


def test_sessions_that_are_too_short_break_p_50(monkeypatch: pytest.MonkeyPatch) -> None:
    def expect(broker: Any, group: Group, member: Member) -> None:
        broker.runtime.set_timer(rebalancing._timer(rebalancing.SESSION, group, member.member_id), SESSION_MS // 2)

    monkeypatch.setattr(rebalancing, "expect_heartbeat", expect)
    assert "P-50" in broken()


def test_a_rebalance_that_waits_for_nobody_breaks_p_50(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Group, "has_all_joined", property(lambda _group: True))
    assert broken(range(1)) == {"P-50"}


def test_a_first_generation_that_waits_for_no_more_members_breaks_p_51(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = rebalancing.join_timer_fired

    def fired(broker: Any, shard: Any, group: Group) -> None:
        group.initial_delay_left_ms = 0
        honest(broker, shard, group)

    monkeypatch.setattr(rebalancing, "join_timer_fired", fired)
    assert "P-51" in broken()


def test_a_protocol_that_few_members_want_breaks_p_52(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Group, "choose_protocol", lambda group: next(iter(group.members.values())).protocols[-1][0])
    assert "P-52" in broken()


def test_a_coordinator_that_says_nothing_of_commits_that_are_under_way_breaks_p_53(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = offsets.fetch

    def fetch(shard: Any, asked: Any, *, require_stable: bool) -> Any:
        return honest(shard, asked, require_stable=False)

    monkeypatch.setattr(offsets, "fetch", fetch)
    assert "P-53" in broken(range(6), HELD_UP)


@pytest.mark.parametrize(
    ("error", "wanted", "breaks"),
    [
        (ErrorCode.UNSTABLE_OFFSET_COMMIT, True, None),
        (ErrorCode.NONE, False, None),
        (ErrorCode.UNSTABLE_OFFSET_COMMIT, False, "P-53"),
        (ErrorCode.NONE, True, "P-53"),
    ],
)
def test_an_answer_about_stable_offsets(error: ErrorCode, wanted: bool, breaks: str | None) -> None:
    where = Ghost("__consumer_offsets", 0), ReplicaMirror(1)
    key = OffsetKey("group", "log", 0)
    assert broken_by(lambda: checks._check_stable(*where, key, error, wanted=wanted)) == breaks


def test_a_rebalance_that_goes_on_when_all_have_joined_breaks_v_26(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "complete_join_if_all_joined", lambda _broker, _shard, _group: None)
    assert broken(range(1)) == {"V-26"}


def test_members_that_are_not_told_of_another_rebalance_break_v_26(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "_cancel_assignment", lambda _broker, _group, _error: None)
    assert "V-26" in broken()


def test_a_first_generation_that_waits_for_ever_breaks_v_26(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = rebalancing.rebalance

    def rebalance(broker: Any, shard: Any, group: Group, reason: str) -> None:
        was_empty = group.state is GroupState.EMPTY
        honest(broker, shard, group, reason)
        if was_empty:
            broker.runtime.set_timer(rebalancing._timer(rebalancing.JOIN, group), 60_000)

    monkeypatch.setattr(rebalancing, "rebalance", rebalance)
    assert broken(range(1)) == {"V-26"}


# --- what a step may do -----------------------------------------------------------------------------------------------


class Watched:
    """A coordinator with one group of two members, whose steps are made by hand."""

    def __init__(self, known: Knowledge, state: GroupState = GroupState.STABLE) -> None:
        self.known, self.broker, self.request = known, known.brokers[1], 0
        self.group = Group("group", GroupState.EMPTY, "consumer")
        self.members = [Member(name, None, name, SESSION_MS, REBALANCE_MS, (("consumer", b""),)) for name in ("a", "b")]
        self.step()
        for member in self.members:
            self.group.members[member.member_id] = member
        self.become(state)

    def step(self, event: Event = TimerFired("any"), *effects: Reply) -> None:  # noqa: B008
        class Coordinator:
            shards = {0: type("Shard", (), {"groups": {"group": self.group}})}

        rebalances.stepped(self.known, self.broker, type("State", (), {"coordinator": Coordinator}), event, effects)  # type: ignore[arg-type]

    def become(self, state: GroupState) -> None:
        self.group.state = state
        self.step()

    def later(self, ms: int) -> None:
        self.known.cluster.now_us += ms * MS

    def heartbeat(self, name: str) -> None:
        self.request += 1
        asked = RequestReceived(self.request, 1, HeartbeatRequest("group", 1, name))
        self.step(asked, Reply(self.request, HeartbeatResponse(0)))

    def commit(self, name: str, *, answered_after_ms: int, error: ErrorCode = ErrorCode.NONE) -> None:
        self.request += 1
        request = OffsetCommitRequest("group", 1, name, (OffsetCommitPartition("log", 0, 5),))
        checks.request_arrived(self.known, self.broker, RequestReceived(self.request, 1, request))
        self.later(answered_after_ms)
        answer = OffsetCommitResponse((CommittedPartition("log", 0, error),))
        self.step(TimerFired("any"), Reply(self.request, answer))

    def removed(self, event: Event = TimerFired("any")) -> str | None:  # noqa: B008
        del self.group.members["a"]
        return broken_by(lambda: self.step(event))


def test_a_member_may_be_removed_when_its_session_is_over(knowledge: Knowledge) -> None:
    watched = Watched(knowledge)
    watched.heartbeat("a")
    watched.later(SESSION_MS)
    assert watched.removed() is None


def test_a_member_may_not_be_removed_before_its_session_is_over(knowledge: Knowledge) -> None:
    watched = Watched(knowledge)
    watched.heartbeat("a")
    watched.later(SESSION_MS - 2)
    assert watched.removed() == "P-50"


@pytest.mark.parametrize(
    ("error", "later_ms", "breaks"),
    [
        (ErrorCode.NONE, SESSION_MS - 200, "P-50"),
        (ErrorCode.NONE, SESSION_MS - 100, None),  # the commit arrived a session ago
        (ErrorCode.ILLEGAL_GENERATION, SESSION_MS - 200, None),
    ],
)
def test_a_member_that_commits_has_been_heard_from(
    knowledge: Knowledge, error: ErrorCode, later_ms: int, breaks: str | None
) -> None:
    watched = Watched(knowledge)
    watched.heartbeat("a")
    watched.later(SESSION_MS // 2)
    watched.commit("a", answered_after_ms=100, error=error)
    watched.later(later_ms)
    assert watched.removed() == breaks


def test_a_member_that_leaves_may_be_removed(knowledge: Knowledge) -> None:
    watched = Watched(knowledge)
    watched.heartbeat("a")
    request = LeaveGroupRequest("group", (LeavingMember("a"),))
    assert watched.removed(RequestReceived(9, 1, request)) is None


def test_that_another_leaves_is_no_excuse(knowledge: Knowledge) -> None:
    watched = Watched(knowledge)
    watched.heartbeat("a")
    request = LeaveGroupRequest("group", (LeavingMember("b"),))
    assert watched.removed(RequestReceived(9, 1, request)) == "P-50"


@pytest.mark.parametrize(("waited_ms", "breaks"), [(REBALANCE_MS, None), (REBALANCE_MS - 2, "P-50")])
def test_a_member_that_does_not_join_in_time_may_be_removed(
    knowledge: Knowledge, waited_ms: int, breaks: str | None
) -> None:
    watched = Watched(knowledge)
    watched.become(GroupState.PREPARING_REBALANCE)
    watched.later(waited_ms)
    watched.heartbeat("a")
    assert watched.removed() == breaks


def test_a_member_that_has_joined_may_not_be_removed(knowledge: Knowledge) -> None:
    watched = Watched(knowledge)
    watched.members[0].waiting_join = 7
    watched.become(GroupState.PREPARING_REBALANCE)
    watched.later(REBALANCE_MS)
    assert watched.removed() == "P-50"


@pytest.mark.parametrize(("waited_ms", "breaks"), [(REBALANCE_MS, None), (REBALANCE_MS - 2, "P-50")])
def test_who_does_not_sync_is_given_time_from_the_generations_beginning_on(
    knowledge: Knowledge, waited_ms: int, breaks: str | None
) -> None:
    watched = Watched(knowledge)
    watched.group.pending_sync = {"a": None}
    watched.become(GroupState.COMPLETING_REBALANCE)
    watched.later(waited_ms - 10)
    watched.become(GroupState.STABLE)
    watched.later(10)
    watched.heartbeat("a")
    assert watched.removed() == breaks


@pytest.mark.parametrize(("names", "breaks"), [({"a": None}, None), ({"b": None}, "P-50")])
def test_a_member_that_does_not_ask_for_its_assignment_may_be_removed(
    knowledge: Knowledge, names: dict[str, None], breaks: str | None
) -> None:
    watched = Watched(knowledge)
    watched.group.pending_sync = names
    watched.step()
    watched.later(REBALANCE_MS)
    watched.heartbeat("a")
    assert watched.removed() == breaks


@pytest.mark.parametrize(
    ("waited_ms", "breaks"), [(INITIAL_DELAY_MS, None), (INITIAL_DELAY_MS - 2, "P-51"), (REBALANCE_MS, None)]
)
def test_a_first_generation_waits_for_the_delay(knowledge: Knowledge, waited_ms: int, breaks: str | None) -> None:
    watched = Watched(knowledge, GroupState.PREPARING_REBALANCE)
    watched.later(waited_ms)
    watched.group.protocol = "consumer"
    assert broken_by(lambda: watched.become(GroupState.COMPLETING_REBALANCE)) == breaks


def test_a_group_that_was_not_empty_need_not_wait(knowledge: Knowledge) -> None:
    watched = Watched(knowledge)
    watched.become(GroupState.PREPARING_REBALANCE)
    watched.group.protocol = "consumer"
    assert broken_by(lambda: watched.become(GroupState.COMPLETING_REBALANCE)) is None


@pytest.mark.parametrize(
    ("sent", "stored", "broken"),
    [
        (False, (), None),
        (True, (AssignmentWrite("group", 1, ()),), None),
        (True, (AssignmentWrite("group", 0, ()),), "V-26"),
        (True, (), "V-26"),
    ],
)
def test_members_wait_for_their_leader_or_for_the_log(
    sent: bool, stored: tuple[AssignmentWrite, ...], broken: str | None
) -> None:
    group = Group("group", GroupState.COMPLETING_REBALANCE, "consumer", generation=1, leader="a")
    group.members["a"] = Member("a", None, "a", SESSION_MS, REBALANCE_MS, (("consumer", b""),))
    group.members["a"].waiting_sync = 7 if sent else None
    shard = Shard(0, 1, None, writes={offset: Write(purpose) for offset, purpose in enumerate(stored)})
    assert broken_by(lambda: rebalances._check_assignment(BrokerMirror(1), shard, group)) == broken


@pytest.mark.parametrize("waits", ["waiting_join", "waiting_sync"])
@pytest.mark.parametrize("state", list(GroupState))
def test_members_wait_only_for_what_comes(waits: str, state: GroupState) -> None:
    group = Group("group", state, "consumer", generation=1, leader="a")
    group.members["a"] = Member("a", None, "a", SESSION_MS, REBALANCE_MS, (("consumer", b""),))
    assert broken_by(lambda: rebalances._check_waiting(BrokerMirror(1), group)) is None
    setattr(group.members["a"], waits, 7)
    comes = GroupState.PREPARING_REBALANCE if waits == "waiting_join" else GroupState.COMPLETING_REBALANCE
    assert broken_by(lambda: rebalances._check_waiting(BrokerMirror(1), group)) == (None if state is comes else "V-26")


@pytest.mark.parametrize("missing", ["nobody", "a member", "a member that has only an id"])
def test_a_rebalance_for_which_somebody_is_missing_goes_on(knowledge: Knowledge, missing: str) -> None:
    watched = Watched(knowledge)
    for member in watched.members:
        member.waiting_join = 7
    if missing == "a member":
        watched.members[0].waiting_join = None
    elif missing != "nobody":
        watched.group.pending_members["c"] = None
    watched.become(GroupState.PREPARING_REBALANCE)
    assert broken_by(watched.step) == ("V-26" if missing == "nobody" else None)
