"""Serves group members: JoinGroup adds or updates one, SyncGroup hands out assignments, Heartbeat, LeaveGroup."""

from __future__ import annotations

import hashlib

from broker.core.broker_node.groups import rebalancing, writing
from broker.core.broker_node.groups.records import GroupKey, encode_group
from broker.core.broker_node.groups.state import Group, GroupState, Member, ReplacementWrite, Shard
from broker.core.broker_node.state import BrokerState
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from broker.core.ports.events import RequestReceived

MEMBER_ID_HANDSHAKE = 4
"""From this version on a new member first gets a member id, so that a lost response leaves no dead member behind."""

_NAME_BYTES_MAX = 1_024
_INSTANCE_ID_LENGTH_MAX = 249
_CLIENT_ID_LENGTH_MAX = 249
"""Length of the client id's prefix in a member id."""


def handle(broker: BrokerState, shard: Shard, event: RequestReceived, request: JoinGroupRequest) -> None:
    """Answer with an error or a member id at once, otherwise when the next generation begins."""
    group = shard.groups.get(request.group_id) or Group(request.group_id)
    error = _refuse(broker, group, request)
    if error != ErrorCode.NONE:
        _refused(broker, event, request, error)
    elif not request.member_id:
        _join_first(broker, shard, group, event, request)
    else:
        _join_again(broker, shard, group, event, request)


def _refuse(broker: BrokerState, group: Group, request: JoinGroupRequest) -> ErrorCode:
    settings = broker.settings
    if not settings.group_min_session_timeout_ms <= request.session_timeout_ms <= settings.group_max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    names = [request.protocol_type, *(name for name, _ in request.protocols)]
    if any(len(name.encode()) > _NAME_BYTES_MAX for name in names):
        return ErrorCode.INVALID_REQUEST
    if request.instance_id is not None and not 0 < len(request.instance_id) <= _INSTANCE_ID_LENGTH_MAX:
        return ErrorCode.INVALID_REQUEST
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not group.supports(request.protocol_type, {name for name, _ in request.protocols}):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    is_back = request.member_id in group.members or request.instance_id in group.static_members
    if not is_back and len(group.members) >= settings.group_max_size:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    return ErrorCode.NONE


def _refused(broker: BrokerState, event: RequestReceived, request: JoinGroupRequest, error: ErrorCode) -> None:
    broker.runtime.reply(event.request_id, JoinGroupResponse(error, member_id=request.member_id))


def _join_first(
    broker: BrokerState, shard: Shard, group: Group, event: RequestReceived, request: JoinGroupRequest
) -> None:
    """A client without member id: a new member, or a static member that was restarted."""
    member_id = _new_member_id(broker, request.instance_id or event.client_id)
    known = group.static_members.get(request.instance_id) if request.instance_id is not None else None
    if known is not None:
        _come_back(broker, shard, group, group.members[known], member_id, event, request)
    elif request.instance_id is None and event.api_version >= MEMBER_ID_HANDSHAKE:
        rebalancing.await_second_join(broker, shard, group, member_id, request.session_timeout_ms)
        broker.runtime.reply(event.request_id, JoinGroupResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
    else:
        _add(broker, shard, group, member_id, event, request)


def _join_again(
    broker: BrokerState, shard: Shard, group: Group, event: RequestReceived, request: JoinGroupRequest
) -> None:
    member = group.members.get(request.member_id)
    if request.member_id in group.pending_members and request.instance_id is None:
        rebalancing.forget_pending(broker, group, request.member_id)
        _add(broker, shard, group, request.member_id, event, request)
        return
    error = check_member(group, request.member_id, request.instance_id)
    if member is None or error != ErrorCode.NONE:
        _refused(broker, event, request, error)
        return
    unchanged = member.protocols == request.protocols
    is_completing = group.state is GroupState.COMPLETING_REBALANCE  # then it has missed the response
    is_stable = group.state is GroupState.STABLE and group.leader != member.member_id
    if unchanged and (is_completing or is_stable):
        _wait(broker, member, event)
        rebalancing.answer_join(broker, group, member)
    else:  # the leader joins again when it wants another assignment
        _update(member, request)
        _wait(broker, member, event)
        rebalancing.rebalance(broker, shard, group, f"member {member.member_id} joins again")


def check_member(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    """Check a member's ids: FENCED_INSTANCE_ID for a static member that was replaced (KIP-345)."""
    if instance_id is not None:
        known = group.static_members.get(instance_id)
        if known is not None and known != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def _add(
    broker: BrokerState,
    shard: Shard,
    group: Group,
    member_id: str,
    event: RequestReceived,
    request: JoinGroupRequest,
) -> None:
    member = Member(member_id, request.instance_id, event.client_id, 0, 0, (), client_host=event.client_host)
    _update(member, request)
    _wait(broker, member, event)
    rebalancing.add_member(broker, shard, group, member, request.protocol_type)


def _update(member: Member, request: JoinGroupRequest) -> None:
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = (
        request.rebalance_timeout_ms if request.rebalance_timeout_ms > 0 else request.session_timeout_ms
    )
    member.protocols = request.protocols


def _wait(broker: BrokerState, member: Member, event: RequestReceived) -> None:
    if member.waiting_join is not None:  # its client has given up on the earlier request
        broker.runtime.reply(
            member.waiting_join, JoinGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        )
    member.waiting_join = event.request_id


def _new_member_id(broker: BrokerState, name: str) -> str:
    """The name with a UUID that no other incarnation of any broker generates."""
    broker.coordinator.members_named += 1
    digest = hashlib.sha256(f"{broker.incarnation_id}/{broker.coordinator.members_named}".encode()).hexdigest()
    unique = f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"
    return f"{name[:_CLIENT_ID_LENGTH_MAX]}-{unique}"


# --- static members (KIP-345) ----------------------------------------------------------------------------------------


def _come_back(
    broker: BrokerState,
    shard: Shard,
    group: Group,
    member: Member,
    new_member_id: str,
    event: RequestReceived,
    request: JoinGroupRequest,
) -> None:
    """A restarted static member replaces its old entry; a stable group rebalances only if the subscription changed."""
    if group.state is GroupState.STABLE and _means_the_same(group, member, request):
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        stored = group.stored(assignments, broker.runtime.wall_clock_ms)
        renamed = stored._replace(
            leader=new_member_id if stored.leader == member.member_id else stored.leader,
            members=tuple(
                each._replace(member_id=new_member_id) if each.member_id == member.member_id else each
                for each in stored.members
            ),
        )
        write = ReplacementWrite(group.group_id, group.generation, member.member_id, new_member_id, event.request_id)
        error = writing.append(broker, shard, [(GroupKey(group.group_id), encode_group(renamed))], write)
        if error != ErrorCode.NONE:
            _refused(broker, event, request, error)
        return
    rebalancing.replace_member(broker, group, member, new_member_id)
    _update(member, request)
    _wait(broker, member, event)
    rebalancing.rebalance(broker, shard, group, f"static member {member.instance_id} comes back")


def _means_the_same(group: Group, member: Member, request: JoinGroupRequest) -> bool:
    metadata = dict(request.protocols).get(group.protocol or "")
    return metadata is not None and metadata == member.metadata_for(group.protocol)


def replaced(broker: BrokerState, group: Group, write: ReplacementWrite, *, answer: bool) -> None:
    """The new member id is replicated. The response names the old leader, so it does not assign again (KIP-345)."""
    member = group.members.get(write.old_member_id)
    if member is None or group.state is not GroupState.STABLE or group.generation != write.generation:
        if answer:  # the client restarts
            broker.runtime.reply(write.request_id, JoinGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID))
        return
    leader = group.leader or ""
    rebalancing.replace_member(broker, group, member, write.new_member_id)
    rebalancing.expect_heartbeat(broker, group, member)
    if answer:
        broker.runtime.reply(
            write.request_id,
            JoinGroupResponse(
                ErrorCode.NONE, group.generation, group.protocol_type, group.protocol, leader, write.new_member_id
            ),
        )


def replacement_failed(broker: BrokerState, write: ReplacementWrite, error: ErrorCode) -> None:
    """Answer with a retriable error; the client retries here or with the next coordinator."""
    broker.runtime.reply(write.request_id, JoinGroupResponse(error))


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
