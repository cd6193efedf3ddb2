"""Finds records by timestamp: for ListOffsets, and for retention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from broker.core.log.segment import Segment
from broker.core.records import BatchHeader, MalformedBatch, Record, decode_records
from broker.core.rules.log import StorageRules

NO_TIMESTAMP = -1
_EXAMINED_MAX = 100_000
"""A batch may unfold to millions of records; after so many the answer is the first offset that was not examined."""


def offset_for_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, upto: int, rules: StorageRules
) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record in [start_offset, upto) not older than `timestamp_ms`."""
    for segment in segments:
        batch = segment.first_at_or_after(timestamp_ms)
        if batch is None:
            continue
        first = segment.header_at(batch.position).base_offset
        for header in segment.headers(first, upto):
            if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
                found = _first_in_batch(_Batch(segment, header, rules), timestamp_ms, start_offset, upto)
                if found is not None:
                    return (*found, header.leader_epoch)
    return None


def latest_timestamp(
    segments: Sequence[Segment], start_offset: int, upto: int, rules: StorageRules
) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record in [start_offset, upto) with the largest timestamp.

    None if no record there has a timestamp.
    """
    latest: tuple[int, int, int] | None = None
    for segment in segments:
        segment.load()
        least = NO_TIMESTAMP if latest is None else latest[0]
        if segment.end_offset > start_offset and segment.base_offset < upto and segment.max_timestamp > least:
            latest = _latest_in_segment(segment, least, start_offset, upto, rules) or latest
    return latest


def end_of_older(segments: Sequence[Segment], before_ms: int, bound: int) -> int | None:
    """Where the oldest segments end (exclusive) whose records are all older than `before_ms`; None if none is.

    Segments beyond `bound` do not count, nor do those with records and without any timestamp: their age is unknown.
    """
    end = None
    for segment in segments:
        segment.load()
        if segment.end_offset > bound:
            break
        if segment.max_timestamp == NO_TIMESTAMP and not _has_records(segment):
            continue  # compaction has emptied it; it goes with one that follows
        if not NO_TIMESTAMP < segment.max_timestamp < before_ms:
            break
        end = segment.end_offset
    return end


def _has_records(segment: Segment) -> bool:
    return any(header.records_count for header in segment.headers(segment.base_offset, segment.end_offset))


def _latest_in_segment(
    segment: Segment, least: int, start_offset: int, upto: int, rules: StorageRules
) -> tuple[int, int, int] | None:
    """The same for the part of one segment in [start_offset, upto), if it has a timestamp above `least`."""
    latest = None
    for header in _candidates(segment, start_offset, upto):
        if header.max_timestamp > least:
            found = _latest_in_batch(_Batch(segment, header, rules), start_offset, upto)
            if found is not None and found[0] > least:
                latest, least = (*found, header.leader_epoch), found[0]
    return latest


def _candidates(segment: Segment, start_offset: int, upto: int) -> Iterable[BatchHeader]:
    """The batches that may have the latest record of [start_offset, upto): one, unless the bounds cut that one."""
    batch = segment.first_at_or_after(segment.max_timestamp)
    if batch is not None:
        header = segment.header_at(batch.position)
        if start_offset <= header.base_offset and header.last_offset < upto:
            return (header,)
    first = segment.base_offset
    if start_offset > first:
        first = segment.header_at(segment.locate(start_offset).position).base_offset
    return segment.headers(first, upto)


class _Batch(NamedTuple):
    """A batch that is looked into, and the rules by which it is."""

    segment: Segment
    header: BatchHeader
    rules: StorageRules

    def records(self) -> Iterator[Record]:
        """Its records. Raises `MalformedBatch` if it may not be looked into, or cannot."""
        if not self.rules.looks_into(self.header.codec):
            raise MalformedBatch(f"expected a codec that is looked into, found {self.header.codec}")
        data = self.segment.read(self.segment.locate(self.header.base_offset).position, self.header.size)
        return decode_records(data, unfolded_bytes_max=self.rules.unfolded_bytes_max())


def _first_in_batch(batch: _Batch, timestamp_ms: int, start_offset: int, upto: int) -> tuple[int, int] | None:
    header = batch.header
    try:
        for record in batch.records():
            if start_offset <= record.offset < upto:
                if record.timestamp >= timestamp_ms:
                    return record.timestamp, record.offset
                if record.offset - header.base_offset >= _EXAMINED_MAX:
                    return header.max_timestamp, record.offset
    except MalformedBatch:
        return header.max_timestamp, max(header.base_offset, start_offset)
    return None


def _latest_in_batch(batch: _Batch, start_offset: int, upto: int) -> tuple[int, int] | None:
    header = batch.header
    latest = None
    try:
        for record in batch.records():
            if start_offset <= record.offset < upto and (latest is None or record.timestamp > latest[0]):
                latest = record.timestamp, record.offset
            if record.offset - header.base_offset >= _EXAMINED_MAX:
                break
    except MalformedBatch:
        return header.max_timestamp, max(header.base_offset, start_offset)
    return latest
