"""Reads the logs of all replicas at the end of a simulation, as bytes; they are decoded only on demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker.core.log.log import Log
from broker.core.records import BatchHeader, MalformedBatch, decode_records, iterate_headers
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.node_views import brokers

_EVERYTHING = 1 << 62


class ReplicaLog(NamedTuple):
    """One replica's log: `data` holds whole batches from `start` to `end`."""

    start: int
    end: int
    high_watermark: int
    data: bytes


class ReplicaRecord(NamedTuple):
    """One record of a log; `value` is None for a tombstone, `crc` is its batch's checksum."""

    offset: int
    leader_epoch: int
    value: int | None
    crc: int


def replica_logs(cluster: SimulatedCluster) -> dict[tuple[int, int], ReplicaLog]:
    """The logs of the brokers that are up, by broker and partition."""
    found = {}
    for broker_id, state in brokers(cluster):
        for (_, partition), replica in state.replicas.items():
            log = replica.log
            found[broker_id, partition] = ReplicaLog(
                log.start_offset, log.end_offset, replica.high_watermark, b"".join(_segments(log))
            )
    return found


def records_of(data: bytes) -> Iterator[ReplicaRecord]:
    """Decode batches; control batches are passed over."""
    for at, header in iterate_headers(data):
        if not header.is_control:
            for record in decode_records(data, at):
                value = int.from_bytes(record.value, "big") if record.value is not None else None
                yield ReplicaRecord(record.offset, header.leader_epoch, value, header.crc)


def _segments(log: Log) -> Iterator[bytes]:
    offset = log.start_offset
    while data := log.read(offset, _EVERYTHING, log.end_offset):
        headers = _headers(data)
        if not headers:
            return
        yield data[: sum(header.size for header in headers)]
        offset = headers[-1].last_offset + 1


def _headers(data: bytes) -> list[BatchHeader]:
    """Headers of the batches in some bytes, up to the first malformed one, which a flawed broker may leave."""
    headers = []
    try:
        for _, header in iterate_headers(data):
            headers.append(header)
    except MalformedBatch:
        pass
    return headers
