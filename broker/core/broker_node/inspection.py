"""Shows replicas and their logs to the admin endpoint, as JSON."""

from __future__ import annotations

import base64

from broker.core.broker_node import directories
from broker.core.broker_node.state import BrokerState
from broker.core.records import BatchHeader, decode_records, iterate_headers
from broker.core.replica import leader
from broker.core.replica.state import Replica

_SEQUENCE_MASK = (1 << 31) - 1
"""Sequence numbers start again at 0 (KIP-98)."""


def describe(broker: BrokerState, replica: Replica) -> dict[str, object]:
    """What the broker believes of a replica, as JSON."""
    return {
        "topic": replica.topic,
        "partition": replica.partition,
        "role": replica.role.value,
        "leader": replica.leader,
        "leader_epoch": replica.leader_epoch,
        "partition_epoch": replica.partition_epoch,
        "log_start": replica.log.start_offset,
        "log_end": replica.log.end_offset,
        "flushed": replica.log.flushed_offset,
        "high_watermark": replica.high_watermark,
        "isr": list(replica.isr),
        "min_isr": replica.effective_min_isr,
        "maximal_isr": sorted(leader.maximal_isr(replica, broker.rules)),
        "elr": list(replica.elr),
        "replicas": list(replica.replicas),
        "log_dir": broker.settings.log_dirs[directories.of(replica)],
        "epochs": [list(entry) for entry in replica.log.epochs.entries],
    }


def read_log(replica: Replica, offset: int, limit: int) -> dict[str, object]:
    """Up to `limit` records of a replica's log from an offset on, beyond the high watermark too."""
    log = replica.log
    records: list[list[object]] = []
    offset = max(offset, log.start_offset)
    while offset < log.end_offset and len(records) < limit:
        batches = log.read(offset, 1 << 20, log.end_offset)
        for position, header in iterate_headers(batches):
            for record in () if header.is_control else decode_records(batches, position):
                if record.offset >= offset:
                    records.append(
                        [
                            record.offset,
                            header.leader_epoch,
                            header.crc,
                            _text(record.key),
                            _text(record.value),
                            _producer(header, record.offset),
                        ]
                    )
            offset = header.last_offset + 1
    return {
        "log_start": log.start_offset,
        "log_end": log.end_offset,
        "high_watermark": replica.high_watermark,
        "records": records,
    }


def _producer(header: BatchHeader, offset: int) -> list[int] | None:
    """Producer id, its epoch, and the sequence number of a record; None if the producer was not idempotent."""
    if header.producer_id < 0:
        return None
    sequence = (header.base_sequence + offset - header.base_offset) & _SEQUENCE_MASK
    return [header.producer_id, header.producer_epoch, sequence]


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
