"""Answers an administrator who has partitions moved to other replicas, or asks which are being moved.

The designs without a controller have a list of the new replicas in the tree until the leader has completed the move.
"""

from __future__ import annotations

from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
    Reassignment,
    ReassignmentResult,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import is_legal_name
from broker.core.ports.coordination import CallError, Create, Delete, GetChildren
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import is_published, read_ids, replicas_of
from broker.zookeeper.requests.assignment import Refusal
from broker.zookeeper.state import ZooKeeperState

REQUESTED = sometimes("zookeeper: an administrator has a partition moved")
UNDER_WAY = sometimes("zookeeper: a partition is to be moved that is being moved, created or deleted")


def reassign(zk: ZooKeeperState, request_id: int, request: AlterPartitionReassignmentsRequest) -> Steps[None]:
    """Write each partition's new replicas into the tree, and answer; their leaders carry that out."""
    live = {int(name) for name in (yield GetChildren(paths.IDS)).children}
    results = []
    for wanted in request.reassignments:
        error, message = yield from _reassign(zk, wanted, live, may_resize=request.allow_replication_factor_change)
        results.append(ReassignmentResult(wanted.topic, wanted.partition, error, message))
    zk.broker.runtime.reply(request_id, AlterPartitionReassignmentsResponse(ErrorCode.NONE, tuple(results)))


def _reassign(zk: ZooKeeperState, wanted: Reassignment, live: set[int], *, may_resize: bool) -> Steps[Refusal]:
    key, target = (wanted.topic, wanted.partition), wanted.replicas
    assigned = (yield from replicas_of(key)) if is_legal_name(wanted.topic) else ()
    if not assigned:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if target is None:
        if (yield from read_ids(paths.reassigned(key))) is None:
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
        return ErrorCode.INVALID_REQUEST, "this design has no way to end a reassignment before it is complete"
    if not target or len(set(target)) < len(target) or not set(target) <= live:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"expected distinct live brokers, found {list(target)}"
    if not may_resize and len(target) != len(assigned):
        message = f"expected {len(assigned)} replicas, since the factor may not change, found {len(target)}"
        return ErrorCode.INVALID_REPLICATION_FACTOR, message
    if target == assigned:
        return ErrorCode.NONE, None
    yield Create(paths.reassigned_topic(key[0]))
    if (yield Create(paths.reassigned(key), paths.encoded(target))).error is CallError.NODE_EXISTS:
        zk.broker.runtime.mark(UNDER_WAY)
        return ErrorCode.REASSIGNMENT_IN_PROGRESS, "the partition is being moved, created or deleted"
    if not (yield from is_published(key)):  # deleted meanwhile, and its next one is not to be moved
        yield Delete(paths.reassigned(key))
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    zk.broker.runtime.mark(REQUESTED)
    return ErrorCode.NONE, None


def list_reassignments(zk: ZooKeeperState, request_id: int, request: ListPartitionReassignmentsRequest) -> Steps[None]:
    """Answer which of the partitions, or of all, are to have other replicas, and which those are."""
    keys = list(request.partitions) if request.partitions is not None else (yield from _all_requested())
    ongoing = []
    for key in keys:
        assigned = yield from replicas_of(key)
        target = (yield from read_ids(paths.reassigned(key))) or ()
        if assigned and target:  # else it is being created, or deleted
            adding = tuple(one for one in target if one not in assigned)
            removing = tuple(one for one in assigned if one not in target)
            ongoing.append(OngoingReassignment(*key, (*target, *removing), adding, removing))
    zk.broker.runtime.reply(request_id, ListPartitionReassignmentsResponse(ErrorCode.NONE, tuple(ongoing)))


def _all_requested() -> Steps[list[Key]]:
    keys = []
    for topic in (yield GetChildren(paths.REASSIGNED)).children:
        path = paths.reassigned_topic(topic)
        keys += [(topic, paths.number_of(name, path)) for name in (yield GetChildren(path)).children]
    return sorted(keys)
