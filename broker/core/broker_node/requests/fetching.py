"""Serves Fetch for consumers and followers: check, read, wait (§7)."""

from __future__ import annotations

from broker.core.broker_node import directories, isr_changes
from broker.core.broker_node.requests import fetch_sessions, follower_reads
from broker.core.broker_node.requests.fetch_sessions import NO_SESSION, Fetch, Rest, SessionPartition
from broker.core.broker_node.state import BrokerState, WaitingFetch
from broker.core.messages import (
    NO_LEADER,
    NO_PREFERRED_REPLICA,
    UNKNOWN,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import RequestReceived
from broker.core.ports.files import StorageError
from broker.core.ports.marks import sometimes
from broker.core.replica import leader
from broker.core.replica.state import Replica, Role

OLD_EPOCH = sometimes("fetch refused: an older leader epoch (FE-2)")
NEW_EPOCH = sometimes("fetch refused: a newer leader epoch than is known here (FE-2)")
NOT_LEADER = sometimes("fetch refused: not the leader (FE-3)")
NOT_A_REPLICA = sometimes("fetch refused: the follower is not a replica, as far as is known (FE-4)")
OLD_INCARNATION = sometimes("fetch refused: an earlier incarnation of the follower sent it (FE-5)")
NO_SUCH_PARTITION = sometimes("fetch refused: no such partition (FE-1)")
DIVERGING = sometimes("fetch: the logs part before the offset, the answer says where (FE-6)")
BELOW_START = sometimes("fetch refused: below the log start (FE-6, FE-7)")
EPOCH_UNKNOWN = sometimes("fetch refused: the last fetched epoch is above all that are known (FE-6)")
BEYOND_END = sometimes("fetch refused: beyond the log end (FE-7)")
WAITS_FOR_CERTAINTY = sometimes("fetch: a consumer waits until the high watermark is certain (HW-9)")
NOT_CERTAIN = sometimes("fetch refused: the high watermark is not certain in time (HW-9)")

WAITS_AT_FOLLOWER = sometimes("fetch: a consumer waits at a follower whose high watermark lags (FE-14)")
SERVED_BY_FOLLOWER = sometimes("fetch: a follower serves a consumer (FE-14)")

STORAGE_FAILED = sometimes("fetch refused: the log directory has failed (KIP-112)")
_ABSENT = {
    ErrorCode.KAFKA_STORAGE_ERROR: STORAGE_FAILED,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: NOT_LEADER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: NO_SUCH_PARTITION,
}

DEADLINE = "fetch-deadline"


def handle(broker: BrokerState, event: RequestReceived, request: FetchRequest) -> None:
    """Answer at once if there is something to report, otherwise wait for records or the deadline."""
    now_ms = broker.runtime.now_ms
    fetch = fetch_sessions.open_fetch(broker.fetch_sessions, request, now_ms, broker.image, broker.rules.fetch)
    if isinstance(fetch, ErrorCode):
        broker.runtime.reply(event.request_id, FetchResponse((), fetch))
        return
    request = fetch.request
    if request.replica_id >= 0:
        for part in request.partitions:
            _record_follower(broker, fetch, part)
    broker.fetches[event.request_id] = WaitingFetch(fetch, event.connection)
    if request.max_wait_ms <= 0:
        try_answer(broker, event.request_id, at_deadline=True)
    elif not try_answer(broker, event.request_id, at_deadline=False):
        _mark_waiting(broker, request)
        for part in request.partitions:
            broker.replicas[part.topic, part.partition].waiting_fetches[event.request_id] = None
        broker.runtime.set_timer((DEADLINE, event.request_id), request.max_wait_ms)


def try_answer(broker: BrokerState, request_id: int, *, at_deadline: bool) -> bool:
    """Answer a fetch if it has enough bytes or a change to report at once; at the deadline, with what there is."""
    waiting = broker.fetches[request_id]
    fetch = waiting.fetch
    request = fetch.request
    max_bytes = min(request.max_bytes, broker.settings.fetch_max_bytes)
    parts: list[FetchedPartition] = []
    size, urgent = 0, at_deadline
    for part in request.partitions:
        entry = fetch.entry(part)
        if entry is not None and _is_at_rest(broker, request, part, entry):
            continue
        answer, waits = _read(broker, request, part, max_bytes - size, first=size == 0)
        if waits and at_deadline:
            broker.runtime.mark(NOT_CERTAIN)
            answer = answer._replace(error_code=ErrorCode.OFFSET_NOT_AVAILABLE)
        elif entry is not None and not waits:
            fetch_sessions.record_rest(entry, answer, _rest(broker, request, part))
        parts.append(answer)
        size += len(answer.records)
        urgent = urgent or _is_urgent(answer)
    if not urgent and size < max(1, min(request.min_bytes, max_bytes)):
        waiting.read_bytes += size
        if waiting.read_bytes < broker.settings.fetch_max_bytes:
            return False
    _forget(broker, request_id)
    session_id = NO_SESSION if fetch.session is None else fetch.session.session_id
    broker.runtime.reply(request_id, FetchResponse(fetch_sessions.answer(fetch, parts), session_id=session_id))
    return True


def _is_urgent(answer: FetchedPartition) -> bool:
    """Whether the reader must hear of it at once."""
    return (
        answer.error_code != ErrorCode.NONE
        or answer.diverging_epoch is not None
        or answer.preferred_read_replica != NO_PREFERRED_REPLICA
    )


def _mark_waiting(broker: BrokerState, request: FetchRequest) -> None:
    for part in request.partitions if request.replica_id < 0 else ():
        replica = broker.replicas[part.topic, part.partition]
        if replica.role is not Role.LEADER:
            if broker.rules.fetch.awaits_offset(part.fetch_offset, replica.high_watermark):
                broker.runtime.mark(WAITS_AT_FOLLOWER)
        elif replica.high_watermark < replica.leader_epoch_start:
            broker.runtime.mark(WAITS_FOR_CERTAINTY)


def wake(broker: BrokerState, replica: Replica) -> None:
    """The replica's log or high watermark has moved: retry the fetches that wait on it."""
    for request_id in list(replica.waiting_fetches):
        if request_id in broker.fetches:
            try_answer(broker, request_id, at_deadline=False)


def timed_out(broker: BrokerState, request_id: int) -> None:
    """A waiting fetch has reached its deadline."""
    if request_id in broker.fetches:
        try_answer(broker, request_id, at_deadline=True)


def forget_connection(broker: BrokerState, connection: int) -> None:
    """The reader has disconnected: drop its waiting fetches."""
    for request_id in [number for number, waiting in broker.fetches.items() if waiting.connection == connection]:
        _forget(broker, request_id)


def _forget(broker: BrokerState, request_id: int) -> None:
    waiting = broker.fetches.pop(request_id)
    broker.runtime.cancel_timer((DEADLINE, request_id))
    for part in waiting.fetch.request.partitions:
        replica = broker.replicas.get((part.topic, part.partition))
        if replica is not None:
            replica.waiting_fetches.pop(request_id, None)


def _check(broker: BrokerState, request: FetchRequest, part: FetchPartition) -> tuple[Replica | None, ErrorCode]:
    """FE-1 … FE-5, in this order: the replica if it may be read, otherwise the first failed check."""
    if not part.topic:
        return None, ErrorCode.UNKNOWN_TOPIC_ID
    replica = broker.replicas.get((part.topic, part.partition))
    if replica is None:
        error = broker.absence_error(part.topic, part.partition)
        broker.runtime.mark(_ABSENT[error])
        return None, error
    rules = broker.rules.fetch
    error = rules.check_epoch(part.current_leader_epoch, replica.leader_epoch)
    if error != ErrorCode.NONE:
        broker.runtime.mark(OLD_EPOCH if error == ErrorCode.FENCED_LEADER_EPOCH else NEW_EPOCH)
    elif not rules.serves(
        request.replica_id >= 0, replica.role is Role.LEADER, replica.role is Role.FOLLOWER, request.rack_id
    ):
        broker.runtime.mark(NOT_LEADER)
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error == ErrorCode.NONE and request.replica_id >= 0:
        error = rules.check_replica(request.replica_id in replica.remotes, part.current_leader_epoch != UNKNOWN)
        if error == ErrorCode.NONE:
            error = rules.check_replica_epoch(
                request.replica_epoch,
                broker.image.broker_epoch(request.replica_id),
                replica.remotes[request.replica_id].broker_epoch,
            )
            if error != ErrorCode.NONE:
                broker.runtime.mark(OLD_INCARNATION)
        else:
            broker.runtime.mark(NOT_A_REPLICA)
    return replica, error


def check_position(
    broker: BrokerState, replica: Replica, part: FetchPartition
) -> tuple[ErrorCode, tuple[int, int] | None]:
    """FE-6 and FE-7: whether the two logs diverge before the offset, and whether the offset is in the log.

    A follower that serves a consumer only knows whether its own log begins later: it may lag (FE-14).
    """
    log = replica.log
    if replica.role is not Role.LEADER:
        below = part.fetch_offset < log.start_offset
        if below:
            broker.runtime.mark(BELOW_START)
        return ErrorCode.OFFSET_OUT_OF_RANGE if below else ErrorCode.NONE, None
    if part.last_fetched_epoch != UNKNOWN:
        end = log.epochs.end_offset(part.last_fetched_epoch, log.end_offset)
        if end is None or part.fetch_offset < log.start_offset:
            broker.runtime.mark(EPOCH_UNKNOWN if end is None else BELOW_START)
            return ErrorCode.OFFSET_OUT_OF_RANGE, None
        if broker.rules.fetch.diverges(part.fetch_offset, part.last_fetched_epoch, *end):
            broker.runtime.mark(DIVERGING)
            return ErrorCode.NONE, end
    if not broker.rules.fetch.is_in_log(part.fetch_offset, log.start_offset, log.end_offset):
        broker.runtime.mark(BELOW_START if part.fetch_offset < log.start_offset else BEYOND_END)
        return ErrorCode.OFFSET_OUT_OF_RANGE, None
    return ErrorCode.NONE, None


def _is_at_rest(broker: BrokerState, request: FetchRequest, part: FetchPartition, entry: SessionPartition) -> bool:
    """Whether the partition is at rest: reading it again would find nothing new."""
    return entry.rest is not None and entry.rest == _rest(broker, request, part)


def _rest(broker: BrokerState, request: FetchRequest, part: FetchPartition) -> Rest | None:
    replica = broker.replicas.get((part.topic, part.partition))
    if replica is None:
        return None
    by_follower = request.replica_id >= 0
    bound = broker.rules.fetch.read_bound(by_follower, replica.high_watermark, replica.log.end_offset)
    return fetch_sessions.rest_of(replica, request.replica_id, bound, part.fetch_offset)


def _record_follower(broker: BrokerState, fetch: Fetch, part: FetchPartition) -> None:
    """FE-9: a valid fetch updates the follower's state; then the ISR may grow and the high watermark move."""
    request = fetch.request
    entry = fetch.entry(part)
    if entry is not None and _is_at_rest(broker, request, part, entry):
        _record_fetch(broker, broker.replicas[part.topic, part.partition], request, part)
        return
    replica, error = _check(broker, request, part)
    if replica is None or error != ErrorCode.NONE:
        return
    error, diverging = check_position(broker, replica, part)
    if not broker.rules.fetch.moves_follower_state(error, diverging is not None):
        return
    _record_fetch(broker, replica, request, part)
    if leader.propose_expansion(replica, request.replica_id, broker.image, broker.rules):
        broker.runtime.log(
            "info", f"{replica.topic}-{replica.partition}: {request.replica_id} caught up; asking to expand"
        )
        isr_changes.propose(broker, replica)
    isr_changes.high_watermark_may_move(broker, replica)


def _record_fetch(broker: BrokerState, replica: Replica, request: FetchRequest, part: FetchPartition) -> None:
    leader.record_fetch(
        replica.remotes[request.replica_id],
        offset=part.fetch_offset,
        log_start=part.log_start_offset,
        broker_epoch=request.replica_epoch,
        leader_end=replica.log.end_offset,
        now_ms=broker.runtime.now_ms,
    )


def _read(
    broker: BrokerState, request: FetchRequest, part: FetchPartition, room: int, *, first: bool
) -> tuple[FetchedPartition, bool]:
    """One partition's response, and whether it should wait because the high watermark is not certain yet.

    HW-9, for consumers: a new leader's high watermark may lag what was committed. An empty response would then claim
    that there are no records, which is not known; such a fetch waits, and ends with OFFSET_NOT_AVAILABLE.
    """
    replica, error = _check(broker, request, part)
    if replica is None or error != ErrorCode.NONE:
        leader_hint = None
        if replica is not None and replica.leader != NO_LEADER:
            leader_hint = (replica.leader, replica.leader_epoch)
        return FetchedPartition(
            part.topic, part.partition, error, current_leader=leader_hint, topic_id=part.topic_id
        ), False
    error, diverging = check_position(broker, replica, part)
    log = replica.log
    by_follower = request.replica_id >= 0
    records = b""
    waits = False
    preferred = NO_PREFERRED_REPLICA
    if error == ErrorCode.NONE and diverging is None:
        bound = broker.rules.fetch.read_bound(by_follower, replica.high_watermark, log.end_offset)
        if not by_follower and replica.role is Role.LEADER:
            preferred = follower_reads.preferred_replica(broker, replica, request.rack_id, part)
        if preferred != NO_PREFERRED_REPLICA:
            pass  # the records are read there
        elif part.fetch_offset < bound and (room > 0 or first):
            try:
                read = log.read if by_follower else log.read_records
                records = read(part.fetch_offset, min(part.max_bytes, room), bound, minimum_one=first)
                if replica.role is not Role.LEADER:
                    broker.runtime.mark(SERVED_BY_FOLLOWER)
            except StorageError as failure:
                directories.fail(broker, failure)
                error = ErrorCode.KAFKA_STORAGE_ERROR
        elif not by_follower:
            waits = part.fetch_offset >= bound and _is_uncertain(broker, replica, part)
    return FetchedPartition(
        part.topic,
        part.partition,
        error,
        replica.high_watermark,
        replica.high_watermark,
        log.start_offset,
        records,
        diverging,
        topic_id=part.topic_id,
        preferred_read_replica=preferred,
    ), waits


def _is_uncertain(broker: BrokerState, replica: Replica, part: FetchPartition) -> bool:
    """HW-9, FE-14: whether records after the offset may be committed that the high watermark here does not cover."""
    if replica.role is not Role.LEADER:
        return broker.rules.fetch.awaits_offset(part.fetch_offset, replica.high_watermark)
    return not broker.rules.high_watermark.is_certain(replica.high_watermark, replica.leader_epoch_start)
