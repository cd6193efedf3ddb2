"""Finding an offset by time (ListOffsets)."""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.log.segment import Segment
from broker.core.records import BatchHeader, MalformedBatch, decode_records


def offset_for_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, upto: int
) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record in [start_offset, upto) not older than `timestamp_ms`."""
    for segment in segments:
        place = segment.first_at_or_after(timestamp_ms)
        if place is None:
            continue
        first = segment.header_at(place.position).base_offset
        for header in segment.headers(first, upto):
            if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
                found = _first_in_batch(segment, header, timestamp_ms, start_offset, upto)
                if found is not None:
                    return (*found, header.leader_epoch)
    return None


def _first_in_batch(
    segment: Segment, header: BatchHeader, timestamp_ms: int, start_offset: int, upto: int
) -> tuple[int, int] | None:
    batch = segment.read(segment.locate(header.base_offset).position, header.size)
    try:
        for record in decode_records(batch):
            if record.timestamp >= timestamp_ms and start_offset <= record.offset < upto:
                return record.timestamp, record.offset
    except MalformedBatch:
        return header.max_timestamp, max(header.base_offset, start_offset)
    return None
