"""Codec of consumer groups: membership, offsets, administration.

JoinGroup (11), versions 2 to 9, SyncGroup (14), 0 to 5, Heartbeat (12), 0 to 4, LeaveGroup (13), 0 to 5; OffsetCommit
(8), 2 to 9, OffsetFetch (9), 2 to 9, OffsetDelete (47), 0; DescribeGroups (15), 0 to 6, ListGroups (16), 0 to 5,
DeleteGroups (42), 0 to 2.
"""

from __future__ import annotations

from kafka.protocol.admin import DeleteGroupsRequest as WireDeleteRequest
from kafka.protocol.admin import DeleteGroupsResponse as WireDeleteResponse
from kafka.protocol.admin import DescribeGroupsRequest as WireDescribeRequest
from kafka.protocol.admin import DescribeGroupsResponse as WireDescribeResponse
from kafka.protocol.admin import ListGroupsRequest as WireListRequest
from kafka.protocol.admin import ListGroupsResponse as WireListResponse
from kafka.protocol.consumer import HeartbeatRequest as WireHeartbeatRequest
from kafka.protocol.consumer import HeartbeatResponse as WireHeartbeatResponse
from kafka.protocol.consumer import JoinGroupRequest as WireJoinRequest
from kafka.protocol.consumer import JoinGroupResponse as WireJoinResponse
from kafka.protocol.consumer import LeaveGroupRequest as WireLeaveRequest
from kafka.protocol.consumer import LeaveGroupResponse as WireLeaveResponse
from kafka.protocol.consumer import OffsetCommitRequest as WireCommitRequest
from kafka.protocol.consumer import OffsetCommitResponse as WireCommitResponse
from kafka.protocol.consumer import OffsetDeleteRequest as WireOffsetDeleteRequest
from kafka.protocol.consumer import OffsetDeleteResponse as WireOffsetDeleteResponse
from kafka.protocol.consumer import OffsetFetchRequest as WireFetchRequest
from kafka.protocol.consumer import OffsetFetchResponse as WireFetchResponse
from kafka.protocol.consumer import SyncGroupRequest as WireSyncRequest
from kafka.protocol.consumer import SyncGroupResponse as WireSyncResponse

from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    CommittedPartition,
    DeletedGroup,
    DeletedOffset,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedGroup,
    FetchedOffset,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from broker.shell.codec import mapping
from broker.shell.codec.mapping import (
    ARRAY,
    BITS,
    BOOL,
    BYTES,
    NOT_ON_WIRE,
    TEXT,
    Both,
    by_topic,
    many,
    mapped,
    message,
    nullable,
    record,
    row,
    text_before,
)
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

_MANY_LEAVE = 3
"""From this version on several members may leave at once (KIP-345)."""

_LEAVE = message(
    WireLeaveRequest, record(LeaveGroupRequest, members=many(record(LeavingMember, instance_id="group_instance_id")))
)
_LEFT = message(
    WireLeaveResponse, record(LeaveGroupResponse, members=many(record(LeftMember, instance_id="group_instance_id")))
)


def _decode_leave_request(data: bytes, position: int, version: int) -> LeaveGroupRequest:
    if version >= _MANY_LEAVE:
        return _LEAVE.decode(data, position, version)
    wire = mapping.decode_message(WireLeaveRequest, data, position, version)
    return LeaveGroupRequest(wire.group_id, (LeavingMember(wire.member_id),))


def _encode_leave_request(request: LeaveGroupRequest, version: int) -> Parts:
    if version >= _MANY_LEAVE:
        return _LEAVE.encode(request, version)
    member_id = request.members[0].member_id if request.members else ""
    return mapping.encode_message(WireLeaveRequest, version, group_id=request.group_id, member_id=member_id)


def _encode_leave_response(response: LeaveGroupResponse, version: int) -> Parts:
    if version >= _MANY_LEAVE:
        return _LEFT.encode(response, version)
    of_member = response.members[0].error_code if response.members else 0
    return _LEFT.encode(LeaveGroupResponse(response.error_code or of_member), version)


LEAVE_GROUP = mapped(
    (0, 5),
    _LEAVE._replace(decode=_decode_leave_request, encode=_encode_leave_request),
    _LEFT._replace(encode=_encode_leave_response),
)


# --- OffsetCommit -----------------------------------------------------------------------------------------

_COMMIT = record(
    OffsetCommitPartition,
    partition="partition_index",
    offset="committed_offset",
    leader_epoch="committed_leader_epoch",
    metadata="committed_metadata",
)
_COMMITTED = record(CommittedPartition, partition="partition_index")

OFFSET_COMMIT = mapped(
    (2, 9),
    message(
        WireCommitRequest,
        record(
            OffsetCommitRequest,
            generation_id="generation_id_or_member_epoch",
            partitions=("topics", by_topic(_COMMIT)),
            instance_id="group_instance_id",
        ),
    ),
    message(WireCommitResponse, record(OffsetCommitResponse, partitions=("topics", by_topic(_COMMITTED)))),
)

# --- OffsetFetch ------------------------------------------------------------------------------------------

_MANY_GROUPS = 8
"""From this version on a request asks for several groups (KIP-709); before it, its one group is the message."""

_ASKED = record(
    OffsetFetchGroup, partitions=("topics", nullable(by_topic(row("topic", "partition"), "partition_indexes")))
)
_OFFSET = record(
    FetchedOffset,
    partition="partition_index",
    offset="committed_offset",
    leader_epoch="committed_leader_epoch",
)
_FOUND = ("topics", by_topic(_OFFSET))
_FETCH = message(WireFetchRequest, record(OffsetFetchRequest, groups=many(_ASKED), require_stable=BOOL))
_FETCH_ONE = _ASKED.bind(WireFetchRequest)
_FETCHED = message(WireFetchResponse, record(OffsetFetchResponse, groups=many(record(FetchedGroup, partitions=_FOUND))))
_FETCHED_ONE = message(WireFetchResponse, record(FetchedGroup, group_id=NOT_ON_WIRE, partitions=_FOUND))


def _decode_fetch_request(data: bytes, position: int, version: int) -> OffsetFetchRequest:
    if version >= _MANY_GROUPS:
        return _FETCH.decode(data, position, version)
    wire = mapping.decode_message(WireFetchRequest, data, position, version)
    return OffsetFetchRequest((_FETCH_ONE.read(wire),), bool(wire.require_stable))


def _encode_fetch_request(request: OffsetFetchRequest, version: int) -> Parts:
    if version >= _MANY_GROUPS:
        return _FETCH.encode(request, version)
    wire = _FETCH_ONE.write(request.groups[0] if request.groups else OffsetFetchGroup("", ()), version)
    wire.require_stable = request.require_stable
    return [bytes(wire.encode())]


def _decode_fetch_response(data: bytes, position: int, version: int) -> OffsetFetchResponse:
    if version >= _MANY_GROUPS:
        return _FETCHED.decode(data, position, version)
    return OffsetFetchResponse((_FETCHED_ONE.decode(data, position, version),))


def _encode_fetch_response(response: OffsetFetchResponse, version: int) -> Parts:
    if version >= _MANY_GROUPS:
        return _FETCHED.encode(response, version)
    return _FETCHED_ONE.encode(response.groups[0] if response.groups else FetchedGroup("", 0), version)


OFFSET_FETCH = mapped(
    (2, 9),
    _FETCH._replace(decode=_decode_fetch_request, encode=_encode_fetch_request),
    _FETCHED._replace(decode=_decode_fetch_response, encode=_encode_fetch_response),
)

# --- OffsetDelete -----------------------------------------------------------------------------------------

_DELETE = row("topic", "partition_index")
_DELETED = record(DeletedOffset, partition="partition_index")

OFFSET_DELETE = mapped(
    (0, 0),
    message(WireOffsetDeleteRequest, record(OffsetDeleteRequest, partitions=("topics", by_topic(_DELETE)))),
    message(WireOffsetDeleteResponse, record(OffsetDeleteResponse, partitions=("topics", by_topic(_DELETED)))),
)


# --- DescribeGroups ---------------------------------------------------------------------------------------

_MISSING_IS_ERROR = 6
"""From this version on, a group that does not exist is an error (KIP-1043); before, its state says so alone."""


def _known_error(code: int, version: int) -> int:
    return code if version >= _MISSING_IS_ERROR or code != ErrorCode.GROUP_ID_NOT_FOUND else ErrorCode.NONE


_MEMBER = record(
    DescribedMember,
    instance_id="group_instance_id",
    metadata=("member_metadata", BYTES),
    assignment=("member_assignment", BYTES),
)
_GROUP = record(
    DescribedGroup,
    error_code=lambda _: Both(int, _known_error),
    state="group_state",
    protocol="protocol_data",
    members=many(_MEMBER),
    authorized_operations=BITS,
)

DESCRIBE_GROUPS = mapped(
    (0, 6),
    message(WireDescribeRequest, record(DescribeGroupsRequest, groups=ARRAY)),
    message(WireDescribeResponse, record(DescribeGroupsResponse, groups=many(_GROUP))),
)

# --- ListGroups -------------------------------------------------------------------------------------------

_LISTED = record(ListedGroup, state=("group_state", TEXT), group_type=TEXT)

LIST_GROUPS = mapped(
    (0, 5),
    message(WireListRequest, record(ListGroupsRequest, states=("states_filter", ARRAY), types=("types_filter", ARRAY))),
    message(WireListResponse, record(ListGroupsResponse, groups=many(_LISTED))),
)

# --- DeleteGroups -----------------------------------------------------------------------------------------

DELETE_GROUPS = mapped(
    (0, 2),
    message(WireDeleteRequest, record(DeleteGroupsRequest, groups=("groups_names", ARRAY))),
    message(WireDeleteResponse, record(DeleteGroupsResponse, groups=("results", many(record(DeletedGroup))))),
)
