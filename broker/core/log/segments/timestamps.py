"""Finds records by timestamp: for ListOffsets, and for retention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.core.log.compression import DECOMPRESSED_BYTES_MAX
from broker.core.log.segments.segment import Segment
from broker.core.records import BatchHeader, MalformedBatch, Record, decode_unfolded, unfolded
from broker.core.rules.log import StorageRules

NO_TIMESTAMP = -1
_EXAMINED_MAX = 100_000
"""A batch may unfold to millions of records; after so many the answer is the first offset that was not examined."""

_TIMESTAMP_MAX = (1 << 63) - 1


@dataclass(slots=True)
class Effort:
    """What the searches of one request may still cost, together: a client may ask for thousands of them.

    A search that uses up the rest of it ends with the first offset that it has not examined.
    """

    records: int = 2 * _EXAMINED_MAX
    unfolded_bytes: int = 2 * DECOMPRESSED_BYTES_MAX

    @property
    def is_spent(self) -> bool:
        """Whether no other search may begin."""
        return self.records <= 0 or self.unfolded_bytes <= 0


def offset_for_timestamp(
    segments: Sequence[Segment],
    timestamp_ms: int,
    start_offset: int,
    upto: int,
    rules: StorageRules,
    effort: Effort,
) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record in [start_offset, upto) not older than `timestamp_ms`."""
    for segment in segments:
        batch = segment.first_at_or_after(timestamp_ms)
        if batch is None:
            continue
        first = segment.header_at(batch.position).base_offset
        for header in segment.headers(first, upto):
            effort.records -= 1
            if effort.is_spent:
                return (*_unexamined(header, start_offset), header.leader_epoch)
            if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
                found = _first_in_batch(_Batch(segment, header, rules, effort), timestamp_ms, start_offset, upto)
                if found is not None:
                    return (*found, header.leader_epoch)
    return None


def latest_timestamp(
    segments: Sequence[Segment], start_offset: int, upto: int, rules: StorageRules, effort: Effort
) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record in [start_offset, upto) with the largest timestamp.

    None if no record there has a timestamp.
    """
    latest: tuple[int, int, int] | None = None
    for segment in segments:
        segment.load()
        least = NO_TIMESTAMP if latest is None else latest[0]
        if segment.end_offset > start_offset and segment.base_offset < upto and segment.max_timestamp > least:
            latest = _latest_in_segment(segment, least, start_offset, upto, rules, effort) or latest
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
    segment: Segment, least: int, start_offset: int, upto: int, rules: StorageRules, effort: Effort
) -> tuple[int, int, int] | None:
    """The same for the part of one segment in [start_offset, upto), if it has a timestamp above `least`."""
    latest = None
    for header in _candidates(segment, start_offset, upto):
        effort.records -= 1
        if effort.is_spent:
            return latest or (*_unexamined(header, start_offset), header.leader_epoch)
        if header.max_timestamp > least:
            found = _latest_in_batch(_Batch(segment, header, rules, effort), start_offset, upto)
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
    """A batch that is looked into, the rules by which it is, and what that may still cost."""

    segment: Segment
    header: BatchHeader
    rules: StorageRules
    effort: Effort

    def records(self) -> Iterator[Record]:
        """Its records. Raises `MalformedBatch` if it may not be looked into, or cannot."""
        if not self.rules.looks_into(self.header.codec):
            raise MalformedBatch(f"expected a codec that is looked into, found {self.header.codec}")
        data = self.segment.read(self.segment.locate(self.header.base_offset).position, self.header.size)
        try:
            body = unfolded(data, 0, self.rules.unfolded_bytes_max())
        except MalformedBatch:
            self.effort.unfolded_bytes -= DECOMPRESSED_BYTES_MAX  # it may have cost as much
            raise
        self.effort.unfolded_bytes -= len(body)
        for record in decode_unfolded(body, self.header):
            self.effort.records -= 1
            yield record


def _first_in_batch(batch: _Batch, timestamp_ms: int, start_offset: int, upto: int) -> tuple[int, int] | None:
    header = batch.header
    try:
        for examined, record in enumerate(batch.records()):
            inside = start_offset <= record.offset < upto
            if inside and timestamp_ms <= record.timestamp <= _TIMESTAMP_MAX:
                return record.timestamp, record.offset
            if examined >= _EXAMINED_MAX or batch.effort.records <= 0:
                return (header.max_timestamp, record.offset) if inside else _unexamined(header, start_offset)
    except MalformedBatch:
        return _unexamined(header, start_offset)
    return None


def _unexamined(header: BatchHeader, start_offset: int) -> tuple[int, int]:
    """The answer for a batch that cannot be read, or has not been: no record that is asked for comes before it."""
    return header.max_timestamp, max(header.base_offset, start_offset)


def _latest_in_batch(batch: _Batch, start_offset: int, upto: int) -> tuple[int, int] | None:
    latest: tuple[int, int] | None = None
    try:
        for examined, record in enumerate(batch.records()):
            least = NO_TIMESTAMP if latest is None else latest[0]
            if start_offset <= record.offset < upto and least < record.timestamp <= _TIMESTAMP_MAX:
                latest = record.timestamp, record.offset
            if examined >= _EXAMINED_MAX or batch.effort.records <= 0:
                break
    except MalformedBatch:
        return _unexamined(batch.header, start_offset)
    return latest
