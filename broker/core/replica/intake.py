"""Converts what a producer sends to the compression and the timestamps that a topic wants, before the leader appends.

`compression.type`, `message.timestamp.type`, and the bounds `message.timestamp.before.max.ms` and `after.max.ms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.core.configuration import topics
from broker.core.configuration.settings import UNLIMITED, Settings
from broker.core.configuration.values import PRODUCER, UNCOMPRESSED
from broker.core.log.compression import CODECS, UnknownCodec, compress
from broker.core.log.segments.timestamps import NO_TIMESTAMP
from broker.core.messages.errors import ErrorCode
from broker.core.records import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    MalformedBatch,
    UnsupportedCompression,
    decode_records,
    read_header,
    uncompressed,
    with_records,
)

RECORDS_MAX = 100_000
"""Of how many records the timestamps are compared with bounds; a batch of more is refused where there are bounds."""


class Intake(NamedTuple):
    """What a leader does with batches. `codec` None: they stay as the producer compressed them. Times in ms."""

    codec: int | None
    log_append_time: bool
    before_max_ms: int
    after_max_ms: int

    @property
    def bounds_times(self) -> bool:
        """Whether producers' timestamps have to be near the broker's."""
        return not self.log_append_time and (self.before_max_ms, self.after_max_ms) != (UNLIMITED, UNLIMITED)


class Unfit(Exception):
    """A batch that a topic does not take; the message says what was expected and found."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def intake_of(settings: Settings, configs: Mapping[str, str]) -> Intake | None:
    """What a topic with these settings of its own wants; None if it takes batches as they come."""
    compression = topics.COMPRESSION_TYPE.value(settings, configs)
    intake = Intake(
        None if compression == PRODUCER else 0 if compression == UNCOMPRESSED else CODECS.index(compression),
        topics.TIMESTAMPS.value(settings, configs) == "LogAppendTime",
        topics.TIMESTAMP_BEFORE.value(settings, configs),
        topics.TIMESTAMP_AFTER.value(settings, configs),
    )
    return None if intake == _AS_THEY_COME else intake


_AS_THEY_COME = Intake(None, False, UNLIMITED, UNLIMITED)


def taken(
    intake: Intake, records: bytes, header: BatchHeader, now_ms: int, max_bytes: int
) -> tuple[bytes, BatchHeader]:
    """The batch as the leader appends it, and its header. `now_ms` is the time of day.

    The records in it stay the same bytes, so that offsets, sequence numbers and times in it keep their meaning; with
    the time of appending only the header says so. Raises `Unfit`.
    """
    if intake.bounds_times:
        _check_times(intake, records, header, now_ms)
    recompresses = intake.codec is not None and intake.codec != header.codec
    if not recompresses and not intake.log_append_time:
        return records, header
    body = records[HEADER_BYTES:]
    attributes = header.attributes
    try:
        if recompresses and intake.codec is not None:
            body = compress(intake.codec, uncompressed(body, header))
            attributes = attributes & ~COMPRESSION_MASK | intake.codec
    except (MalformedBatch, UnknownCodec) as error:
        raise _unreadable(error) from None
    max_timestamp = header.max_timestamp
    if intake.log_append_time:
        attributes |= LOG_APPEND_TIME_FLAG
        max_timestamp = now_ms
    batch = with_records(header._replace(attributes=attributes, max_timestamp=max_timestamp), body)
    if len(batch) > max_bytes:
        raise Unfit(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"expected at most {max_bytes} bytes as the topic stores it, found {len(batch)}",
        )
    return batch, read_header(batch)


def _check_times(intake: Intake, records: bytes, header: BatchHeader, now_ms: int) -> None:
    if header.records_count > RECORDS_MAX:
        raise Unfit(
            ErrorCode.INVALID_RECORD,
            f"expected at most {RECORDS_MAX} records in a batch where timestamps are bounded, "
            f"found {header.records_count}",
        )
    try:
        for record in decode_records(records):
            ahead_ms = record.timestamp - now_ms
            if record.timestamp != NO_TIMESTAMP and not -intake.before_max_ms <= ahead_ms <= intake.after_max_ms:
                raise Unfit(
                    ErrorCode.INVALID_TIMESTAMP,
                    f"expected a time from {intake.before_max_ms} ms before to {intake.after_max_ms} ms after the "
                    f"broker's, {now_ms}, found {record.timestamp}",
                )
    except MalformedBatch as error:
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> Unfit:
    is_unknown = isinstance(error, (UnsupportedCompression, UnknownCodec))
    return Unfit(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if is_unknown else ErrorCode.INVALID_RECORD, str(error))
