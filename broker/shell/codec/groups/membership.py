"""Codec of group membership: JoinGroup (11), versions 2 to 9, SyncGroup (14), 0 to 5, Heartbeat (12), 0 to 4,
LeaveGroup (13), 0 to 5.
"""

from __future__ import annotations

from kafka.protocol.consumer import HeartbeatRequest as WireHeartbeatRequest
from kafka.protocol.consumer import HeartbeatResponse as WireHeartbeatResponse
from kafka.protocol.consumer import JoinGroupRequest as WireJoinRequest
from kafka.protocol.consumer import JoinGroupResponse as WireJoinResponse
from kafka.protocol.consumer import LeaveGroupRequest as WireLeaveRequest
from kafka.protocol.consumer import LeaveGroupResponse as WireLeaveResponse
from kafka.protocol.consumer import SyncGroupRequest as WireSyncRequest
from kafka.protocol.consumer import SyncGroupResponse as WireSyncResponse

from broker.core.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from broker.shell.codec import schema
from broker.shell.codec.mapping import BYTES, many, mapped, message, record, row, text_before
from broker.shell.codec.wire import Parts

# --- JoinGroup --------------------------------------------------------------------------------------------

_PROTOCOL_MAY_BE_NULL = 7

_JOIN = record(JoinGroupRequest, protocols=many(row("name", ("metadata", BYTES))), instance_id="group_instance_id")
_JOINED = record(
    JoinGroupResponse,
    protocol_name=text_before(_PROTOCOL_MAY_BE_NULL),
    members=many(record(JoinedMember, instance_id="group_instance_id", metadata=BYTES)),
)

JOIN_GROUP = mapped((2, 9), message(WireJoinRequest, _JOIN), message(WireJoinResponse, _JOINED))

# --- SyncGroup --------------------------------------------------------------------------------------------

_SYNC = record(
    SyncGroupRequest, assignments=many(row("member_id", ("assignment", BYTES))), instance_id="group_instance_id"
)

SYNC_GROUP = mapped(
    (0, 5), message(WireSyncRequest, _SYNC), message(WireSyncResponse, record(SyncGroupResponse, assignment=BYTES))
)

# --- Heartbeat --------------------------------------------------------------------------------------------

HEARTBEAT = mapped(
    (0, 4),
    message(WireHeartbeatRequest, record(HeartbeatRequest, instance_id="group_instance_id")),
    message(WireHeartbeatResponse, record(HeartbeatResponse)),
)

# --- LeaveGroup -------------------------------------------------------------------------------------------

_BATCHED = 3
"""From this version on several members may leave at once (KIP-345)."""

_LEAVE = message(
    WireLeaveRequest, record(LeaveGroupRequest, members=many(record(LeavingMember, instance_id="group_instance_id")))
)
_LEFT = message(
    WireLeaveResponse, record(LeaveGroupResponse, members=many(record(LeftMember, instance_id="group_instance_id")))
)


def _decode_leave_request(data: bytes, position: int, version: int) -> LeaveGroupRequest:
    if version >= _BATCHED:
        return _LEAVE.decode(data, position, version)
    wire = schema.decode(WireLeaveRequest, data, position, version)
    return LeaveGroupRequest(wire.group_id, (LeavingMember(wire.member_id),))


def _encode_leave_request(request: LeaveGroupRequest, version: int) -> Parts:
    if version >= _BATCHED:
        return _LEAVE.encode(request, version)
    member_id = request.members[0].member_id if request.members else ""
    return schema.encode(WireLeaveRequest, version, group_id=request.group_id, member_id=member_id)


def _encode_leave_response(response: LeaveGroupResponse, version: int) -> Parts:
    if version >= _BATCHED:
        return _LEFT.encode(response, version)
    of_member = response.members[0].error_code if response.members else 0
    return _LEFT.encode(LeaveGroupResponse(response.error_code or of_member), version)


LEAVE_GROUP = mapped(
    (0, 5),
    _LEAVE._replace(decode=_decode_leave_request, encode=_encode_leave_request),
    _LEFT._replace(encode=_encode_leave_response),
)
