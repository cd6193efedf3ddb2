"""Rebalances groups: collects joins, begins the generation, stores the assignment, expires missing members.

| timer | after | effect |
|---|---|---|
| session | a member's session timeout without heartbeat | the member is removed |
| pending | a member's session timeout without its second JoinGroup | the member id is forgotten |
| join | the initial delay, or the rebalance timeout | the generation begins without the missing members |
| sync | the rebalance timeout after that | members that have not asked for their assignment are removed |
"""

from __future__ import annotations

from collections.abc import Hashable

from broker.core.broker_node.groups import writing
from broker.core.broker_node.groups.records import GroupKey, encode_group
from broker.core.broker_node.groups.state import TIMER, AssignmentWrite, EmptyWrite, Group, GroupState, Member, Shard
from broker.core.broker_node.state import BrokerState
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import JoinedMember, JoinGroupResponse, SyncGroupResponse

SESSION = "session"
PENDING = "pending"
JOIN = "join"
SYNC = "sync"

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""A new member sends no heartbeats while it waits; it is removed after this time (Kafka's value)."""


# --- members ---------------------------------------------------------------------------------------------------------


def add_member(broker: BrokerState, shard: Shard, group: Group, member: Member, protocol_type: str) -> None:
    """Add a new member, which waits for the generation that its join causes."""
    shard.groups[group.group_id] = group
    if not group.members:
        group.protocol_type = protocol_type
    group.members[member.member_id] = member
    if member.instance_id is not None:
        group.static_members[member.instance_id] = member.member_id
    if group.leader is None:
        group.leader = member.member_id
    if group.state is GroupState.PREPARING_REBALANCE and group.in_initial_delay:
        group.member_added = True
    member.is_new = True
    broker.runtime.set_timer(_timer(SESSION, group, member.member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance(broker, shard, group, f"member {member.member_id} joins")


def await_second_join(broker: BrokerState, shard: Shard, group: Group, member_id: str, timeout_ms: int) -> None:
    """KIP-394: the member id is assigned; it counts once the client joins with it."""
    shard.groups[group.group_id] = group
    group.pending_members[member_id] = None
    broker.runtime.set_timer(_timer(PENDING, group, member_id), timeout_ms)


def forget_pending(broker: BrokerState, group: Group, member_id: str) -> None:
    """The client has joined with its member id, or never will."""
    group.pending_members.pop(member_id, None)
    broker.runtime.cancel_timer(_timer(PENDING, group, member_id))


def remove_member(broker: BrokerState, shard: Shard, group: Group, member: Member, reason: str) -> None:
    """Remove a member; the others share its partitions."""
    _detach(broker, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        rebalance(broker, shard, group, reason)
    else:
        complete_join_if_all_joined(broker, shard, group)


def replace_member(broker: BrokerState, group: Group, member: Member, new_member_id: str) -> None:
    """KIP-345: a static member continues under a new member id; requests with the old one are fenced."""
    old_member_id = member.member_id
    _answer_waiting(broker, group, member, ErrorCode.FENCED_INSTANCE_ID)
    broker.runtime.cancel_timer(_timer(SESSION, group, old_member_id))
    member.member_id = new_member_id
    group.members = {each.member_id: each for each in group.members.values()}
    if old_member_id in group.pending_sync:
        del group.pending_sync[old_member_id]
        group.pending_sync[new_member_id] = None
    if member.instance_id is not None:
        group.static_members[member.instance_id] = new_member_id
    if group.leader == old_member_id:
        group.leader = new_member_id


def expect_heartbeat(broker: BrokerState, group: Group, member: Member) -> None:
    """Restart a member's session."""
    broker.runtime.set_timer(_timer(SESSION, group, member.member_id), member.session_timeout_ms)


def session_expired(broker: BrokerState, shard: Shard, group: Group, member_id: str) -> None:
    """A session timed out; ignored while the member waits for a response."""
    member = group.members.get(member_id)
    if member is None or (not member.is_new and (member.waiting_join is not None or member.waiting_sync is not None)):
        return
    broker.runtime.log("info", f"group {group.group_id}: member {member_id} sent no heartbeat in time")
    remove_member(broker, shard, group, member, f"member {member_id} sent no heartbeat in time")


def pending_expired(broker: BrokerState, shard: Shard, group: Group, member_id: str) -> None:
    """The client has not joined with its member id in time."""
    group.pending_members.pop(member_id, None)
    complete_join_if_all_joined(broker, shard, group)
    if group.is_void:
        del shard.groups[group.group_id]


def _detach(broker: BrokerState, group: Group, member: Member, error: ErrorCode) -> None:
    _answer_waiting(broker, group, member, error)
    broker.runtime.cancel_timer(_timer(SESSION, group, member.member_id))
    del group.members[member.member_id]
    group.pending_sync.pop(member.member_id, None)
    if member.instance_id is not None:
        group.static_members.pop(member.instance_id, None)
    if group.leader == member.member_id:
        group.leader = next(iter(group.members), None)


def _answer_waiting(broker: BrokerState, group: Group, member: Member, error: ErrorCode) -> None:
    if member.waiting_join is not None:
        broker.runtime.reply(member.waiting_join, JoinGroupResponse(error, member_id=member.member_id))
        member.waiting_join = None
    answer_sync(broker, group, member, error)


def answer_sync(broker: BrokerState, group: Group, member: Member, error: ErrorCode = ErrorCode.NONE) -> None:
    """Answer a member's waiting SyncGroup, if it has one."""
    if member.waiting_sync is None:
        return
    answer = SyncGroupResponse(error)
    if error == ErrorCode.NONE:
        answer = SyncGroupResponse(error, group.protocol_type, group.protocol, member.assignment)
    broker.runtime.reply(member.waiting_sync, answer)
    member.waiting_sync = None


# --- joining ---------------------------------------------------------------------------------------------------------


def rebalance(broker: BrokerState, shard: Shard, group: Group, reason: str) -> None:
    """Begin a rebalance; if one is in progress, check whether it is complete."""
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_all_joined(broker, shard, group)
        return
    if group.state is GroupState.COMPLETING_REBALANCE:
        _cancel_assignment(broker, group, ErrorCode.REBALANCE_IN_PROGRESS)
    broker.runtime.log("info", f"group {group.group_id} rebalances after generation {group.generation}: {reason}")
    delay_ms = broker.settings.group_initial_rebalance_delay_ms
    group.in_initial_delay = group.state is GroupState.EMPTY and delay_ms > 0
    group.state = GroupState.PREPARING_REBALANCE
    if group.in_initial_delay:
        group.member_added = False
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        broker.runtime.set_timer(_timer(JOIN, group), delay_ms)
    else:
        broker.runtime.set_timer(_timer(JOIN, group), group.rebalance_timeout_ms)
        complete_join_if_all_joined(broker, shard, group)


def complete_join_if_all_joined(broker: BrokerState, shard: Shard, group: Group) -> None:
    """Begin the generation if no member is missing."""
    if group.state is GroupState.PREPARING_REBALANCE and not group.in_initial_delay and group.has_all_joined:
        _complete_join(broker, shard, group)


def join_timer_fired(broker: BrokerState, shard: Shard, group: Group) -> None:
    """The initial delay is extended while members join; the rebalance timeout is not (KIP-134)."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.in_initial_delay and group.member_added and group.initial_delay_left_ms > 0:
        delay_ms = min(broker.settings.group_initial_rebalance_delay_ms, group.initial_delay_left_ms)
        group.initial_delay_left_ms -= delay_ms
        group.member_added = False
        broker.runtime.set_timer(_timer(JOIN, group), delay_ms)
        return
    group.in_initial_delay = False
    _complete_join(broker, shard, group)


def _complete_join(broker: BrokerState, shard: Shard, group: Group) -> None:
    for member in [m for m in group.members.values() if m.waiting_join is None and m.instance_id is None]:
        broker.runtime.log("info", f"group {group.group_id}: member {member.member_id} did not join again")
        _detach(broker, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
    joined = [member for member in group.members.values() if member.waiting_join is not None]
    if group.members and not joined:  # static members only, which may be away for a session timeout
        broker.runtime.set_timer(_timer(JOIN, group), group.rebalance_timeout_ms)
        return
    broker.runtime.cancel_timer(_timer(JOIN, group))
    group.generation += 1
    if not group.members:
        _become_empty(broker, shard, group)
        return
    if group.leader not in {member.member_id for member in joined}:
        group.leader = joined[0].member_id
    group.protocol = group.choose_protocol()
    group.state = GroupState.COMPLETING_REBALANCE
    group.pending_sync = dict.fromkeys(group.members)
    broker.runtime.log(
        "info", f"group {group.group_id}: generation {group.generation} has {len(group.members)} members"
    )
    for member in joined:
        answer_join(broker, group, member)
        member.is_new = False
    broker.runtime.set_timer(_timer(SYNC, group), group.rebalance_timeout_ms)


def answer_join(broker: BrokerState, group: Group, member: Member) -> None:
    """Answer a member's JoinGroup with the generation, and restart its session; the leader gets the member list too."""
    assert member.waiting_join is not None
    everyone = tuple(
        JoinedMember(each.member_id, each.instance_id, each.metadata_for(group.protocol))
        for each in group.members.values()
    )
    broker.runtime.reply(
        member.waiting_join,
        JoinGroupResponse(
            ErrorCode.NONE,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader or "",
            member.member_id,
            everyone if group.leader == member.member_id else (),
        ),
    )
    member.waiting_join = None
    expect_heartbeat(broker, group, member)


def _become_empty(broker: BrokerState, shard: Shard, group: Group) -> None:
    group.state = GroupState.EMPTY
    group.empty_since_ms = broker.runtime.wall_clock_ms
    group.protocol = group.leader = None
    group.pending_sync = {}
    broker.runtime.log("info", f"group {group.group_id} is empty with generation {group.generation}")
    record = (GroupKey(group.group_id), encode_group(group.stored({}, broker.runtime.wall_clock_ms)))
    error = writing.append(broker, shard, [record], EmptyWrite(group.group_id, group.generation))
    if error != ErrorCode.NONE:  # the next coordinator will load the last members and expire them
        broker.runtime.log("warning", f"group {group.group_id}: not recorded as empty: {error.name}")


# --- assigning -------------------------------------------------------------------------------------------------------


def store_assignment(broker: BrokerState, shard: Shard, group: Group, assigned: dict[str, bytes]) -> None:
    """Store the leader's assignment; members receive it once it is replicated."""
    record = (GroupKey(group.group_id), encode_group(group.stored(assigned, broker.runtime.wall_clock_ms)))
    assignments = tuple((member_id, assigned.get(member_id, b"")) for member_id in group.members)
    write = AssignmentWrite(group.group_id, group.generation, assignments)
    error = writing.append(broker, shard, [record], write)
    if error != ErrorCode.NONE:
        assignment_failed(broker, shard, group, write, error)


def assigned(broker: BrokerState, group: Group, write: AssignmentWrite) -> None:
    """The assignment is replicated: the group is stable."""
    if not _is_current(group, write):
        return
    group.state = GroupState.STABLE
    for member_id, assignment in write.assignments:
        member = group.members[member_id]
        member.assignment = assignment
        if member.waiting_sync is not None:
            answer_sync(broker, group, member)
            expect_heartbeat(broker, group, member)


def assignment_failed(
    broker: BrokerState, shard: Shard, group: Group, write: AssignmentWrite, error: ErrorCode
) -> None:
    """The assignment's replication is uncertain: a new generation makes its outcome irrelevant."""
    if _is_current(group, write):
        _cancel_assignment(broker, group, error)
        rebalance(broker, shard, group, f"the assignment could not be stored ({error.name})")


def sync_timer_fired(broker: BrokerState, shard: Shard, group: Group) -> None:
    """KAFKA-13417: remove members that joined and did not send SyncGroup."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
        return
    for member_id in list(group.pending_sync):
        broker.runtime.log("info", f"group {group.group_id}: member {member_id} did not sync in time")
        _detach(broker, group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
    rebalance(broker, shard, group, "members did not sync in time")


def _is_current(group: Group, write: AssignmentWrite) -> bool:
    return group.state is GroupState.COMPLETING_REBALANCE and group.generation == write.generation


def _cancel_assignment(broker: BrokerState, group: Group, error: ErrorCode) -> None:
    broker.runtime.cancel_timer(_timer(SYNC, group))
    group.pending_sync = {}
    for member in group.members.values():
        member.assignment = b""
        if member.waiting_sync is not None:
            answer_sync(broker, group, member, error)
            expect_heartbeat(broker, group, member)


def abandon(broker: BrokerState, group: Group) -> None:
    """This broker is no longer the coordinator: answer all waiting members."""
    for name in (JOIN, SYNC):
        broker.runtime.cancel_timer(_timer(name, group))
    for member_id in group.pending_members:
        broker.runtime.cancel_timer(_timer(PENDING, group, member_id))
    for member in group.members.values():
        _answer_waiting(broker, group, member, ErrorCode.NOT_COORDINATOR)
        broker.runtime.cancel_timer(_timer(SESSION, group, member.member_id))


def _timer(name: str, group: Group, member_id: str = "") -> Hashable:
    return (TIMER, name, group.group_id, member_id)
