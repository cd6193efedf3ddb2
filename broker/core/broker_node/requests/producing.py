"""Serves Produce: append, wait for replicas, answer (§6)."""

from __future__ import annotations

from broker.core.broker_node import directories, isr_changes, storage
from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.broker_node.state import BrokerState, WaitingProduce
from broker.core.log.compaction.filtering import without_keys
from broker.core.log.log import Appended
from broker.core.messages import (
    NO_LEADER,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import CloseConnection, RequestReceived
from broker.core.ports.files import StorageError
from broker.core.ports.marks import sometimes
from broker.core.records import BatchHeader
from broker.core.replica import leader
from broker.core.replica.intake import Unfit, taken
from broker.core.replica.state import Replica, Role

DUPLICATE = sometimes("produce: a duplicate is answered with the offset it has (PR-5)")
DUPLICATE_WAITS = sometimes("produce: a duplicate of what is not committed yet waits as well (PR-5)")
REJECTED_AFTER_APPEND = sometimes("produce refused: after the append, the ISR became too small (PR-6)")
DEPOSED_WHILE_WAITING = sometimes("produce refused: the leader was deposed while it waited (PR-6)")
TIMED_OUT = sometimes("produce refused: the deadline passed (PR-6)")
CLIENT_GONE = sometimes("produce: the client has gone while it waited")
ACKS_0_REFUSED = sometimes("produce: acks=0, the connection is closed instead of an answer")
_REFUSED = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: sometimes("produce refused: no such partition (PR-1)"),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: sometimes("produce refused: not the leader (PR-1)"),
    ErrorCode.INVALID_REQUIRED_ACKS: sometimes("produce refused: no such acks (PR-1)"),
    ErrorCode.NOT_ENOUGH_REPLICAS: sometimes("produce refused: the ISR is below min ISR (PR-2)"),
    ErrorCode.CORRUPT_MESSAGE: sometimes("produce refused: a wrong checksum (PR-1)"),
    ErrorCode.INVALID_RECORD: sometimes("produce refused: not for a client to send, or without a key (PR-1)"),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: sometimes("produce refused: a sequence number out of order (PR-5)"),
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: sometimes("produce refused: an old duplicate (PR-5)"),
    ErrorCode.INVALID_PRODUCER_EPOCH: sometimes("produce refused: an old producer epoch (PR-5)"),
    ErrorCode.KAFKA_STORAGE_ERROR: sometimes("produce refused: the log directory has failed (KIP-112)"),
}

DEADLINE = "produce-deadline"
ALL_REPLICAS = -1
"""The `acks` that waits for all in-sync replicas."""

_KEY_NEEDED = "expected a key, found none: the topic is compacted"
_ERRORS_MAX = 100
"""Of so many records an answer says what is wrong (KIP-467)."""


def handle(broker: BrokerState, event: RequestReceived, request: ProduceRequest) -> None:
    """PR-1 … PR-5: append what is valid; answer at once, or when it is replicated."""
    answers: dict[tuple[str, int], ProducedPartition] = {}
    missing: dict[tuple[str, int], tuple[int, bool]] = {}
    for part in request.partitions:
        key = (part.topic, part.partition)
        answer, required = _append(broker, part, request.acks)
        answers[key] = answer
        if required is not None:
            missing[key] = (required, broker.rules.produce.waits_for_replicas(request.acks))
    if request.acks == 0:
        failed = any(answer.error_code for answer in answers.values())
        if failed and broker.rules.produce.closes_connection_on_error():
            broker.runtime.mark(ACKS_0_REFUSED)
            # a client with acks=0 gets no response, yet must learn that it sends to the wrong broker (KAFKA-955)
            broker.runtime.effects.append(CloseConnection(event.connection))
        broker.runtime.reply(event.request_id, None)
        return
    broker.produces[event.request_id] = WaitingProduce(answers, dict.fromkeys(missing), event.connection)
    for key, wanted in missing.items():
        replica = broker.replicas.get(key)
        if replica is None:  # another partition of the request has detected that the directory failed
            _fail(broker.produces[event.request_id], key, ErrorCode.KAFKA_STORAGE_ERROR)
            continue
        replica.waiting_produces[event.request_id] = wanted
        complete(broker, replica)
    if event.request_id not in broker.produces:
        return
    if broker.produces[event.request_id].missing:
        broker.runtime.set_timer((DEADLINE, event.request_id), request.timeout_ms)
    else:
        _answer(broker, event.request_id)


def _append(broker: BrokerState, part: ProducePartition, acks: int) -> tuple[ProducedPartition, int | None]:
    """Append one partition's records: its response on success, and the offset that has to be replicated first."""

    def refused(error: ErrorCode, message: str | None = None) -> tuple[ProducedPartition, None]:
        if error in _REFUSED:
            broker.runtime.mark(_REFUSED[error])
        return ProducedPartition(
            part.topic,
            part.partition,
            error,
            topic_id=part.topic_id,
            error_message=message,
            current_leader=_current_leader(replica),
        ), None

    replica = broker.replicas.get((part.topic, part.partition))
    if part.topic == OFFSETS_TOPIC:
        return refused(ErrorCode.INVALID_TOPIC_EXCEPTION)  # written by the coordinator only
    if replica is None:
        return refused(broker.absence_error(part.topic, part.partition))
    if replica.role is not Role.LEADER:
        return refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    error = broker.rules.produce.refuse(acks, replica.isr, replica.effective_min_isr)
    if error != ErrorCode.NONE:
        return refused(error)
    log = replica.log
    headers = log.check_batches(part.records)
    if isinstance(headers, ErrorCode):
        return refused(headers)
    if log.config.compaction is not None:
        unkeyed = without_keys(part.records, headers[0])
        if unkeyed is None:
            return refused(ErrorCode.INVALID_RECORD)
        if unkeyed:
            answer, _ = refused(ErrorCode.INVALID_RECORD, f"{len(unkeyed)} records are wrong, and none is appended")
            return answer._replace(record_errors=tuple((place, _KEY_NEEDED) for place in unkeyed[:_ERRORS_MAX])), None
    verdict = log.producers.verdict(headers[0])
    if verdict.error != ErrorCode.NONE:
        return refused(verdict.error)
    if verdict.duplicate_of is not None:
        base_offset, last_offset = verdict.duplicate_of
        append_time_ms = _append_time(log.batch_at(last_offset))
        broker.runtime.mark(DUPLICATE if last_offset < replica.high_watermark else DUPLICATE_WAITS)
    else:
        records, append_time_ms = part.records, -1
        if replica.intake is not None:
            now_ms = broker.runtime.wall_clock_ms
            try:
                records, header = taken(replica.intake, records, headers[0], now_ms, log.config.max_batch_bytes)
            except Unfit as unfit:
                return refused(unfit.error, str(unfit))
            headers = (header,)
            append_time_ms = _append_time(header)
        appended = _append_to_log(broker, replica, records, headers)
        if isinstance(appended, ErrorCode):
            return refused(appended)
        base_offset, last_offset = appended
    answer = ProducedPartition(
        part.topic,
        part.partition,
        ErrorCode.NONE,
        base_offset,
        log.start_offset,
        part.topic_id,
        log_append_time_ms=append_time_ms,
    )
    return answer, last_offset + 1


def _append_time(header: BatchHeader | None) -> int:
    """The time that a batch got from the leader, in ms since 1970; -1 if it has the producer's."""
    return header.max_timestamp if header is not None and header.has_log_append_time else -1


def append_own(broker: BrokerState, replica: Replica, records: bytes) -> Appended | ErrorCode:
    """Append a batch of the broker's own to a replica that it leads, as acks=all would, or return the error.

    `outcome` says when it is replicated.
    """
    error = broker.rules.produce.refuse(ALL_REPLICAS, replica.isr, replica.effective_min_isr)
    if error != ErrorCode.NONE:
        return error
    headers = replica.log.check_batches(records)
    return headers if isinstance(headers, ErrorCode) else _append_to_log(broker, replica, records, headers)


def _append_to_log(
    broker: BrokerState, replica: Replica, records: bytes, headers: tuple[BatchHeader]
) -> Appended | ErrorCode:
    try:
        appended = replica.log.append_as_leader(records, replica.leader_epoch, headers)
    except StorageError as error:
        directories.fail(broker, error)
        return ErrorCode.KAFKA_STORAGE_ERROR
    storage.appended(broker, replica)
    isr_changes.high_watermark_may_move(broker, replica)
    broker.touch(replica)
    return appended


def _current_leader(replica: Replica | None) -> tuple[int, int] | None:
    if replica is None or replica.leader == NO_LEADER:
        return None
    return replica.leader, replica.leader_epoch


def complete(broker: BrokerState, replica: Replica) -> None:
    """PR-6: answer this partition's requests for which the rule has an outcome."""
    for request_id, (required, by_replicas) in list(replica.waiting_produces.items()):
        error = outcome(broker, replica, required, by_replicas=by_replicas)
        if error is not None:
            if error == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                broker.runtime.mark(REJECTED_AFTER_APPEND)
            _resolve(broker, replica, request_id, error)


def outcome(broker: BrokerState, replica: Replica, required: int, *, by_replicas: bool) -> ErrorCode | None:
    """PR-6: the outcome of waiting for an offset; None while it has to wait."""
    if not by_replicas:
        return ErrorCode.NONE if replica.reported_end >= required else None
    maximal_isr_size = len(leader.maximal_isr(replica, broker.rules))
    return broker.rules.produce.outcome(required, replica.high_watermark, maximal_isr_size, replica.effective_min_isr)


def fail_all(broker: BrokerState, replica: Replica, error: ErrorCode) -> None:
    """RT-5: leadership is lost; waiting requests have an unknown outcome and are answered with the error."""
    for request_id in list(replica.waiting_produces):
        broker.runtime.mark(DEPOSED_WHILE_WAITING)
        _resolve(broker, replica, request_id, error)


def timed_out(broker: BrokerState, request_id: int) -> None:
    """PR-6: a waiting produce has reached its deadline."""
    waiting = broker.produces.get(request_id)
    if waiting is not None:
        broker.runtime.mark(TIMED_OUT)
        for key in list(waiting.missing):
            _resolve(broker, broker.replicas[key], request_id, ErrorCode.REQUEST_TIMED_OUT)


def forget_connection(broker: BrokerState, connection: int) -> None:
    """The client has disconnected: drop its waiting requests."""
    for request_id in [number for number, waiting in broker.produces.items() if waiting.connection == connection]:
        waiting = broker.produces.pop(request_id)
        broker.runtime.mark(CLIENT_GONE)
        broker.runtime.cancel_timer((DEADLINE, request_id))
        for key in waiting.missing:
            broker.replicas[key].waiting_produces.pop(request_id, None)


def _fail(waiting: WaitingProduce, key: tuple[str, int], error: ErrorCode) -> None:
    del waiting.missing[key]
    waiting.answers[key] = waiting.answers[key]._replace(error_code=error, base_offset=-1)


def _resolve(broker: BrokerState, replica: Replica, request_id: int, error: ErrorCode) -> None:
    del replica.waiting_produces[request_id]
    waiting = broker.produces[request_id]
    if error == ErrorCode.NONE:
        del waiting.missing[replica.key]
    else:
        _fail(waiting, replica.key, error)
    if not waiting.missing:
        broker.runtime.cancel_timer((DEADLINE, request_id))
        _answer(broker, request_id)


def _answer(broker: BrokerState, request_id: int) -> None:
    waiting = broker.produces.pop(request_id)
    broker.runtime.reply(request_id, ProduceResponse(tuple(waiting.answers.values())))
