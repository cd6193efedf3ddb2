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
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.wire import Parts

# --- DescribeGroups ---------------------------------------------------------------------------------------


def _decode_describe_request(data: bytes, position: int, version: int) -> DescribeGroupsRequest:
    wire = schema.decode(WireDescribeRequest, data, position, version)
    return DescribeGroupsRequest(tuple(schema.elements(wire.groups)))


def _encode_describe_request(request: DescribeGroupsRequest, version: int) -> Parts:
    return schema.encode(WireDescribeRequest, version, groups=list(request.groups))


def _decode_describe_response(data: bytes, position: int, version: int) -> DescribeGroupsResponse:
    wire = schema.decode(WireDescribeResponse, data, position, version)
    return DescribeGroupsResponse(
        tuple(
            DescribedGroup(
                group.error_code,
                group.group_id,
                group.group_state,
                group.protocol_type,
                group.protocol_data,
                tuple(
                    DescribedMember(
                        each.member_id,
                        each.group_instance_id,
                        each.client_id,
                        each.client_host,
                        bytes(each.member_metadata),
                        bytes(each.member_assignment),
                    )
                    for each in schema.elements(group.members)
                ),
            )
            for group in schema.elements(wire.groups)
        )
    )


def _encode_describe_response(response: DescribeGroupsResponse, version: int) -> Parts:
    group_class = WireDescribeResponse.DescribedGroup
    groups = [
        group_class(
            version=version,
            error_code=group.error_code,
            group_id=group.group_id,
            group_state=group.state,
            protocol_type=group.protocol_type,
            protocol_data=group.protocol,
            members=[
                group_class.DescribedGroupMember(
                    version=version,
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    member_metadata=each.metadata,
                    member_assignment=each.assignment,
                )
                for each in group.members
            ],
        )
        for group in response.groups
    ]
    return schema.encode(WireDescribeResponse, version, groups=groups)


DESCRIBE_GROUPS = Codec(
    api_key=15,
    name="DescribeGroups",
    versions=(0, 5),
    flexible_from=5,
    request_type=DescribeGroupsRequest,
    decode_request=_decode_describe_request,
    encode_request=_encode_describe_request,
    decode_response=_decode_describe_response,
    encode_response=_encode_describe_response,
)

# --- ListGroups -------------------------------------------------------------------------------------------


def _decode_list_request(data: bytes, position: int, version: int) -> ListGroupsRequest:
    wire = schema.decode(WireListRequest, data, position, version)
    return ListGroupsRequest(
        tuple(schema.elements(wire.states_filter)),
        tuple(schema.elements(wire.types_filter)),
    )


def _encode_list_request(request: ListGroupsRequest, version: int) -> Parts:
    return schema.encode(WireListRequest, version, states_filter=list(request.states), types_filter=list(request.types))


def _decode_list_response(data: bytes, position: int, version: int) -> ListGroupsResponse:
    wire = schema.decode(WireListResponse, data, position, version)
    return ListGroupsResponse(
        wire.error_code,
        tuple(
            ListedGroup(each.group_id, each.protocol_type, each.group_state or "", each.group_type or "")
            for each in schema.elements(wire.groups)
        ),
    )


def _encode_list_response(response: ListGroupsResponse, version: int) -> Parts:
    groups = [
        WireListResponse.ListedGroup(
            version=version,
            group_id=each.group_id,
            protocol_type=each.protocol_type,
            group_state=each.state,
            group_type=each.group_type,
        )
        for each in response.groups
    ]
    return schema.encode(WireListResponse, version, error_code=response.error_code, groups=groups)


LIST_GROUPS = Codec(
    api_key=16,
    name="ListGroups",
    versions=(0, 5),
    flexible_from=3,
    request_type=ListGroupsRequest,
    decode_request=_decode_list_request,
    encode_request=_encode_list_request,
    decode_response=_decode_list_response,
    encode_response=_encode_list_response,
)

# --- DeleteGroups -----------------------------------------------------------------------------------------


def _decode_delete_request(data: bytes, position: int, version: int) -> DeleteGroupsRequest:
    wire = schema.decode(WireDeleteRequest, data, position, version)
    return DeleteGroupsRequest(tuple(schema.elements(wire.groups_names)))


def _encode_delete_request(request: DeleteGroupsRequest, version: int) -> Parts:
    return schema.encode(WireDeleteRequest, version, groups_names=list(request.groups))


def _decode_delete_response(data: bytes, position: int, version: int) -> DeleteGroupsResponse:
    wire = schema.decode(WireDeleteResponse, data, position, version)
    return DeleteGroupsResponse(
        tuple(DeletedGroup(each.group_id, each.error_code) for each in schema.elements(wire.results))
    )


def _encode_delete_response(response: DeleteGroupsResponse, version: int) -> Parts:
    results = [
        WireDeleteResponse.DeletableGroupResult(version=version, group_id=each.group_id, error_code=each.error_code)
        for each in response.groups
    ]
    return schema.encode(WireDeleteResponse, version, results=results)


DELETE_GROUPS = Codec(
    api_key=42,
    name="DeleteGroups",
    versions=(0, 2),
    flexible_from=2,
    request_type=DeleteGroupsRequest,
    decode_request=_decode_delete_request,
    encode_request=_encode_delete_request,
    decode_response=_decode_delete_response,
    encode_response=_encode_delete_response,
)
