"""Serves SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from broker.core.broker_node.groups import rebalancing
from broker.core.broker_node.groups.joining import check_member
from broker.core.broker_node.groups.state import Group, GroupState, Shard
from broker.core.broker_node.state import BrokerState
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
)


def sync(broker: BrokerState, shard: Shard, request_id: int, request: SyncGroupRequest) -> None:
    """Answer with the assignment once the group leader has made it and it is replicated."""
    group = shard.groups.get(request.group_id)
    error = check_generation(group, request.member_id, request.instance_id, request.generation_id)
    if group is not None and error == ErrorCode.NONE:
        error = _refuse_sync(group, request)
    if group is None or error != ErrorCode.NONE:
        broker.runtime.reply(request_id, SyncGroupResponse(error))
        return
    member = group.members[request.member_id]
    if member.waiting_sync is not None:  # its client has given up on the earlier request
        rebalancing.answer_sync(broker, group, member, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.pop(member.member_id, None)
    member.waiting_sync = request_id
    if group.state is GroupState.STABLE:
        rebalancing.answer_sync(broker, group, member)
        rebalancing.expect_heartbeat(broker, group, member)
    elif group.leader == member.member_id:
        rebalancing.store_assignment(broker, shard, group, dict(request.assignments))


def _refuse_sync(group: Group, request: SyncGroupRequest) -> ErrorCode:
    for asked, known in ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol)):
        if asked is not None and asked != known:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def heartbeat(broker: BrokerState, shard: Shard, request_id: int, request: HeartbeatRequest) -> None:
    """Handle a heartbeat; the response says whether the member has to rejoin."""
    group = shard.groups.get(request.group_id)
    error = check_generation(group, request.member_id, request.instance_id, request.generation_id)
    if group is not None and error == ErrorCode.NONE:
        rebalancing.expect_heartbeat(broker, group, group.members[request.member_id])
        if group.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
    broker.runtime.reply(request_id, HeartbeatResponse(error))


def check_generation(group: Group | None, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Whether a member belongs to the current generation; one that missed a rebalance does not."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = check_member(group, member_id, instance_id)
    if error == ErrorCode.NONE and generation != group.generation:
        error = ErrorCode.ILLEGAL_GENERATION
    return error


def leave(broker: BrokerState, shard: Shard, request_id: int, request: LeaveGroupRequest) -> None:
    """Remove the members; each gets a result of its own."""
    group = shard.groups.get(request.group_id)
    if group is not None and group.state is GroupState.DEAD:
        broker.runtime.reply(request_id, LeaveGroupResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    left = tuple(
        LeftMember(member.member_id, member.instance_id, _leave(broker, shard, group, member))
        for member in request.members
    )
    broker.runtime.reply(request_id, LeaveGroupResponse(ErrorCode.NONE, left))


def _leave(broker: BrokerState, shard: Shard, group: Group | None, leaving: LeavingMember) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if leaving.member_id in group.pending_members:
        rebalancing.forget_pending(broker, group, leaving.member_id)
        rebalancing.pending_expired(broker, shard, group, leaving.member_id)
        return ErrorCode.NONE
    member_id = leaving.member_id
    if not member_id and leaving.instance_id is not None:  # an administrator removes a static member
        member_id = group.static_members.get(leaving.instance_id, "")
    error = check_member(group, member_id, leaving.instance_id)
    if error == ErrorCode.NONE:
        member = group.members[member_id]
        rebalancing.remove_member(broker, shard, group, member, f"member {member_id} leaves")
    return error
