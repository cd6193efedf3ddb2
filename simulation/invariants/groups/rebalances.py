"""Checks how coordinators rebalance: whom they remove (P-50), when generations begin and get assignments (P-51, V-26),
and the vote (P-52).

A member is heard from when its coordinator answers it without an error, of a commit when that arrives (the answer waits
until it is replicated); what it sends beside that may be refused, and does not count. All is looked at in the
coordinator that runs, at each of its steps, and by its own clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.broker_node.groups.state import AssignmentWrite, Group, GroupState, Member, Shard
from broker.core.broker_node.state import BrokerState
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from broker.core.ports.events import Effect, Event, Reply, RequestReceived
from simulation.invariants.groups.ghost import SeenGroup
from simulation.invariants.intervals import READ_MS
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.properties import Violation


def stepped(
    known: Knowledge, broker: BrokerMirror, state: BrokerState, event: Event, effects: Sequence[Effect]
) -> None:
    """P-50, P-51, P-52 and V-26 after a step of a coordinator."""
    now_ms = known.clock_ms(broker.broker_id)
    for effect in effects:
        if effect.__class__ is Reply:
            assert isinstance(effect, Reply)
            _note_answer(broker, event, effect, now_ms)
    before, broker.groups_seen = broker.groups_seen, {}
    for shard in state.coordinator.shards.values():
        for group in shard.groups.values():
            seen = before.get(group.group_id)
            if seen is None or seen.group is not group:
                seen = SeenGroup(group, now_ms, from_empty=True)
            else:
                _check(known, broker, seen, event, now_ms)
            _check_assignment(broker, shard, group)
            _check_waiting(broker, group)
            _note(seen, now_ms)
            broker.groups_seen[group.group_id] = seen


def _note_answer(broker: BrokerMirror, event: Event, reply: Reply, now_ms: int) -> None:
    """Remember when a member was last answered without an error."""
    member_id = ""
    match reply.response:
        case JoinGroupResponse(error_code=ErrorCode.NONE):
            member_id = reply.response.member_id
        case SyncGroupResponse(error_code=ErrorCode.NONE):
            asked = broker.group_requests.get(reply.request_id)
            if asked is not None and isinstance(asked.request, SyncGroupRequest):
                member_id = asked.request.member_id
        case HeartbeatResponse(error_code=ErrorCode.NONE):
            if isinstance(event, RequestReceived) and isinstance(event.request, HeartbeatRequest):
                member_id = event.request.member_id
        case OffsetCommitResponse():
            _note_commit(broker, reply.request_id, reply.response)
    if member_id:
        broker.members_answered[member_id] = now_ms


def _note_commit(broker: BrokerMirror, request_id: int, response: OffsetCommitResponse) -> None:
    asked = broker.group_requests.get(request_id)
    if asked is None or not isinstance(asked.request, OffsetCommitRequest):
        return
    if any(part.error_code == ErrorCode.NONE for part in response.partitions):
        member_id = asked.request.member_id
        broker.members_answered[member_id] = max(asked.arrived_ms, broker.members_answered.get(member_id, 0))


def _note(seen: SeenGroup, now_ms: int) -> None:
    """Keep what the next step is compared with."""
    group = seen.group
    if group.state is not seen.state:
        seen.from_empty = seen.state is GroupState.EMPTY
        seen.state, seen.since_ms = group.state, now_ms
        if group.state is GroupState.COMPLETING_REBALANCE:
            seen.begun_ms = now_ms
    if any(all(member is not one for one, _ in seen.members) for member in group.members.values()):
        seen.added_ms = now_ms
    seen.members = [(member, member.waiting_join is not None) for member in group.members.values()]
    seen.not_synced = tuple(group.pending_sync)


def _check(known: Knowledge, broker: BrokerMirror, seen: SeenGroup, event: Event, now_ms: int) -> None:
    group = seen.group
    members = list(group.members.values())
    for member, joined in seen.members:
        if all(member is not one for one in members) and not _may_go(broker, seen, member, event, now_ms, joined):
            raise Violation(
                "P-50",
                f"broker {broker.broker_id} has removed member {member.member_id} of group {group.group_id}, which "
                f"{'had joined' if joined else 'it had heard from'}, {(now_ms - seen.since_ms)} ms after the "
                f"group had become {seen.state.value}",
            )
    begins = group.state is GroupState.COMPLETING_REBALANCE and seen.state is GroupState.PREPARING_REBALANCE
    if begins:
        _check_vote(broker, group)
        if seen.from_empty:
            _check_delay(known, broker, seen, now_ms)
    waits_for_more = seen.from_empty or seen.state is not GroupState.PREPARING_REBALANCE
    if group.state is GroupState.PREPARING_REBALANCE and not waits_for_more and _nobody_is_missing(group):
        raise Violation(
            "V-26",
            f"broker {broker.broker_id} does not begin a generation of group {group.group_id}, all of whose members "
            f"have joined: {[member.member_id for member in members]}",
        )


def _check_assignment(broker: BrokerMirror, shard: Shard, group: Group) -> None:
    """V-26: members wait for their leader, or while what it has assigned is being stored."""
    leader = group.members.get(group.leader or "")
    if group.state is not GroupState.COMPLETING_REBALANCE or leader is None or leader.waiting_sync is None:
        return
    stored = [one.purpose for one in shard.writes.values() if isinstance(one.purpose, AssignmentWrite)]
    if all((one.group_id, one.generation) != (group.group_id, group.generation) for one in stored):
        raise Violation(
            "V-26",
            f"broker {broker.broker_id} lets the members of generation {group.generation} of group {group.group_id} "
            "wait for their assignment, which it has, and is not storing",
        )


def _check_waiting(broker: BrokerMirror, group: Group) -> None:
    """V-26: who waits for a generation waits for one that is being prepared, who for an assignment for one to come."""
    for member in group.members.values():
        if member.waiting_join is not None and group.state is not GroupState.PREPARING_REBALANCE:
            what = "a generation"
        elif member.waiting_sync is not None and group.state is not GroupState.COMPLETING_REBALANCE:
            what = "its assignment"
        else:
            continue
        raise Violation(
            "V-26",
            f"broker {broker.broker_id} lets member {member.member_id} of group {group.group_id} wait for {what}, "
            f"which does not come while the group is {group.state.value}",
        )


def _nobody_is_missing(group: Group) -> bool:
    members = group.members.values()
    return bool(members) and not group.pending_members and all(one.waiting_join is not None for one in members)


def _may_go(broker: BrokerMirror, seen: SeenGroup, member: Member, event: Event, now_ms: int, joined: bool) -> bool:
    """Whether a member may be removed: it leaves, is silent for its session, or does not join or sync in time."""
    if isinstance(event, RequestReceived) and isinstance(event.request, LeaveGroupRequest):
        named = [(one.member_id, one.instance_id) for one in event.request.members]
        if any(name == member.member_id or (instance and instance == member.instance_id) for name, instance in named):
            return True
    if joined:
        return False
    patience_ms = min(one.rebalance_timeout_ms for one, _ in seen.members)
    not_joined = seen.state is GroupState.PREPARING_REBALANCE
    if not_joined or member.member_id in seen.not_synced:
        since_ms = seen.since_ms if not_joined else seen.begun_ms
        if now_ms - since_ms >= patience_ms - READ_MS:
            return True
    answered_ms = broker.members_answered.get(member.member_id)
    return answered_ms is None or now_ms - answered_ms >= member.session_timeout_ms - READ_MS


def _check_delay(known: Knowledge, broker: BrokerMirror, seen: SeenGroup, now_ms: int) -> None:
    """P-51: KIP-134."""
    group = seen.group
    delay_ms = known.settings.group_initial_rebalance_delay_ms
    longest_ms = min(member.rebalance_timeout_ms for member in group.members.values())
    if now_ms - seen.added_ms < delay_ms - READ_MS and now_ms - seen.since_ms < longest_ms - READ_MS:
        raise Violation(
            "P-51",
            f"broker {broker.broker_id} begins generation {group.generation} of group {group.group_id}, which was "
            f"empty, {(now_ms - seen.added_ms)} ms after its last member has come; it has to wait for more for "
            f"{delay_ms} ms",
        )


def _check_vote(broker: BrokerMirror, group: Group) -> None:
    """P-52: each member votes for the first of its protocols that all of them have."""
    offers = [[name for name, _ in member.protocols] for member in group.members.values()]
    common = set(offers[0]).intersection(*offers)
    votes = [next((name for name in offer if name in common), None) for offer in offers]
    chosen = group.protocol
    if chosen not in common or votes.count(chosen) < max(votes.count(name) for name in common):
        raise Violation(
            "P-52",
            f"broker {broker.broker_id} has chosen the protocol {chosen} for generation {group.generation} of group "
            f"{group.group_id}, whose members have {offers}",
        )
