"""Validates record batches from a client (PR-1) and from a leader (TR-6), with an error for each way to be wrong."""

from __future__ import annotations

from broker.core.log.compression import CODECS
from broker.core.messages.errors import ErrorCode
from broker.core.records import (
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    MalformedBatch,
    base_offset_of,
    check_crc,
    filler,
    iterate_headers,
    read_header,
)

_MAGIC_POSITION = 16


class AppendError(Exception):
    """Replicated batches that do not fit the end of this log (TR-6). Nothing of them was appended."""


class OffsetMismatch(AppendError):
    """The batches do not begin at the log end offset, or leave a gap among themselves."""


class EpochOutOfRange(AppendError):
    """A batch's leader epoch is below that of the record before it, or above the current one (KAFKA-18723)."""


class CorruptBatch(AppendError):
    """A replicated batch cannot be read or fails its checksum."""


def check_batches(records: bytes, max_batch_bytes: int) -> tuple[BatchHeader] | ErrorCode:
    """The header of the one batch that a produce request may carry for a partition, or the error.

    CORRUPT_MESSAGE: not a whole batch, or a wrong checksum. MESSAGE_TOO_LARGE: more than `max_batch_bytes`.
    INVALID_RECORD: sound, but not for a client to send: an old format, no or several batches, numbers that contradict
    each other, control records, a time for tombstones to go, a producer id without sequence number. INVALID_TXN_STATE:
    of a transaction, of which there are none here. INVALID_TIMESTAMP: it claims to have the leader's time. The records
    themselves are not read.
    """
    if not records:
        return ErrorCode.INVALID_RECORD
    if len(records) > _MAGIC_POSITION and 0 <= records[_MAGIC_POSITION] < MAGIC:
        return ErrorCode.INVALID_RECORD
    try:
        header = read_header(records)
    except MalformedBatch:
        return ErrorCode.CORRUPT_MESSAGE
    if header.size > max_batch_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    if header.size > len(records) or not check_crc(records, 0, header.size):
        return ErrorCode.CORRUPT_MESSAGE
    if header.attributes & TRANSACTIONAL_FLAG:
        return ErrorCode.INVALID_TXN_STATE
    if header.attributes & LOG_APPEND_TIME_FLAG:
        return ErrorCode.INVALID_TIMESTAMP
    if (
        header.size != len(records)
        or header.records_count != header.last_offset_delta + 1
        or header.is_control
        or header.delete_horizon_ms is not None
        or header.codec >= len(CODECS)
        or (header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0))
    ):
        return ErrorCode.INVALID_RECORD
    return (header,)


def check_replicated(
    records: bytes, directory: str, end_offset: int, last_epoch: int | None, max_epoch: int
) -> tuple[list[BatchHeader], int]:
    """Headers of the whole batches among `records`, and their bytes, if a log that ends at `end_offset` may take them.

    They must be contiguous with it and one another, their leader epochs must not be below `last_epoch` (unless that is
    None) nor exceed `max_epoch`, and their checksums must be right; otherwise one of the `AppendError`s is raised.
    """
    headers: list[BatchHeader] = []
    size = 0
    try:
        for position, header in iterate_headers(records):
            if header.base_offset != end_offset:
                raise OffsetMismatch(
                    f"expected a batch at offset {end_offset} of {directory}, found {header.base_offset}"
                )
            if not (last_epoch is None or last_epoch <= header.leader_epoch) or header.leader_epoch > max_epoch:
                raise EpochOutOfRange(
                    f"expected a batch of an epoch from {last_epoch} to {max_epoch} at offset {end_offset}"
                    f" of {directory}, found epoch {header.leader_epoch}"
                )
            if not check_crc(records, position, header.size):
                raise CorruptBatch(
                    f"expected a sound batch at offset {end_offset} of {directory}, found a bad checksum"
                )
            headers.append(header)
            end_offset = header.base_offset + header.last_offset_delta + 1
            if last_epoch is not None:
                last_epoch = header.leader_epoch
            size += header.size
    except MalformedBatch as error:
        raise CorruptBatch(f"expected batches to replicate to {directory}: {error}") from None
    return headers, size


def without_overlap(records: bytes, end_offset: int) -> bytes:
    """A leader's batches without the part of a filler that lies before the end of the log that takes them."""
    if len(records) < HEADER_BYTES or not 0 <= base_offset_of(records) < end_offset:
        return records
    try:
        first = read_header(records)
    except MalformedBatch:
        return records
    if not first.is_filler or first.last_offset < end_offset:
        return records
    return filler(end_offset, first.last_offset, first.leader_epoch) + records[first.size :]


def first_offset_around(records: bytes, end_offset: int) -> int:
    """Where the first of a leader's batches begins if `end_offset`, of an empty log, lies inside it; else that end."""
    try:
        first = read_header(records)
    except MalformedBatch:
        return end_offset
    return min(first.base_offset, end_offset) if first.last_offset >= end_offset else end_offset
