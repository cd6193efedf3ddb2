"""Appends coordinator records to the offsets topic as a producer with acks=all would (PR-2 … PR-6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.core.broker_node.groups.records import OFFSETS_TOPIC, GroupKey, OffsetKey, encode_key
from broker.core.broker_node.groups.state import TIMER, Purpose, Shard, Write
from broker.core.broker_node.requests import producing
from broker.core.broker_node.state import BrokerState
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch
from broker.core.replica.state import Replica, Role

DEADLINE = "write"

_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def error_for_clients(error: ErrorCode) -> ErrorCode:
    """The error that a group's client gets when the append failed; Kafka's table."""
    return _ERRORS.get(error, error)


def append(
    broker: BrokerState,
    shard: Shard,
    records: Iterable[tuple[GroupKey | OffsetKey, bytes | None]],
    purpose: Purpose,
) -> ErrorCode:
    """Append records in one batch; `purpose` is executed once they are replicated, abandoned after a timeout.

    Returns an error for the client if nothing was appended.
    """
    replica = led_replica(broker, shard)
    if replica is None:
        return ErrorCode.NOT_COORDINATOR
    encoded = [(encode_key(key), value) for key, value in records]
    batch = encode_batch(encoded, 0, 0, broker.runtime.wall_clock_ms)
    appended = producing.append_own(broker, replica, batch)
    if isinstance(appended, ErrorCode):
        return error_for_clients(appended)
    required = appended.last_offset + 1
    shard.writes[required] = Write(purpose)
    broker.runtime.set_timer(_deadline(shard, required), broker.settings.offsets_commit_timeout_ms)
    return ErrorCode.NONE


def led_replica(broker: BrokerState, shard: Shard) -> Replica | None:
    """The replica behind a shard, if this broker leads it in the shard's epoch."""
    replica = broker.replicas.get((OFFSETS_TOPIC, shard.partition))
    leads = replica is not None and replica.role is Role.LEADER and replica.leader_epoch == shard.leader_epoch
    return replica if leads else None


def take_replicated(broker: BrokerState, shard: Shard, replica: Replica) -> Iterator[tuple[Write, ErrorCode]]:
    """Remove and return the writes below the high watermark in log order, each with the error for its client."""
    by_replicas = broker.rules.produce.waits_for_replicas(producing.ALL_REPLICAS)
    while shard.writes:
        required = next(iter(shard.writes))
        error = producing.outcome(broker, replica, required, by_replicas=by_replicas)
        if error is None:
            return
        broker.runtime.cancel_timer(_deadline(shard, required))
        yield shard.writes.pop(required), error_for_clients(error)


def take_overdue(shard: Shard, required: int) -> Write | None:
    """Return a write whose deadline has passed: its client is answered now; it still applies once replicated."""
    write = shard.writes.get(required)
    if write is not None:
        write.given_up = True
    return write


def drop_all(broker: BrokerState, shard: Shard) -> list[Write]:
    """Drop all writes on loss of leadership; the next coordinator determines their outcome from the log."""
    writes, shard.writes = shard.writes, {}
    for required in writes:
        broker.runtime.cancel_timer(_deadline(shard, required))
    return [write for write in writes.values() if not write.given_up]


def _deadline(shard: Shard, required: int) -> tuple[str, str, int, int]:
    return (TIMER, DEADLINE, shard.partition, required)
