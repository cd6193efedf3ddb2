"""Records that go: on demand, and by retention (LO-3)."""

from __future__ import annotations

from broker.core.broker_node import directories
from broker.core.broker_node.state import BrokerState
from broker.core.errors import ErrorCode
from broker.core.files import StorageError
from broker.core.marks import sometimes
from broker.core.messages import DeletedRecords, DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResponse
from broker.core.replica.state import Replica, Role

DELETED = sometimes("log start: moved by DeleteRecords (LO-3)")
DELETION_REFUSED = sometimes("log start: DeleteRecords above the high watermark is refused (LO-3)")

RETENTION = "retention"


def delete_records(broker: BrokerState, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """LO-3: move the log start of partitions that this broker leads; followers learn it by their fetches."""
    return DeleteRecordsResponse(tuple(_delete(broker, part) for part in request.partitions))


def _delete(broker: BrokerState, part: DeleteRecordsPartition) -> DeletedRecords:
    replica = broker.replicas.get((part.topic, part.partition))
    if replica is None:
        return DeletedRecords(part.topic, part.partition, broker.why_absent(part.topic, part.partition))
    if replica.role is not Role.LEADER:
        return DeletedRecords(part.topic, part.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
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
    """`retention.bytes`: a leader drops whole segments that its log has no room for, below the high watermark only."""
    for replica in list(broker.replicas.values()):
        topic = broker.image.topics.get(replica.topic)
        limit = int(topic.configs.get("retention.bytes", "-1")) if topic is not None else -1
        if limit >= 0 and replica.role is Role.LEADER:
            with directories.guarded(broker):
                _retain_bytes(broker, replica, limit)
    broker.runtime.set_timer((RETENTION,), broker.settings.log_retention_check_interval_ms)


def _retain_bytes(broker: BrokerState, replica: Replica, limit: int) -> None:
    bound = broker.rules.fetch.deletion_bound(replica.high_watermark, replica.log.end_offset)
    while replica.log.size_bytes > limit:
        following = [offset for offset in replica.log.segment_offsets[1:] if offset > replica.log.start_offset]
        if not following or following[0] > bound:
            return
        replica.log.advance_start(following[0])
        broker.runtime.note("info", f"{replica.topic}-{replica.partition}: log starts at {replica.log.start_offset}")
