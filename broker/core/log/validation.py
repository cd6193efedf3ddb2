"""Whether a leader may take what a client calls record batches (PR-1)."""

from __future__ import annotations

from broker.core.errors import ErrorCode
from broker.core.records import CODECS, MAGIC, BatchHeader, MalformedBatch, check_crc, read_header

_MAGIC_POSITION = 16


def check_batches(records: bytes, max_batch_bytes: int) -> tuple[BatchHeader] | ErrorCode:
    """The header of the one batch that a produce request may carry for a partition, or what is wrong with it.

    CORRUPT_MESSAGE: not a whole batch, or a wrong checksum. MESSAGE_TOO_LARGE: more than `max_batch_bytes`.
    INVALID_RECORD: sound, but not for a client to send: an old format, no or several batches, numbers that contradict
    each other, control records, a producer id without sequence number. The records themselves are not looked at.
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
    if (
        header.size != len(records)
        or header.records_count != header.last_offset_delta + 1
        or header.is_control
        or header.codec >= len(CODECS)
        or (header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0))
    ):
        return ErrorCode.INVALID_RECORD
    return (header,)
