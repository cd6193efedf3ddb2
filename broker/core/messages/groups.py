"""Requests and responses of consumer groups, classic protocol, as plain values; see `broker.core.messages`."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.messages.operations import NOT_ASKED

NO_GENERATION = -1
"""Generation sent by a client that commits offsets without being a member of the group."""

NO_OFFSET = -1
"""Offset of a partition without a committed offset."""


# --- membership ------------------------------------------------------------------------------------------------------


class JoinGroupRequest(NamedTuple):
    """JoinGroup (11). `member_id` is "" at first. `protocols` are (name, metadata), the preferred ones first."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    instance_id: str | None = None


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinGroupResponse(NamedTuple):
    """The new generation; `members` is sent only to the leader, which assigns the partitions."""

    error_code: int
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()


class SyncGroupRequest(NamedTuple):
    """SyncGroup (14). `assignments` are (member id, assignment), from the leader of the group only."""

    group_id: str
    generation_id: int
    member_id: str
    assignments: tuple[tuple[str, bytes], ...] = ()
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None


class SyncGroupResponse(NamedTuple):
    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatRequest(NamedTuple):
    """Heartbeat (12)."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None


class HeartbeatResponse(NamedTuple):
    error_code: int


class LeavingMember(NamedTuple):
    member_id: str
    instance_id: str | None = None


class LeaveGroupRequest(NamedTuple):
    """LeaveGroup (13)."""

    group_id: str
    members: tuple[LeavingMember, ...]


class LeftMember(NamedTuple):
    member_id: str
    instance_id: str | None
    error_code: int


class LeaveGroupResponse(NamedTuple):
    error_code: int
    members: tuple[LeftMember, ...] = ()


# --- offsets ---------------------------------------------------------------------------------------------------------


class OffsetCommitPartition(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


class OffsetCommitRequest(NamedTuple):
    """OffsetCommit (8). `generation_id` is -1 from a client that is not a member."""

    group_id: str
    generation_id: int
    member_id: str
    partitions: tuple[OffsetCommitPartition, ...]
    instance_id: str | None = None


class CommittedPartition(NamedTuple):
    topic: str
    partition: int
    error_code: int


class OffsetCommitResponse(NamedTuple):
    partitions: tuple[CommittedPartition, ...]


class OffsetFetchGroup(NamedTuple):
    """`partitions` None asks for all with committed offsets."""

    group_id: str
    partitions: tuple[tuple[str, int], ...] | None = None


class OffsetFetchRequest(NamedTuple):
    """OffsetFetch (9). `require_stable`: fail for partitions with an uncommitted offset in progress (KIP-447)."""

    groups: tuple[OffsetFetchGroup, ...]
    require_stable: bool = False


class FetchedOffset(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


class FetchedGroup(NamedTuple):
    group_id: str
    error_code: int
    partitions: tuple[FetchedOffset, ...] = ()


class OffsetFetchResponse(NamedTuple):
    groups: tuple[FetchedGroup, ...]


# --- administration --------------------------------------------------------------------------------------------------


class DescribeGroupsRequest(NamedTuple):
    """DescribeGroups (15)."""

    groups: tuple[str, ...]
    include_authorized_operations: bool = False


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    error_code: int
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: int = NOT_ASKED
    error_message: str | None = None


class DescribeGroupsResponse(NamedTuple):
    groups: tuple[DescribedGroup, ...]


class ListGroupsRequest(NamedTuple):
    """ListGroups (16) of one coordinator; an empty filter matches everything."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class ListGroupsResponse(NamedTuple):
    error_code: int
    groups: tuple[ListedGroup, ...] = ()


class DeleteGroupsRequest(NamedTuple):
    """DeleteGroups (42)."""

    groups: tuple[str, ...]


class DeletedGroup(NamedTuple):
    group_id: str
    error_code: int


class DeleteGroupsResponse(NamedTuple):
    groups: tuple[DeletedGroup, ...]


class OffsetDeleteRequest(NamedTuple):
    """OffsetDelete (47): delete the offsets of a group without members for these partitions."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]


class DeletedOffset(NamedTuple):
    topic: str
    partition: int
    error_code: int


class OffsetDeleteResponse(NamedTuple):
    error_code: int
    partitions: tuple[DeletedOffset, ...] = ()


GroupRequest = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
    | OffsetDeleteRequest
)
GroupResponse = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | DescribeGroupsResponse
    | ListGroupsResponse
    | DeleteGroupsResponse
    | OffsetDeleteResponse
)
