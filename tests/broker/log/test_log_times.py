"""Record timestamps: which is the latest, and which segments have expired (LO-3)."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from broker.core.log.log import Log, LogConfig
from broker.core.log.segments.indexes import Indexes
from broker.core.log.segments.timestamps import Effort
from broker.core.records import encode_batch
from tests.support.memory_files import MemoryFiles

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100)
TIMES = (50, 10, 70, 20, 70, 60, 30, 40, 20, 10)


def batch(timestamp: int) -> bytes:
    return encode_batch([(None, b"value")] * 2, 0, 0, timestamp)


def written(times: tuple[int, ...] = TIMES, files: MemoryFiles | None = None) -> Log:
    """Batches of two records; each segment holds three of them."""
    log = Log.open(files or MemoryFiles(), "t-0", CONFIG, clean=True)
    for time in times:
        log.append_as_leader(batch(time), 3)
    return log


def reopened(files: MemoryFiles, *, clean: bool = False, **settings: int) -> Log:
    return Log.open(files, "t-0", CONFIG, clean=clean, **settings)


# --- the latest ------------------------------------------------------------------------------------------------------


def latest_by_reading(log: Log, upto: int, times: tuple[int, ...] = TIMES) -> tuple[int, int, int] | None:
    inside = [(times[offset // 2], -offset) for offset in range(log.start_offset, upto)]
    return (max(inside)[0], -max(inside)[1], 3) if inside else None


@pytest.mark.parametrize("start", range(21))
def test_the_latest_record_is_the_first_with_the_largest_timestamp_between_the_bounds(start: int) -> None:
    log = written()
    log.advance_start(start)
    for upto in range(start, 21):
        assert log.latest_timestamp(upto) == latest_by_reading(log, upto), upto


@pytest.mark.parametrize("clean", [True, False])
def test_the_latest_record_is_found_after_a_restart(clean: bool) -> None:
    files = MemoryFiles()
    log = written(files=files)
    log.close_clean()
    assert reopened(files, clean=clean).latest_timestamp(20) == (70, 4, 3)


def test_without_timestamps_there_is_no_latest_record() -> None:
    assert written(()).latest_timestamp(0) is None
    assert written((-1, -1)).latest_timestamp(4) is None


def test_the_latest_record_of_a_batch_that_cannot_be_decompressed_is_its_first() -> None:
    log = written((5,))
    unreadable = bytearray(batch(9))
    unreadable[22] |= 4  # a codec that this broker does not support
    log.append_as_leader(bytes(unreadable), 3)
    assert log.latest_timestamp(4) == (9, 2, 3)


def test_the_latest_record_may_be_any_of_its_batch() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1000)
    for offset, timestamp in enumerate((5, 9, 9, 7)):
        builder.append(offset, timestamp, None, b"value", [])
    log = written((8,))
    log.append_as_leader(bytes(builder.build()), 3)
    assert log.latest_timestamp(6) == (9, 3, 3)
    log.advance_start(5)
    assert log.latest_timestamp(6) == (7, 5, 3)


# --- out of date -----------------------------------------------------------------------------------------------------


def test_segments_are_out_of_date_by_their_latest_record() -> None:
    log = written((10, 20, 10, 30, 10, 10, 20, 20, 10, 40))
    assert log.segment_offsets == (0, 6, 12, 18)
    log.expire(20, 20)
    assert log.start_offset == 0
    log.expire(21, 20)
    assert (log.start_offset, log.segment_offsets) == (6, (6, 12, 18))
    log.expire(31, 20)
    assert (log.start_offset, log.segment_offsets) == (18, (18,))
    assert log.end_offset == 20


def test_no_segment_goes_that_reaches_beyond_the_bound() -> None:
    log = written((10,) * 10)
    log.expire(1000, 11)
    assert (log.start_offset, log.segment_offsets) == (6, (6, 12, 18))
    log.expire(1000, 19)
    assert log.segment_offsets == (18,)


def test_records_without_timestamp_are_kept() -> None:
    log = written((10, 10, 10, -1, -1, -1, 10, 10, 10, 10))
    log.expire(1000, 20)
    assert log.segment_offsets == (6, 12, 18)


def test_an_empty_log_stays_as_it_is() -> None:
    log = written(())
    log.expire(1000, 0)
    assert log.segment_offsets == (0,)


def test_a_log_whose_records_all_expired_continues_where_it_ended() -> None:
    log = written((10,) * 10)
    log.expire(11, 20)
    assert (log.start_offset, log.end_offset, log.segment_offsets, log.size_bytes) == (20, 20, (20,), 0)
    log.append_as_leader(batch(12), 4)
    assert log.latest_timestamp(22) == (12, 20, 4)


def test_after_a_power_failure_too() -> None:
    files = MemoryFiles()
    log = written((10,) * 10, files)
    log.sync()
    log.expire(11, 20)
    log = reopened(files.crash(), recovery_point=20, start_offset=0)  # the checkpoint of the start may be an old one
    assert (log.start_offset, log.end_offset) == (20, 20)


def test_a_log_that_has_begun_a_segment_already_continues_in_it_when_all_its_records_expire() -> None:
    files = MemoryFiles()
    log = written((10,) * 10, files)
    log.truncate_to(18)
    assert log.segment_offsets == (0, 6, 12, 18)
    log.expire(11, 18)
    assert (log.start_offset, log.end_offset, log.segment_offsets) == (18, 18, (18,))
    assert "00000000000000000018.log" in files.list("t-0")
    log.append_as_leader(batch(12), 4)
    assert log.read(18, 1000, 20)


def test_what_is_known_of_producers_outlives_their_records() -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", CONFIG, clean=True)
    for sequence in range(10):
        log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 10, 7, 0, sequence), 3)
    known = log.producers.states
    log.expire(11, 10)
    log.close_clean()
    assert known
    assert reopened(files, clean=True).producers.states == known


# --- what a search may cost ------------------------------------------------------------------------------------------


def test_a_search_ends_with_the_first_offset_that_it_did_not_examine_when_its_effort_is_spent() -> None:
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), clean=True)
    for _ in range(10):
        log.append_as_leader(claiming_more_than_it_has(), 3)
    effort = Effort(records=8)
    assert log.offset_for_timestamp(999, 20, effort) == (1000, 4, 3)
    assert effort.is_spent
    assert log.offset_for_timestamp(999, 20, Effort()) is None
    assert log.latest_timestamp(20, Effort(records=1)) == (1000, 0, 3)


def claiming_more_than_it_has() -> bytes:
    """A batch of two records of time 5 whose header says that its latest is 1000."""
    data = bytearray(batch(5))
    struct.pack_into(">q", data, 35, 1000)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return bytes(data)


def test_bytes_that_batches_unfold_to_count() -> None:
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), clean=True)
    for _ in range(10):
        log.append_as_leader(claiming_more_than_it_has(), 3)
    effort = Effort(unfolded_bytes=1)
    assert log.offset_for_timestamp(999, 20, effort) == (1000, 2, 3)


@pytest.mark.parametrize("delta", [1 << 62, -(1 << 62)])
def test_a_record_whose_time_fits_no_answer_has_no_time(delta: int) -> None:
    record = one_record(0, delta)
    start = (1 << 62) if delta > 0 else -(1 << 62)
    checked = struct.pack(">hiqqqhii", 0, 0, start * 3 // 2, 1000, -1, -1, -1, 1) + record
    data = struct.pack(">qiibI", 0, 9 + len(checked), 0, 2, crc32c(checked)) + checked
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), clean=True)
    log.append_as_leader(data, 3)
    assert log.offset_for_timestamp(1, 1) is None
    assert log.latest_timestamp(1) is None


def one_record(offset_delta: int, time_delta: int) -> bytes:
    body = b"\0" + zigzag(time_delta) + zigzag(offset_delta) + zigzag(-1) + zigzag(-1) + zigzag(0)
    return zigzag(len(body)) + body


@pytest.mark.parametrize("offset_delta", [0, 1 << 40])
def test_records_of_a_batch_are_counted_whatever_offsets_they_claim(offset_delta: int) -> None:
    checked = struct.pack(">hiqqqhii", 0, 999, 5, 1000, -1, -1, -1, 1000) + one_record(offset_delta, 0) * 1000
    data = struct.pack(">qiibI", 0, 9 + len(checked), 0, 2, crc32c(checked)) + checked
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), clean=True)
    log.append_as_leader(data, 3)
    for search in (
        lambda effort: log.offset_for_timestamp(999, 1000, effort),
        lambda effort: log.latest_timestamp(1000, effort),
    ):
        effort = Effort(records=100)
        search(effort)
        assert -5 < effort.records <= 0


def zigzag(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@pytest.mark.parametrize(("cut_at", "kept"), [(301, 3), (300, 2), (200, 1), (101, 1), (100, 0), (0, 0)])
def test_a_cut_takes_the_times_of_what_was_cut_along(cut_at: int, kept: int) -> None:
    indexes = Indexes()
    for number in (1, 2, 3):
        indexes.add(10 * number, 100 * number, 1_000 * number, 10 * number)
    indexes.truncate(cut_at)
    assert list(indexes.time_offsets) == list(indexes.offsets) == [10, 20, 30][:kept]
    assert indexes.floor_of_time(9_999) == kept - 1


@pytest.mark.parametrize(("first_at", "taken"), [(0, False), (100, True)])
def test_an_index_that_begins_with_the_first_batch_is_not_taken_for_whole(first_at: int, taken: bool) -> None:
    """A lookup begins at an entry's batch, and the first batch of a segment never gets an entry."""
    files = MemoryFiles()
    written = Indexes()
    for number in (0, 1, 2):
        written.add(10 * number + 9, first_at + 100 * number, 1_000 * (number + 1), 10 * number + 9)
    written.write(files, "t-0/0", 0)
    assert list(Indexes.read(files, "t-0/0", 0, 500).offsets) == ([9, 19, 29] if taken else [])
