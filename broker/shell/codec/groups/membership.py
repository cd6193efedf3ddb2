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
from broker.shell.codec.base import Codec
from broker.shell.codec.wire import Parts

# --- JoinGroup --------------------------------------------------------------------------------------------

_PROTOCOL_MAY_BE_NULL = 7


def _decode_join_request(data: bytes, position: int, version: int) -> JoinGroupRequest:
    wire = schema.decode(WireJoinRequest, data, position, version)
    return JoinGroupRequest(
        wire.group_id,
        wire.session_timeout_ms,
        wire.rebalance_timeout_ms,
        wire.member_id,
        wire.protocol_type,
        tuple((each.name, bytes(each.metadata)) for each in schema.elements(wire.protocols)),
        wire.group_instance_id,
    )


def _encode_join_request(request: JoinGroupRequest, version: int) -> Parts:
    protocol = WireJoinRequest.JoinGroupRequestProtocol
    return schema.encode(
        WireJoinRequest,
        version,
        group_id=request.group_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        member_id=request.member_id,
        group_instance_id=request.instance_id,
        protocol_type=request.protocol_type,
        protocols=[protocol(version=version, name=name, metadata=metadata) for name, metadata in request.protocols],
    )


def _decode_join_response(data: bytes, position: int, version: int) -> JoinGroupResponse:
    wire = schema.decode(WireJoinResponse, data, position, version)
    return JoinGroupResponse(
        wire.error_code,
        wire.generation_id,
        wire.protocol_type,
        wire.protocol_name,
        wire.leader,
        wire.member_id,
        tuple(
            JoinedMember(each.member_id, each.group_instance_id, bytes(each.metadata))
            for each in schema.elements(wire.members)
        ),
    )


def _encode_join_response(response: JoinGroupResponse, version: int) -> Parts:
    protocol_name = response.protocol_name
    if protocol_name is None and version < _PROTOCOL_MAY_BE_NULL:
        protocol_name = ""
    member = WireJoinResponse.JoinGroupResponseMember
    return schema.encode(
        WireJoinResponse,
        version,
        error_code=response.error_code,
        generation_id=response.generation_id,
        protocol_type=response.protocol_type,
        protocol_name=protocol_name,
        leader=response.leader,
        member_id=response.member_id,
        members=[
            member(
                version=version,
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata,
            )
            for each in response.members
        ],
    )


JOIN_GROUP = Codec(
    api_key=11,
    name="JoinGroup",
    versions=(2, 9),
    flexible_from=6,
    request_type=JoinGroupRequest,
    decode_request=_decode_join_request,
    encode_request=_encode_join_request,
    decode_response=_decode_join_response,
    encode_response=_encode_join_response,
)

# --- SyncGroup --------------------------------------------------------------------------------------------


def _decode_sync_request(data: bytes, position: int, version: int) -> SyncGroupRequest:
    wire = schema.decode(WireSyncRequest, data, position, version)
    return SyncGroupRequest(
        wire.group_id,
        wire.generation_id,
        wire.member_id,
        tuple((each.member_id, bytes(each.assignment)) for each in schema.elements(wire.assignments)),
        wire.group_instance_id,
        wire.protocol_type,
        wire.protocol_name,
    )


def _encode_sync_request(request: SyncGroupRequest, version: int) -> Parts:
    assignment = WireSyncRequest.SyncGroupRequestAssignment
    return schema.encode(
        WireSyncRequest,
        version,
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=[
            assignment(version=version, member_id=member_id, assignment=assigned)
            for member_id, assigned in request.assignments
        ],
    )


def _decode_sync_response(data: bytes, position: int, version: int) -> SyncGroupResponse:
    wire = schema.decode(WireSyncResponse, data, position, version)
    return SyncGroupResponse(wire.error_code, wire.protocol_type, wire.protocol_name, bytes(wire.assignment))


def _encode_sync_response(response: SyncGroupResponse, version: int) -> Parts:
    return schema.encode(WireSyncResponse, version, **response._asdict())


SYNC_GROUP = Codec(
    api_key=14,
    name="SyncGroup",
    versions=(0, 5),
    flexible_from=4,
    request_type=SyncGroupRequest,
    decode_request=_decode_sync_request,
    encode_request=_encode_sync_request,
    decode_response=_decode_sync_response,
    encode_response=_encode_sync_response,
)

# --- Heartbeat --------------------------------------------------------------------------------------------


def _decode_heartbeat_request(data: bytes, position: int, version: int) -> HeartbeatRequest:
    wire = schema.decode(WireHeartbeatRequest, data, position, version)
    return HeartbeatRequest(wire.group_id, wire.generation_id, wire.member_id, wire.group_instance_id)


def _encode_heartbeat_request(request: HeartbeatRequest, version: int) -> Parts:
    return schema.encode(
        WireHeartbeatRequest,
        version,
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.instance_id,
    )


def _decode_heartbeat_response(data: bytes, position: int, version: int) -> HeartbeatResponse:
    return HeartbeatResponse(schema.decode(WireHeartbeatResponse, data, position, version).error_code)


def _encode_heartbeat_response(response: HeartbeatResponse, version: int) -> Parts:
    return schema.encode(WireHeartbeatResponse, version, error_code=response.error_code)


HEARTBEAT = Codec(
    api_key=12,
    name="Heartbeat",
    versions=(0, 4),
    flexible_from=4,
    request_type=HeartbeatRequest,
    decode_request=_decode_heartbeat_request,
    encode_request=_encode_heartbeat_request,
    decode_response=_decode_heartbeat_response,
    encode_response=_encode_heartbeat_response,
)

# --- LeaveGroup -------------------------------------------------------------------------------------------

_BATCHED = 3
"""From this version on several members may leave at once (KIP-345)."""


def _decode_leave_request(data: bytes, position: int, version: int) -> LeaveGroupRequest:
    wire = schema.decode(WireLeaveRequest, data, position, version)
    if version < _BATCHED:
        return LeaveGroupRequest(wire.group_id, (LeavingMember(wire.member_id),))
    return LeaveGroupRequest(
        wire.group_id,
        tuple(LeavingMember(each.member_id, each.group_instance_id) for each in schema.elements(wire.members)),
    )


def _encode_leave_request(request: LeaveGroupRequest, version: int) -> Parts:
    if version < _BATCHED:
        member_id = request.members[0].member_id if request.members else ""
        return schema.encode(WireLeaveRequest, version, group_id=request.group_id, member_id=member_id)
    identity = WireLeaveRequest.MemberIdentity
    return schema.encode(
        WireLeaveRequest,
        version,
        group_id=request.group_id,
        members=[
            identity(version=version, member_id=each.member_id, group_instance_id=each.instance_id)
            for each in request.members
        ],
    )


def _decode_leave_response(data: bytes, position: int, version: int) -> LeaveGroupResponse:
    wire = schema.decode(WireLeaveResponse, data, position, version)
    if version < _BATCHED:
        return LeaveGroupResponse(wire.error_code)
    return LeaveGroupResponse(
        wire.error_code,
        tuple(
            LeftMember(each.member_id, each.group_instance_id, each.error_code)
            for each in schema.elements(wire.members)
        ),
    )


def _encode_leave_response(response: LeaveGroupResponse, version: int) -> Parts:
    if version < _BATCHED:
        of_member = response.members[0].error_code if response.members else 0
        return schema.encode(WireLeaveResponse, version, error_code=response.error_code or of_member)
    member = WireLeaveResponse.MemberResponse
    return schema.encode(
        WireLeaveResponse,
        version,
        error_code=response.error_code,
        members=[
            member(
                version=version,
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                error_code=each.error_code,
            )
            for each in response.members
        ],
    )


LEAVE_GROUP = Codec(
    api_key=13,
    name="LeaveGroup",
    versions=(0, 5),
    flexible_from=4,
    request_type=LeaveGroupRequest,
    decode_request=_decode_leave_request,
    encode_request=_encode_leave_request,
    decode_response=_decode_leave_response,
    encode_response=_encode_leave_response,
)
