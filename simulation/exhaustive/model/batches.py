"""Decodes batches: the decisions in those of the metadata, and the ends of those of a log."""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.metadata.records import BrokerRegistered, PartitionSet, PartitionState, decode_change
from broker.core.records import iterate_headers
from simulation.exhaustive.model.events import Decision, MetadataBatch


def decisions(batches: tuple[MetadataBatch, ...], partition: PartitionState | None) -> Iterator[Decision]:
    """The change that each batch makes to the partition."""
    for batch in batches:
        header = next(header for _, header in iterate_headers(batch.data))
        records = [] if header.is_control else [record for _, record in decode_change(batch.data)]
        states = [record.state for record in records if isinstance(record, PartitionSet)]
        registered = tuple(one.broker_id for one in records if isinstance(one, BrokerRegistered))
        after = states[-1] if states else partition
        yield Decision(registered, partition, after)
        partition = after


def whole_batches(data: bytes, count: int) -> bytes:
    """The first so many batches."""
    ends = [position + header.size for position, header in iterate_headers(data)]
    return data[: ([0, *ends])[min(count, len(ends))]]
