"""Codec of DescribeGroups (15), versions 0 to 5, ListGroups (16), 0 to 5, DeleteGroups (42), 0 to 2."""

from __future__ import annotations

from kafka.protocol.admin import DeleteGroupsRequest as WireDeleteRequest
from kafka.protocol.admin import DeleteGroupsResponse as WireDeleteResponse
from kafka.protocol.admin import DescribeGroupsRequest as WireDescribeRequest
from kafka.protocol.admin import DescribeGroupsResponse as WireDescribeResponse
from kafka.protocol.admin import ListGroupsRequest as WireListRequest
from kafka.protocol.admin import ListGroupsResponse as WireListResponse

from broker.core.messages.groups import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from broker.shell.codec.mapping import ARRAY, BYTES, TEXT, many, mapped, message, record

# --- DescribeGroups ---------------------------------------------------------------------------------------

_MEMBER = record(
    DescribedMember,
    instance_id="group_instance_id",
    metadata=("member_metadata", BYTES),
    assignment=("member_assignment", BYTES),
)
_GROUP = record(DescribedGroup, state="group_state", protocol="protocol_data", members=many(_MEMBER))

DESCRIBE_GROUPS = mapped(
    (0, 5),
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
