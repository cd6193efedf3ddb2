"""Entry points of group coordination: finding a coordinator, requests, timers, the offsets topic's partitions.

The coordinator of a group is the leader of its partition of the offsets topic; any broker answers FindCoordinator, and
has the topic created if it is missing.
"""

from __future__ import annotations

from collections.abc import Hashable

from broker.core.broker_node.groups import administration, expiry, loading, members, offsets, rebalancing, writing
from broker.core.broker_node.groups.records import OFFSETS_TOPIC, STRING_BYTES_MAX, partition_of
from broker.core.broker_node.groups.state import (
    TIMER,
    AssignmentWrite,
    DeletionWrite,
    EmptyWrite,
    ExpiryWrite,
    OffsetsWrite,
    Purpose,
    ReplacementWrite,
    Shard,
)
from broker.core.broker_node.state import CONTROL, BrokerState
from broker.core.configuration.logs import COMPACT
from broker.core.configuration.settings import CLIENT_LISTENER
from broker.core.messages import (
    Coordinator,
    CreateTopicsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    NewTopic,
)
from broker.core.messages.errors import NO_TRANSACTIONS, ErrorCode
from broker.core.messages.groups import (
    DeleteGroupsRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedGroup,
    GroupRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from broker.core.ports.events import RequestReceived
from broker.core.replica.state import Role

__all__ = ["TIMER", "find_coordinators", "find_shard", "handle", "settle", "timer_fired"]

# --- requests --------------------------------------------------------------------------------------------------------


def handle(broker: BrokerState, event: RequestReceived, request: GroupRequest) -> None:
    """Serve a group request."""
    request_id = event.request_id
    match request:
        case DescribeGroupsRequest():
            described = tuple(_describe(broker, group_id) for group_id in request.groups)
            if request.include_authorized_operations:
                described = administration.with_operations(described)
            broker.runtime.reply(request_id, DescribeGroupsResponse(described))
        case ListGroupsRequest():
            broker.runtime.reply(request_id, administration.list_groups(broker, request))
        case DeleteGroupsRequest():
            shards = {group_id: find_shard(broker, group_id, may_be_nameless=True) for group_id in request.groups}
            administration.delete(broker, request_id, shards)
        case OffsetFetchRequest():
            broker.runtime.reply(request_id, _fetch(broker, request))
        case _:
            _handle_for_group(broker, event, request)


def _handle_for_group(
    broker: BrokerState,
    event: RequestReceived,
    request: JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetDeleteRequest,
) -> None:
    shard = find_shard(broker, request.group_id, may_be_nameless=isinstance(request, OffsetCommitRequest))
    if isinstance(shard, ErrorCode):
        _refuse(broker, event.request_id, request, shard)
        return
    match request:
        case JoinGroupRequest():
            members.handle(broker, shard, event, request)
        case SyncGroupRequest():
            members.sync(broker, shard, event.request_id, request)
        case HeartbeatRequest():
            members.heartbeat(broker, shard, event.request_id, request)
        case LeaveGroupRequest():
            members.leave(broker, shard, event.request_id, request)
        case OffsetCommitRequest():
            offsets.commit(broker, shard, event.request_id, request)
        case OffsetDeleteRequest():
            offsets.delete(broker, shard, event.request_id, request)


def find_shard(broker: BrokerState, group_id: str, *, may_be_nameless: bool = False) -> Shard | ErrorCode:
    """The shard of a group, if this broker coordinates it and has loaded it.

    The name "" is allowed where Kafka allows it: for offsets stored without group membership.
    """
    if (not group_id and not may_be_nameless) or len(group_id.encode()) > STRING_BYTES_MAX:
        return ErrorCode.INVALID_GROUP_ID
    topic = broker.image.topics.get(OFFSETS_TOPIC)
    if topic is None or not topic.partitions:
        return ErrorCode.NOT_COORDINATOR
    shard = broker.coordinator.shards.get(partition_of(group_id, len(topic.partitions)))
    if shard is None:
        return ErrorCode.NOT_COORDINATOR
    return shard if shard.load_from is None else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def _refuse(broker: BrokerState, request_id: int, request: GroupRequest, error: ErrorCode) -> None:
    loading_now = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    match request:
        case JoinGroupRequest():
            broker.runtime.reply(request_id, JoinGroupResponse(error, member_id=request.member_id))
        case SyncGroupRequest():  # the rebalance was lost with the old coordinator: restart it here
            answer = ErrorCode.REBALANCE_IN_PROGRESS if loading_now else error
            broker.runtime.reply(request_id, SyncGroupResponse(answer))
        case HeartbeatRequest():  # members do not expire because of the time that loading takes
            broker.runtime.reply(request_id, HeartbeatResponse(ErrorCode.NONE if loading_now else error))
        case LeaveGroupRequest():
            broker.runtime.reply(request_id, LeaveGroupResponse(error))
        case OffsetCommitRequest():
            offsets.answer_all(broker, request_id, request, error)
        case OffsetDeleteRequest():
            broker.runtime.reply(request_id, OffsetDeleteResponse(error))


def _describe(broker: BrokerState, group_id: str) -> DescribedGroup:
    shard = find_shard(broker, group_id, may_be_nameless=True)
    if isinstance(shard, ErrorCode):
        return DescribedGroup(shard, group_id)
    return administration.describe(shard, group_id)


def _fetch(broker: BrokerState, request: OffsetFetchRequest) -> OffsetFetchResponse:
    answers = []
    for asked in request.groups:
        shard = find_shard(broker, asked.group_id, may_be_nameless=True)
        if isinstance(shard, ErrorCode):
            answers.append(FetchedGroup(asked.group_id, shard))
        else:
            answers.append(offsets.fetch(shard, asked, require_stable=request.require_stable))
    return OffsetFetchResponse(tuple(answers))


# --- timers ----------------------------------------------------------------------------------------------------------


def timer_fired(broker: BrokerState, key: Hashable) -> None:
    """Handle a timer whose key begins with `TIMER`; timers of deleted groups and shards are ignored."""
    coordinator = broker.coordinator
    match key:
        case (_, writing.DEADLINE, int(partition), int(required)):
            shard = coordinator.shards.get(partition)
            write = writing.take_overdue(shard, required) if shard is not None else None
            if shard is not None and write is not None:
                _given_up(broker, shard, write.purpose, writing.error_for_clients(ErrorCode.REQUEST_TIMED_OUT))
        case (_, loading.LOAD, int(partition), _):
            settle(broker, (OFFSETS_TOPIC, partition))
        case (_, expiry.EXPIRE, int(partition), int(leader_epoch)):
            shard = coordinator.shards.get(partition)
            if shard is not None and shard.leader_epoch == leader_epoch:
                expiry.expire(broker, shard)
        case (_, str(name), str(group_id), str(member_id)):
            for shard in coordinator.shards.values():
                if shard.load_from is None and group_id in shard.groups:
                    _group_timer_fired(broker, shard, name, group_id, member_id)


def _group_timer_fired(broker: BrokerState, shard: Shard, name: str, group_id: str, member_id: str) -> None:
    group = shard.groups[group_id]
    if name == rebalancing.SESSION:
        rebalancing.session_expired(broker, shard, group, member_id)
    elif name == rebalancing.PENDING:
        rebalancing.pending_expired(broker, shard, group, member_id)
    elif name == rebalancing.JOIN:
        rebalancing.join_timer_fired(broker, shard, group)
    else:
        rebalancing.sync_timer_fired(broker, shard, group)


# --- changes of the offsets topic ------------------------------------------------------------------------------------


def settle(broker: BrokerState, key: tuple[str, int]) -> None:
    """Follow a change of a replica's role, log or high watermark: drop lost shards, load new ones, complete writes.

    Level-triggered like roles themselves (MD-2), and fenced by the leader epoch: another epoch is another shard.
    """
    topic, partition = key
    if topic != OFFSETS_TOPIC:
        return
    shards = broker.coordinator.shards
    shard = shards.get(partition)
    if shard is not None and loading.is_behind(broker, shard):
        del shards[partition]
        loading.give_up(broker, shard)
        for write in writing.drop_all(broker, shard):
            _given_up(broker, shard, write.purpose, ErrorCode.NOT_COORDINATOR)
        shard = None
    replica = broker.replicas.get(key)
    if replica is None or replica.role is not Role.LEADER:
        return
    if shard is None:
        shard = shards[partition] = loading.begin(replica)
    loading.go_on(broker, shard, replica)
    for write, error in writing.take_replicated(broker, shard, replica):
        _replicated(broker, shard, write.purpose, error, answer=not write.given_up)


def _replicated(broker: BrokerState, shard: Shard, purpose: Purpose, error: ErrorCode, *, answer: bool) -> None:
    """A write is committed. `answer`: its client has not been answered yet."""
    match purpose:
        case OffsetsWrite():
            offsets.apply(shard, purpose)
            if answer:
                offsets.answer(broker, purpose, error)
        case AssignmentWrite(group_id):
            if error == ErrorCode.NONE:
                rebalancing.assigned(broker, shard.groups[group_id], purpose)
            else:
                rebalancing.assignment_failed(broker, shard, shard.groups[group_id], purpose, error)
        case ReplacementWrite(group_id):
            members.replaced(broker, shard.groups[group_id], purpose, answer=answer)
        case DeletionWrite(_, group_id):
            del shard.groups[group_id]
            if answer:
                administration.deleted(broker, purpose, error)
        case ExpiryWrite():
            expiry.apply(shard, purpose)
        case EmptyWrite():
            pass


def _given_up(broker: BrokerState, shard: Shard, purpose: Purpose, error: ErrorCode) -> None:
    """A write timed out or another coordinator will see its outcome: answer the waiting client with the error."""
    match purpose:
        case OffsetsWrite():
            offsets.answer(broker, purpose, error)
        case AssignmentWrite(group_id) if error != ErrorCode.NOT_COORDINATOR:
            rebalancing.assignment_failed(broker, shard, shard.groups[group_id], purpose, error)
        case ReplacementWrite():
            members.replacement_failed(broker, purpose, error)
        case DeletionWrite():
            administration.deleted(broker, purpose, error)
        case _:
            pass  # `loading.give_up` has answered the waiting clients when leadership was lost


# --- finding a coordinator -------------------------------------------------------------------------------------------

CREATE = "create-offsets-topic"
GROUP_KEY, TRANSACTION_KEY = 0, 1
"""The `key_type` of a group and of a transactional id; only groups have a coordinator here."""


def find_coordinators(broker: BrokerState, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """The coordinator of every key, by this broker's image."""
    if request.key_type != GROUP_KEY:
        error = NO_TRANSACTIONS if request.key_type == TRANSACTION_KEY else ErrorCode.INVALID_REQUEST
        message = "this broker coordinates consumer groups only; it has no transactions and no share groups"
        return FindCoordinatorResponse(tuple(Coordinator(key, error, error_message=message) for key in request.keys))
    if OFFSETS_TOPIC not in broker.image.topics:
        _create_topic(broker)
    return FindCoordinatorResponse(tuple(_find_coordinator(broker, key) for key in request.keys))


def _find_coordinator(broker: BrokerState, group_id: str) -> Coordinator:
    topic = broker.image.topics.get(OFFSETS_TOPIC)
    if topic is None or not topic.partitions:
        return _unavailable(group_id, f"{OFFSETS_TOPIC} is being created")
    number = partition_of(group_id, len(topic.partitions))
    leader = broker.image.brokers.get(topic.partitions[number].leader)
    address = leader.address(CLIENT_LISTENER) if leader is not None and not leader.fenced else None
    if leader is None or address is None:
        return _unavailable(group_id, f"{OFFSETS_TOPIC}-{number} has no leader")
    return Coordinator(group_id, ErrorCode.NONE, leader.broker_id, *address)


def _unavailable(group_id: str, message: str) -> Coordinator:
    return Coordinator(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=message)


def _create_topic(broker: BrokerState) -> None:
    """Ask the controller to create the topic, unless a request is open; clients ask for the coordinator again.

    With fewer brokers than the wanted in-sync replicas, the topic's min ISR is lowered too: otherwise no group could
    ever be stored.
    """
    settings = broker.settings
    if any(opened.purpose == CREATE for opened in broker.runtime.open_requests.values()):
        return
    factor = min(settings.offsets_topic_replication_factor, len(broker.image.brokers))
    min_isr = broker.image.min_insync_replicas(OFFSETS_TOPIC, settings.min_insync_replicas)
    configs = {"cleanup.policy": COMPACT, "segment.bytes": str(settings.offsets_topic_segment_bytes)}
    if factor < min_isr:
        configs["min.insync.replicas"] = str(factor)
    topic = NewTopic(OFFSETS_TOPIC, settings.offsets_topic_num_partitions, factor, configs=tuple(configs.items()))
    broker.runtime.send(
        broker.controller_id,
        CreateTopicsRequest((topic,)),
        channel=CONTROL,
        timeout_ms=settings.request_timeout_ms,
        purpose=CREATE,
    )
