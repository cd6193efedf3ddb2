"""Answers a request to delete topics, each as the design of the broker deletes one; deletes a partition's znodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.core.messages import DeletedTopic, DeleteTopicsRequest, DeleteTopicsResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import CallError, Delete, Exists, GetChildren
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.choices import DELETION_NEEDS_LEADER
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps, Until
from broker.zookeeper.reading import PartitionsOf
from broker.zookeeper.requests.assignment import Refusal
from broker.zookeeper.state import ZooKeeperState

DELETED = sometimes("zookeeper: a topic is deleted")
CLOSED_BY_LEADER = sometimes("zookeeper: a partition's leader has its replicas closed, for its deletion")
CLOSED_BY_ADMINISTRATOR = sometimes("zookeeper: nobody leads a partition, the administrator has its replicas closed")

_LOOK_AGAIN_MS = 1_000
"""After this time a wait looks for itself: a lost connection takes the watches that it waits for."""

RemovePartition = Callable[[ZooKeeperState, Key, int], Steps[bool]]
"""Takes a partition out of the tree once its live replicas have closed, until a time in ms; whether they have."""

AwaitClosed = Callable[[int], Steps[bool]]
"""Whether the live replicas of a partition have closed until a time in ms."""


def delete_topics(
    zk: ZooKeeperState,
    request_id: int,
    request: DeleteTopicsRequest,
    delete: Callable[[str, int], Steps[Refusal]],
) -> Steps[None]:
    """Delete the topics one after the other, each until the same time in ms; answer with what became of each."""
    until_ms = zk.broker.runtime.now_ms + request.timeout_ms
    deleted = []
    for name, topic_id in request.topics:
        if name is None:
            error, message = ErrorCode.UNKNOWN_TOPIC_ID, None
        else:
            error, message = yield from delete(name, until_ms)
        deleted.append(DeletedTopic(name, topic_id, error, message))
    zk.broker.runtime.reply(request_id, DeleteTopicsResponse(tuple(deleted)))


def delete_partitions(
    zk: ZooKeeperState,
    partitions_of: PartitionsOf,
    remove: RemovePartition,
    name: str,
    until_ms: int,
) -> Steps[Refusal]:
    """`deleteTopic` without a controller: one partition after the other; the first that fails ends it."""
    keys = yield from partitions_of(name)
    if not keys:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    for key in keys:
        if not (yield from remove(zk, key, until_ms)):
            message = (
                f"expected the replicas of partition {key[1]} of {name} to close in time, found requests that wait"
            )
            return ErrorCode.REQUEST_TIMED_OUT, f"{message}; delete it again"
    yield Delete(paths.topic(name))
    zk.broker.runtime.mark(DELETED)
    return ErrorCode.NONE, None


def close_replicas(
    zk: ZooKeeperState, key: Key, by_leader: AwaitClosed, by_administrator: AwaitClosed, until_ms: int
) -> Steps[bool]:
    """Whether the live replicas of a partition that is to be deleted have closed in time.

    The leader has them closed. If there is none, or it does not in half of the time, the administrator does (Q19).
    """
    is_led = (yield Exists(paths.leader(key))).stat is not None
    now_ms = zk.broker.runtime.now_ms
    needs_leader = zk.chose(DELETION_NEEDS_LEADER)
    if is_led and (yield from by_leader(until_ms if needs_leader else now_ms + (until_ms - now_ms) // 2)):
        zk.broker.runtime.mark(CLOSED_BY_LEADER)
        return True
    if needs_leader:
        return False
    zk.broker.runtime.mark(CLOSED_BY_ADMINISTRATOR)
    return (yield from by_administrator(until_ms))


def delete_znodes(zk: ZooKeeperState, key: Key, until_ms: int) -> Steps[None]:
    """Delete the partition with all below it, which a replica that was elected just before may add to."""
    while zk.broker.runtime.now_ms < until_ms:
        for name in (yield GetChildren(paths.partition(key))).children:
            yield Delete(f"{paths.partition(key)}/{name}")
        if (yield Delete(paths.partition(key))).error is not CallError.NOT_EMPTY:
            break
    yield Delete(paths.reassigned(key))


def await_change(zk: ZooKeeperState, watched: Sequence[str], until_ms: int) -> Steps[bool]:
    """Wait until a watch on one of these paths has fired, or it is time to look again; False if the time is over.

    The caller has added them to `zk.awaited`, before it set the watches.
    """
    left_ms = until_ms - zk.broker.runtime.now_ms
    if left_ms <= 0:
        return False
    yield Until(lambda: any(path not in zk.awaited for path in watched), min(left_ms, _LOOK_AGAIN_MS))
    return True
