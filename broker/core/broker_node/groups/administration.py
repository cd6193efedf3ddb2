"""Serves DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from broker.core.broker_node.groups import writing
from broker.core.broker_node.groups.records import GroupKey, OffsetKey
from broker.core.broker_node.groups.state import DeletionWrite, Group, GroupState, Member, Shard, WaitingDeletion
from broker.core.broker_node.state import BrokerState
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    DeletedGroup,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from broker.core.messages.operations import OF_GROUP

CLASSIC = "classic"
"""The type of every group here, by KIP-848's naming."""


def describe(shard: Shard, group_id: str) -> DescribedGroup:
    """A group's description; an unknown group is "Dead", and an error to clients that know it as one (KIP-1043)."""
    group = shard.groups.get(group_id)
    if group is None:
        missing = DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id, GroupState.DEAD.value)
        return missing._replace(error_message=f"there is no group {group_id}")
    return DescribedGroup(
        ErrorCode.NONE,
        group_id,
        group.state.value,
        group.protocol_type,
        (group.protocol or "") if group.state is GroupState.STABLE else "",
        tuple(_described(group, member) for member in group.members.values()),
    )


def with_operations(described: tuple[DescribedGroup, ...]) -> tuple[DescribedGroup, ...]:
    """The descriptions with what clients are authorized to do, where there is no error."""
    return tuple(
        each._replace(authorized_operations=OF_GROUP) if each.error_code == ErrorCode.NONE else each
        for each in described
    )


def _described(group: Group, member: Member) -> DescribedMember:
    stable = group.state is GroupState.STABLE
    return DescribedMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata_for(group.protocol) if stable else b"",
        member.assignment if stable else b"",
    )


def list_groups(broker: BrokerState, request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups that this broker coordinates."""
    states = {state.lower() for state in request.states}
    types = {kind.lower() for kind in request.types}
    listed = []
    loading = False
    for shard in broker.coordinator.shards.values():
        loading = loading or shard.load_from is not None
        for group in shard.groups.values() if shard.load_from is None else ():
            if (not states or group.state.value.lower() in states) and (not types or CLASSIC in types):
                listed.append(ListedGroup(group.group_id, group.protocol_type, group.state.value, CLASSIC))
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE
    return ListGroupsResponse(error, tuple(listed))


# --- delete ----------------------------------------------------------------------------------------------------------


def delete(broker: BrokerState, request_id: int, shards: dict[str, Shard | ErrorCode]) -> None:
    """Delete groups without members, by name with the shard of each; answered once all deletions are replicated."""
    waiting = WaitingDeletion({}, 0)
    broker.coordinator.deletions[request_id] = waiting
    for group_id, shard in shards.items():
        error = shard if isinstance(shard, ErrorCode) else _delete(broker, shard, request_id, group_id)
        waiting.results[group_id] = error or ErrorCode.NONE
        waiting.missing += error is None
    _answer_if_done(broker, request_id)


def _delete(broker: BrokerState, shard: Shard, request_id: int, group_id: str) -> ErrorCode | None:
    """Begin to delete a group; None while the deletion is being replicated."""
    group = shard.groups.get(group_id)
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    records: list[tuple[GroupKey | OffsetKey, bytes | None]] = [
        (OffsetKey(group_id, topic, partition), None) for topic, partition in group.offsets
    ]
    records.append((GroupKey(group_id), None))
    error = writing.append(broker, shard, records, DeletionWrite(request_id, group_id))
    if error != ErrorCode.NONE:
        return error
    group.state = GroupState.DEAD
    return None


def deleted(broker: BrokerState, write: DeletionWrite, error: ErrorCode) -> None:
    """Record that one group of a request is deleted, or that its deletion has an unknown outcome."""
    waiting = broker.coordinator.deletions[write.request_id]
    waiting.results[write.group_id] = error
    waiting.missing -= 1
    _answer_if_done(broker, write.request_id)


def _answer_if_done(broker: BrokerState, request_id: int) -> None:
    waiting = broker.coordinator.deletions[request_id]
    if not waiting.missing:
        del broker.coordinator.deletions[request_id]
        answers = tuple(DeletedGroup(group_id, error) for group_id, error in waiting.results.items())
        broker.runtime.reply(request_id, DeleteGroupsResponse(answers))
