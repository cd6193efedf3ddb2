"""Deletes what is old: records, on request and by retention (LO-3), and the state of idle producers (KIP-98).

A log's producer state follows from its contents and holds no times. So each replica records at every check which
batch was a producer's latest, and since when. The clock is this process's monotonic clock: unlike in Kafka,
which uses record timestamps, neither a clock change nor an old timestamp lets a duplicate in. A restart
restarts the expiration period, and so does every truncation: what follows may end at the same offset, and is later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from broker.core.broker_node import directories
from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.broker_node.state import BrokerState
from broker.core.configuration import cleanup, topics
from broker.core.configuration.settings import Settings
from broker.core.messages import DeletedRecords, DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.files import StorageError
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Replica, Role

DELETED = sometimes("log start: moved by DeleteRecords (LO-3)")
EXPIRED = sometimes("log start: moved because records are older than retention.ms (LO-3)")
DELETION_REFUSED = sometimes("log start: DeleteRecords above the high watermark is refused (LO-3)")

RETENTION = "retention"
FOR_EVER = -1


def delete_records(broker: BrokerState, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """LO-3: raise the log start of partitions that this broker leads; followers learn it from their fetches."""
    return DeleteRecordsResponse(tuple(_delete(broker, part) for part in request.partitions))


def _delete(broker: BrokerState, part: DeleteRecordsPartition) -> DeletedRecords:
    replica = broker.replicas.get((part.topic, part.partition))
    if replica is None:
        return DeletedRecords(part.topic, part.partition, broker.absence_error(part.topic, part.partition))
    if replica.role is not Role.LEADER:
        return DeletedRecords(part.topic, part.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    topic = broker.image.topics.get(part.topic)
    if topic is not None and not cleanup.may_delete_records(broker.settings, topic.name, topic.configs):
        return DeletedRecords(part.topic, part.partition, ErrorCode.POLICY_VIOLATION)
    offset = replica.high_watermark if part.offset == -1 else part.offset
    if not 0 <= offset <= broker.rules.fetch.deletion_bound(replica.high_watermark, replica.log.end_offset):
        broker.runtime.mark(DELETION_REFUSED)
        return DeletedRecords(part.topic, part.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
    if offset > replica.log.start_offset:
        broker.runtime.mark(DELETED)
    try:
        replica.log.advance_start(offset)
    except StorageError as error:
        directories.fail(broker, error)
        return DeletedRecords(part.topic, part.partition, ErrorCode.KAFKA_STORAGE_ERROR)
    broker.touch(replica)
    return DeletedRecords(part.topic, part.partition, ErrorCode.NONE, replica.log.start_offset)


def retain(broker: BrokerState) -> None:
    """LO-3: delete a leader's whole segments by `retention.ms` and `retention.bytes`, below the high watermark only."""
    for replica in list(broker.replicas.values()):
        topic = broker.image.topics.get(replica.topic)
        if topic is None or replica.role is not Role.LEADER:
            continue
        retention_ms, retention_bytes = retention(broker.settings, topic.name, topic.configs)
        with directories.guarded(broker):
            if retention_ms != FOR_EVER:
                _retain_ms(broker, replica, retention_ms)
            if retention_bytes != FOR_EVER:
                _retain_bytes(broker, replica, retention_bytes)
    broker.runtime.set_timer((RETENTION,), broker.settings.log_retention_check_interval_ms)


def retention(settings: Settings, topic: str, configs: Mapping[str, str]) -> tuple[int, int]:
    """`retention.ms` and `retention.bytes` of a topic; -1: unlimited. Only where `cleanup.policy` has `delete`.

    The node's defaults never apply to committed offsets, whatever their topic's policy.
    """
    if topic == OFFSETS_TOPIC:
        settings = replace(settings, log_retention_ms=FOR_EVER, log_retention_bytes=FOR_EVER)
    if not cleanup.deletes(settings, topic, configs):
        return FOR_EVER, FOR_EVER
    return topics.RETENTION_MS.value(settings, configs), topics.RETENTION_BYTES.value(settings, configs)


def _retain_ms(broker: BrokerState, replica: Replica, retention_ms: int) -> None:
    before = replica.log.start_offset
    replica.log.expire(broker.runtime.wall_clock_ms - retention_ms, _bound(broker, replica))
    if replica.log.start_offset > before:
        broker.runtime.mark(EXPIRED)
        _log_new_start(broker, replica)


def _retain_bytes(broker: BrokerState, replica: Replica, retention_bytes: int) -> None:
    if replica.log.size_bytes > retention_bytes:
        replica.log.advance_start(replica.log.start_offset)  # what lies before it goes first, as in Kafka
    while replica.log.size_bytes > retention_bytes:
        following = [offset for offset in replica.log.segment_offsets[1:] if offset > replica.log.start_offset]
        if not following or following[0] > _bound(broker, replica):
            return
        replica.log.advance_start(following[0])
        _log_new_start(broker, replica)


def _bound(broker: BrokerState, replica: Replica) -> int:
    return broker.rules.fetch.deletion_bound(replica.high_watermark, replica.log.end_offset)


def _log_new_start(broker: BrokerState, replica: Replica) -> None:
    broker.runtime.log("info", f"{replica.topic}-{replica.partition}: log starts at {replica.log.start_offset}")


FORGOTTEN = sometimes("produce: an idle producer is forgotten (KIP-98)")

IDLE_PRODUCERS = "idle-producers"


def forget_idle_producers(broker: BrokerState) -> None:
    """Apply `producer.id.expiration.ms` on every replica, leader or not; repeats after the configured interval."""
    for replica in broker.replicas.values():
        _expire_idle(broker, replica)
    broker.runtime.set_timer((IDLE_PRODUCERS,), broker.settings.producer_id_expiration_check_interval_ms)


def _expire_idle(broker: BrokerState, replica: Replica) -> None:
    now_ms = broker.runtime.now_ms
    before, replica.latest_of_producers = replica.latest_of_producers, {}
    for producer_id, state in list(replica.log.producers.states.items()):
        latest = replica.log.truncations, state.batches[-1].last_offset
        known, since_ms = before.get(producer_id, (latest, now_ms))
        if known != latest:
            since_ms = now_ms
        if now_ms - since_ms >= broker.settings.producer_id_expiration_ms:
            broker.runtime.mark(FORGOTTEN)
            replica.log.producers.forget(producer_id)
        else:
            replica.latest_of_producers[producer_id] = latest, since_ms
