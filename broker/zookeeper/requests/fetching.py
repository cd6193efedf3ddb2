"""Serves Fetch for followers and consumers, at the leader only, and without any epoch."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.messages import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import RequestReceived
from broker.core.ports.marks import sometimes
from broker.zookeeper.choices import SERVES_NOBODY_YET
from broker.zookeeper.state import Hosted, WaitingFetch, ZooKeeperState

BEYOND_END = sometimes("zookeeper: a follower's fetch beyond the leader's log end is believed (Z-06)")

DEADLINE = "fetch-deadline"


def handle(
    zk: ZooKeeperState,
    event: RequestReceived,
    request: FetchRequest,
    fetched_from: Callable[[ZooKeeperState, Hosted, int, int], None],
) -> None:
    """Note with `fetched_from` how far a follower is; answer, or wait until there is something."""
    if request.replica_id >= 0:
        for part in request.partitions:
            hosted = zk.hosted.get((part.topic, part.partition))
            if hosted is not None and _serves_follower(zk, hosted):
                fetched_from(zk, hosted, request.replica_id, part.fetch_offset)
    if not _answer(zk, event.request_id, request, at_deadline=request.max_wait_ms <= 0):
        zk.fetches[event.request_id] = WaitingFetch(request, event.connection)
        for part in request.partitions:
            zk.hosted[part.topic, part.partition].replica.waiting_fetches[event.request_id] = None
        zk.broker.runtime.set_timer((DEADLINE, event.request_id), request.max_wait_ms)


def believe(zk: ZooKeeperState, hosted: Hosted, follower: int, offset: int) -> None:
    """Take what a follower asks for at face value."""
    if offset > hosted.replica.log.end_offset:
        zk.broker.runtime.mark(BEYOND_END)
    hosted.reported(follower, offset)


def wake(zk: ZooKeeperState, hosted: Hosted) -> None:
    """A log, a high watermark or a leadership has changed: try the fetches that wait for it."""
    for request_id in list(hosted.replica.waiting_fetches):
        if _answer(zk, request_id, zk.fetches[request_id].request, at_deadline=False):
            _forget(zk, request_id)


def timed_out(zk: ZooKeeperState, request_id: int) -> None:
    """A fetch has waited long enough."""
    waiting = zk.fetches.get(request_id)
    if waiting is not None:
        _answer(zk, request_id, waiting.request, at_deadline=True)
        _forget(zk, request_id)


def forget_connection(zk: ZooKeeperState, connection: int) -> None:
    """The reader has gone."""
    for request_id in [number for number, waiting in zk.fetches.items() if waiting.connection == connection]:
        _forget(zk, request_id)


def _forget(zk: ZooKeeperState, request_id: int) -> None:
    waiting = zk.fetches.pop(request_id)
    zk.broker.runtime.cancel_timer((DEADLINE, request_id))
    for part in waiting.request.partitions:
        hosted = zk.hosted.get((part.topic, part.partition))
        if hosted is not None:
            hosted.replica.waiting_fetches.pop(request_id, None)


def _answer(zk: ZooKeeperState, request_id: int, request: FetchRequest, *, at_deadline: bool) -> bool:
    parts: list[FetchedPartition] = []
    size = 0
    for part in request.partitions:
        room = min(request.max_bytes, zk.broker.settings.fetch_max_bytes) - size
        parts.append(_read(zk, request, part, room, first=size == 0))
        size += len(parts[-1].records)
    is_urgent = at_deadline or any(one.error_code != ErrorCode.NONE for one in parts)
    if not is_urgent and size < max(1, request.min_bytes):
        return False
    zk.broker.runtime.reply(request_id, FetchResponse(tuple(parts)))
    return True


def _read(
    zk: ZooKeeperState, request: FetchRequest, part: FetchPartition, room: int, *, first: bool
) -> FetchedPartition:
    hosted = zk.hosted.get((part.topic, part.partition))
    by_follower = request.replica_id >= 0
    if hosted is None or not (_serves_follower(zk, hosted) if by_follower else hosted.is_open):
        return FetchedPartition(part.topic, part.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    replica = hosted.replica
    log = replica.log
    if not (by_follower and not zk.is_controlled) and not log.start_offset <= part.fetch_offset <= log.end_offset:
        return FetchedPartition(part.topic, part.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
    bound = log.end_offset if by_follower else replica.high_watermark
    records = b""
    if part.fetch_offset < bound and (room > 0 or first):
        records = log.read(part.fetch_offset, min(part.max_bytes, room), bound, minimum_one=first)
    return FetchedPartition(
        part.topic,
        part.partition,
        ErrorCode.NONE,
        replica.high_watermark,
        replica.high_watermark,
        log.start_offset,
        records,
    )


def _serves_follower(zk: ZooKeeperState, hosted: Hosted) -> bool:
    return hosted.is_open or (hosted.is_elected and not zk.chose(SERVES_NOBODY_YET))
