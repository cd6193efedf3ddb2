"""Serves OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from broker.core.broker_node.groups import rebalancing, writing
from broker.core.broker_node.groups.members import check_generation
from broker.core.broker_node.groups.records import OffsetKey, StoredOffset, encode_offset
from broker.core.broker_node.groups.state import Group, GroupState, OffsetsWrite, Shard
from broker.core.broker_node.state import BrokerState
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    NO_OFFSET,
    CommittedPartition,
    DeletedOffset,
    FetchedGroup,
    FetchedOffset,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
)

_METADATA_BYTES_MAX = 4_096
"""`offset.metadata.max.bytes`."""

# --- commit ----------------------------------------------------------------------------------------------------------


def commit(broker: BrokerState, shard: Shard, request_id: int, request: OffsetCommitRequest) -> None:
    """Store offsets of a member of this generation, or of any client while the group has no members."""
    group = shard.groups.get(request.group_id)
    error = _refuse_commit(group, request)
    if error != ErrorCode.NONE:
        answer_all(broker, request_id, request, error)
        return
    if group is not None and request.member_id in group.members:
        rebalancing.expect_heartbeat(broker, group, group.members[request.member_id])
    refused = tuple(
        ((part.topic, part.partition), error)
        for part in request.partitions
        if (error := _refuse_partition(broker, part)) != ErrorCode.NONE
    )
    keys = {key for key, _ in refused}
    now_ms = broker.runtime.wall_clock_ms
    offsets = tuple(
        ((part.topic, part.partition), StoredOffset(part.offset, part.leader_epoch, part.metadata or "", now_ms))
        for part in request.partitions
        if (part.topic, part.partition) not in keys
    )
    write = OffsetsWrite(request_id, request.group_id, offsets, refused)
    if not offsets:
        answer(broker, write, ErrorCode.NONE)
        return
    records = [
        (OffsetKey(request.group_id, topic, partition), encode_offset(committed))
        for (topic, partition), committed in offsets
    ]
    error = writing.append(broker, shard, records, write)
    if error == ErrorCode.UNKNOWN_SERVER_ERROR:  # too large for a batch
        error = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    if error != ErrorCode.NONE:
        answer(broker, write, error)


def _refuse_commit(group: Group | None, request: OffsetCommitRequest) -> ErrorCode:
    if request.generation_id < 0 and (group is None or group.state is GroupState.EMPTY):
        return ErrorCode.NONE  # offsets stored without group membership
    if group is None:
        return ErrorCode.ILLEGAL_GENERATION
    error = check_generation(group, request.member_id, request.instance_id, request.generation_id)
    if error == ErrorCode.NONE and group.state is GroupState.COMPLETING_REBALANCE:
        error = ErrorCode.REBALANCE_IN_PROGRESS
    return error


def _refuse_partition(broker: BrokerState, part: OffsetCommitPartition) -> ErrorCode:
    if broker.image.partition(part.topic, part.partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len((part.metadata or "").encode()) > _METADATA_BYTES_MAX:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def answer_all(broker: BrokerState, request_id: int, request: OffsetCommitRequest, error: ErrorCode) -> None:
    """The same error code for every partition of a commit."""
    answers = tuple(CommittedPartition(part.topic, part.partition, error) for part in request.partitions)
    broker.runtime.reply(request_id, OffsetCommitResponse(answers))


def apply(shard: Shard, write: OffsetsWrite) -> None:
    """Apply replicated offsets to the group."""
    group = shard.groups.setdefault(write.group_id, Group(write.group_id))
    for key, committed in write.offsets:
        if committed is None:
            group.offsets.pop(key, None)
        else:
            group.offsets[key] = committed


def answer(broker: BrokerState, write: OffsetsWrite, error: ErrorCode) -> None:
    """Answer a commit or a deletion whose offsets are replicated, rejected, or of unknown outcome."""
    results = [*((key, error) for key, _ in write.offsets), *write.refused]
    if any(committed is None for _, committed in write.offsets):
        deleted = tuple(DeletedOffset(topic, partition, code) for (topic, partition), code in results)
        broker.runtime.reply(write.request_id, OffsetDeleteResponse(ErrorCode.NONE, deleted))
        return
    committed = tuple(CommittedPartition(topic, partition, code) for (topic, partition), code in results)
    broker.runtime.reply(write.request_id, OffsetCommitResponse(committed))


# --- fetch -----------------------------------------------------------------------------------------------------------


def fetch(shard: Shard, asked: OffsetFetchGroup, *, require_stable: bool) -> FetchedGroup:
    """The replicated offsets of a group; an unknown group has committed nothing."""
    group = shard.groups.get(asked.group_id)
    offsets = group.offsets if group is not None else {}
    under_way = _under_way(shard, asked.group_id) if require_stable else frozenset()
    keys = sorted(offsets.keys() | under_way) if asked.partitions is None else asked.partitions
    return FetchedGroup(
        asked.group_id,
        ErrorCode.NONE,
        tuple(_fetched(key, offsets.get(key), is_stable=key not in under_way) for key in keys),
    )


def _fetched(key: tuple[str, int], committed: StoredOffset | None, *, is_stable: bool) -> FetchedOffset:
    if not is_stable:
        return FetchedOffset(*key, NO_OFFSET, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if committed is None:
        return FetchedOffset(*key, NO_OFFSET)
    return FetchedOffset(*key, committed.offset, committed.leader_epoch, committed.metadata)


def _under_way(shard: Shard, group_id: str) -> frozenset[tuple[str, int]]:
    """KIP-447: partitions of a group whose commits are written but not replicated."""
    return frozenset(
        key
        for write in shard.writes.values()
        if isinstance(write.purpose, OffsetsWrite) and write.purpose.group_id == group_id
        for key, _ in write.purpose.offsets
    )


# --- delete ----------------------------------------------------------------------------------------------------------


def delete(broker: BrokerState, shard: Shard, request_id: int, request: OffsetDeleteRequest) -> None:
    """Delete offsets of a group that has no members."""
    group = shard.groups.get(request.group_id)
    if group is None or group.state is GroupState.DEAD:
        broker.runtime.reply(request_id, OffsetDeleteResponse(ErrorCode.GROUP_ID_NOT_FOUND))
        return
    if group.state is not GroupState.EMPTY:
        broker.runtime.reply(request_id, OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP))
        return
    write = OffsetsWrite(
        request_id,
        request.group_id,
        tuple((key, None) for key in request.partitions if key in group.offsets),
        tuple((key, ErrorCode.NONE) for key in request.partitions if key not in group.offsets),
    )
    if not write.offsets:
        deleted = tuple(DeletedOffset(*key, ErrorCode.NONE) for key in request.partitions)
        broker.runtime.reply(request_id, OffsetDeleteResponse(ErrorCode.NONE, deleted))
        return
    records = [(OffsetKey(request.group_id, *key), None) for key, _ in write.offsets]
    error = writing.append(broker, shard, records, write)
    if error != ErrorCode.NONE:
        answer(broker, write, error)
