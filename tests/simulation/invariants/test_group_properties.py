"""Coordinators that forget, invent or let pass what they must not break P-G1 to P-G4; groups that stay torn, V-11."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from broker.core.broker_node.groups import loading, members, offsets, rebalancing, writing
from broker.core.broker_node.groups.records import GroupKey, OffsetKey, StoredOffset
from broker.core.broker_node.groups.state import DeletionWrite, Group, OffsetsWrite, Shard, Write
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    CommittedPartition,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
)
from broker.core.ports.events import RequestReceived
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants import intervals
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.groups import checks
from simulation.invariants.groups.ghost import Commit, GroupGhost
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.observer import PropertyObserver
from simulation.invariants.properties import Violation
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.scenario.scenario import settings_of
from simulation.workload.members import IN_DOUBT, LEFT_BEHIND, MOVED, TAKEN_OVER
from tests.simulation.invariants.planting import observe

SHAKEN = tuple(SimulatedFault(at_ms, "kill", node, 3_000, 0) for node, at_ms in enumerate((5_000, 9_000, 13_000)))
"""Each broker is gone for a while, so that every one coordinates the group at some time."""

LONG = {"duration_ms": 40_000, "partitions": 2, "group_members": 3}


def broken(seeds: Iterable[int] = range(3)) -> set[str | None]:
    """The properties that some seeds break."""
    return {observe(faults=SHAKEN, seed=seed, **LONG).failed_property for seed in seeds}


def is_broken(property_id: str, seeds: Iterable[int]) -> bool:
    """Whether one of some seeds breaks a property."""
    return any(property_id in broken((seed,)) for seed in seeds)


@pytest.mark.parametrize("static", [False, True])
def test_a_group_keeps_its_promises_while_its_coordinators_are_killed(static: bool) -> None:
    outcomes = [observe(faults=SHAKEN, seed=seed, **LONG, static_members=static) for seed in range(3)]
    assert {outcome.failure for outcome in outcomes} == {None}
    for mark in (LEFT_BEHIND, TAKEN_OVER, MOVED, IN_DOUBT):
        assert any(outcome.marks.get(mark.name) for outcome in outcomes), mark.name
    assert all(row.generation > 1 for row in last_ownerships(outcomes[0]))


def last_ownerships(outcome: SimulationOutcome) -> list[Any]:
    rows = outcome.history.ownerships
    return [row for row in rows if row.generation == max(each.generation for each in rows)]


def test_a_commit_that_is_acknowledged_before_it_is_replicated_breaks_p_g1(monkeypatch: pytest.MonkeyPatch) -> None:
    take_replicated = writing.take_replicated

    def at_once(broker: Any, shard: Shard, replica: Any) -> Iterator[tuple[Write, ErrorCode]]:
        for required, write in list(shard.writes.items()):
            if isinstance(write.purpose, OffsetsWrite):
                yield shard.writes.pop(required), ErrorCode.NONE
        yield from take_replicated(broker, shard, replica)

    monkeypatch.setattr(writing, "take_replicated", at_once)
    assert broken() == {"P-G1"}


def test_a_coordinator_that_does_not_apply_commits_breaks_p_g1(monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(shard: Shard, write: OffsetsWrite) -> None:
        """Only the first commit of a group counts."""
        group = shard.groups.setdefault(write.group_id, Group(write.group_id))
        for key, stored in write.offsets:
            if stored is not None:
                group.offsets.setdefault(key, stored)

    monkeypatch.setattr(offsets, "apply", apply)
    assert broken() == {"P-G1"}


def test_a_coordinator_that_answers_before_it_has_loaded_breaks_p_g1(monkeypatch: pytest.MonkeyPatch) -> None:
    def go_on(broker: Any, shard: Shard, replica: Any) -> None:
        shard.load_from = None

    monkeypatch.setattr(loading, "go_on", go_on)
    monkeypatch.setattr(intervals, "_check_planned", lambda *_: None)  # it plans nothing either
    assert broken() & {"P-G1", "P-G2"}


def test_a_coordinator_that_begins_again_with_old_generations_breaks_p_g2(monkeypatch: pytest.MonkeyPatch) -> None:
    restored = loading._restored

    def older(group_id: str, stored: Any, before: Group) -> Group:
        return restored(group_id, stored._replace(generation=stored.generation - 2), before)

    monkeypatch.setattr(loading, "_restored", older)
    assert is_broken("P-G2", range(4))


@pytest.mark.parametrize("kept", [GroupKey, OffsetKey])
def test_a_group_that_is_called_deleted_and_is_stored_breaks_p_g2(monkeypatch: pytest.MonkeyPatch, kept: type) -> None:
    honest = writing.append

    def append(broker: Any, shard: Any, records: Any, write: Any) -> Any:
        left = [(key, value) for key, value in records if value is not None or not isinstance(key, kept)]
        return honest(broker, shard, left if isinstance(write, DeletionWrite) else records, write)

    monkeypatch.setattr(writing, "append", append)
    assert "P-G2" in {
        one.property_id for seed in range(1, 9) for one in simulate(seed, {"search": "mixed"}, observed=True).findings
    }


def test_an_assignment_that_is_not_the_leaders_breaks_p_g3(monkeypatch: pytest.MonkeyPatch) -> None:
    store = rebalancing.store_assignment

    def everything_to_everyone(broker: Any, shard: Shard, group: Group, assigned: dict[str, bytes]) -> None:
        store(broker, shard, group, dict.fromkeys(assigned, bytes((0, 1))))

    monkeypatch.setattr(rebalancing, "store_assignment", everything_to_everyone)
    assert broken() == {"P-G3"}


def test_an_answer_that_is_not_the_stored_assignment_breaks_p_g3(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(broker: Any, group: Group, write: Any) -> None:
        names = [name for name, _ in write.assignments]
        parts = [part for _, part in write.assignments]
        assigned(broker, group, write._replace(assignments=tuple(zip(names, parts[::-1], strict=True))))

    assigned = rebalancing.assigned
    monkeypatch.setattr(rebalancing, "assigned", swapped)
    assert broken() == {"P-G3"}


def test_a_commit_of_an_old_generation_that_is_stored_breaks_p_g4(monkeypatch: pytest.MonkeyPatch) -> None:
    def known_member(group: Group | None, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        if group is None or member_id not in group.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation <= group.generation else ErrorCode.ILLEGAL_GENERATION

    monkeypatch.setattr(members, "check_generation", known_member)
    monkeypatch.setattr(offsets, "check_generation", known_member)
    assert is_broken("P-G4", range(100, 110))


def test_a_commit_of_a_member_that_was_removed_breaks_p_g4(monkeypatch: pytest.MonkeyPatch) -> None:
    def anyone(group: Group | None, request: OffsetCommitRequest) -> ErrorCode:
        return ErrorCode.ILLEGAL_GENERATION if group is None else ErrorCode.NONE

    monkeypatch.setattr(offsets, "_refuse_commit", anyone)
    assert is_broken("P-G4", range(12))


def test_a_group_whose_dead_members_are_waited_for_forever_breaks_v_11(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = rebalancing.join_timer_fired

    def only_if_nobody_is_missing(broker: Any, shard: Shard, group: Group) -> None:
        if group.has_all_joined:
            honest(broker, shard, group)

    monkeypatch.setattr(rebalancing, "join_timer_fired", only_if_nobody_is_missing)
    monkeypatch.setattr(rebalancing, "session_expired", lambda *_arguments: None)
    assert broken((0,)) == {"V-11"}


@pytest.mark.parametrize("is_known_to_have_ended", [False, True])
def test_what_a_broker_was_asked_in_the_step_that_ended_it_counts(is_known_to_have_ended: bool) -> None:
    """It may have written that to its log before."""
    cluster = SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration()))
    observer = PropertyObserver()
    if is_known_to_have_ended:
        observer.crashed(cluster, 1, -1)
    request = SyncGroupRequest("readers", 4, "a", (("a", b"all"),))
    observer.after(cluster, EventStep(1, RequestReceived(7, 1, request), ()))
    assert observer.known.asked.assignments == {("readers", 4): [{"a": b"all"}]}
    assert observer.known.brokers[1].group_requests == {}


@pytest.mark.parametrize(("arrives_after_it_left", "found"), [(False, None), (True, "P-G4")])
def test_a_commit_breaks_p_g4_only_if_it_arrived_after_its_member_had_left(
    arrives_after_it_left: bool, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that was stored before, and is replicated after, may be acknowledged then."""
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration())))
    ghost, mirror, broker = Ghost("__consumer_offsets", 0), ReplicaMirror(1), known.brokers[1]
    monkeypatch.setattr(checks, "_coordinated", lambda *_arguments: (ghost, mirror))
    key = OffsetKey("readers", "log", 0)
    known.asked.groups[0] = GroupGhost(commits={key: [Commit(0, key, StoredOffset(5, 0, "", 0))]})
    known.asked.joined["readers", 3, "a"] = True
    commit = OffsetCommitRequest("readers", 3, "a", (OffsetCommitPartition("log", 0, 5, 0, ""),))
    leave = LeaveGroupRequest("readers", (LeavingMember("a", None),))
    confirmed = LeaveGroupResponse(ErrorCode.NONE, (LeftMember("a", None, ErrorCode.NONE),))
    acknowledged = OffsetCommitResponse((CommittedPartition("log", 0, ErrorCode.NONE),))
    if not arrives_after_it_left:
        checks.request_arrived(known, broker, RequestReceived(7, 1, commit))
    checks.request_arrived(known, broker, RequestReceived(8, 2, leave))
    checks.answered(known, broker, 8, confirmed)
    if arrives_after_it_left:
        checks.request_arrived(known, broker, RequestReceived(7, 1, commit))
    failed = None
    try:
        checks.answered(known, broker, 7, acknowledged)
    except Violation as violation:
        failed = violation.property_id
    assert failed == found
