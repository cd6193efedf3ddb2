from __future__ import annotations

import pytest
from crc32c import crc32c

from broker.core.log.log import Log, LogConfig
from broker.core.log.segments.segment import CorruptLog
from broker.core.log.validation import CorruptBatch, EpochOutOfRange, OffsetMismatch
from broker.core.messages.errors import ErrorCode
from broker.core.ports.files import StorageError
from broker.core.records import MalformedBatch, decode_records, encode_batch, iterate_headers, read_header
from tests.support.memory_files import MemoryFiles

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def batch(records: int = 1, offset: int = 0, epoch: int = 0, timestamp: int = 0, value: bytes = b"value") -> bytes:
    return encode_batch([(b"key", value)] * records, offset, epoch, timestamp)


def new_log(config: LogConfig = SMALL, files: MemoryFiles | None = None) -> Log:
    return Log.open(files or MemoryFiles(), "orders-0", config, clean=True)


def filled(batches: int = 30, records: int = 2, config: LogConfig = SMALL, files: MemoryFiles | None = None) -> Log:
    log = new_log(config, files)
    for index in range(batches):
        log.append_as_leader(batch(records, timestamp=1000 + index), 1 + index // 10)
    return log


# --- what a client may send ------------------------------------------------------------------------------------------


def changed(data: bytes, position: int, value: int) -> bytes:
    return data[:position] + bytes([value]) + data[position + 1 :]


def with_checksum(data: bytes) -> bytes:
    return data[:17] + crc32c(data[21:]).to_bytes(4) + data[21:]


def test_a_sound_batch_is_let_in() -> None:
    data = batch(3)
    assert new_log().check_batches(data) == (read_header(data),)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(batch()[:-1], ErrorCode.CORRUPT_MESSAGE, id="cut off"),
        pytest.param(batch()[:30], ErrorCode.CORRUPT_MESSAGE, id="cut off in the header"),
        pytest.param(changed(batch(), 65, 0xFF), ErrorCode.CORRUPT_MESSAGE, id="flipped bits"),
        pytest.param(changed(batch(), 16, 3), ErrorCode.CORRUPT_MESSAGE, id="unknown format"),
        pytest.param(changed(batch(), 16, 1), ErrorCode.INVALID_RECORD, id="old format"),
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(batch() + batch(), ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(with_checksum(changed(batch(), 60, 2)), ErrorCode.INVALID_RECORD, id="count contradicts offsets"),
        pytest.param(with_checksum(changed(batch(), 22, 5)), ErrorCode.INVALID_RECORD, id="unknown codec"),
        pytest.param(encode_batch([(b"", b"")], 0, 0, 0, control=True), ErrorCode.INVALID_RECORD, id="control records"),
        pytest.param(encode_batch([(b"", b"")], 0, 0, 0, 5, 0, -1), ErrorCode.INVALID_RECORD, id="no sequence"),
        pytest.param(batch(value=bytes(2000)), ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
    ],
)
def test_anything_else_is_refused_by_name(data: bytes, error: ErrorCode) -> None:
    assert new_log(LogConfig(max_batch_bytes=1000)).check_batches(data) is error


# --- append ----------------------------------------------------------------------------------------------------------


def test_a_leader_gives_offsets_and_its_epoch_whatever_the_batch_bore() -> None:
    log = new_log()
    log.append_as_leader(batch(3, offset=77, epoch=9), 5)
    appended = log.append_as_leader(batch(2, offset=77, epoch=9), 6)
    assert appended == (3, 4)
    headers = [header for _, header in iterate_headers(log.read(0, 1 << 20, 5))]
    assert [(h.base_offset, h.leader_epoch) for h in headers] == [(0, 5), (3, 6)]
    assert log.epochs.entries == ((5, 0), (6, 3))
    assert log.last_epoch == 6


def test_a_leader_appends_several_batches_at_once() -> None:
    log = new_log()
    assert log.append_as_leader(batch(3) + batch(2) + batch(1), 1) == (0, 5)
    assert [record.offset for record in decode_records(log.read(4, 1, 6))] == [3, 4]


@pytest.mark.parametrize("data", [b"", b"garbage", batch()[:-1], batch() + b"x"])
def test_a_leader_appends_whole_batches_or_nothing(data: bytes) -> None:
    log = new_log()
    with pytest.raises(MalformedBatch):
        log.append_as_leader(data, 1)
    assert (log.end_offset, log.epochs.entries) == (0, ())


def test_a_follower_appends_what_the_leader_has_and_passes_over_an_incomplete_batch() -> None:
    leader, follower = filled(20), new_log()
    data = leader.read(0, 1 << 20, leader.end_offset)
    first_segment_end = leader.segment_offsets[1]
    assert follower.append_as_follower(data[:-5], 1) == first_segment_end - 2
    assert follower.append_as_follower(batch()[:20], 1) == first_segment_end - 2
    assert follower.epochs.entries == ((1, 0),)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(batch(offset=1, epoch=2), OffsetMismatch, id="gap"),
        pytest.param(batch(offset=0, epoch=2) + batch(offset=2, epoch=2), OffsetMismatch, id="gap within"),
        pytest.param(batch(offset=0, epoch=4), EpochOutOfRange, id="epoch from the future"),
        pytest.param(batch(offset=0, epoch=2) + batch(offset=1, epoch=1), EpochOutOfRange, id="epoch goes back"),
        pytest.param(batch(offset=0, epoch=2) + changed(batch(offset=1, epoch=2), 65, 9), CorruptBatch, id="bits"),
        pytest.param(batch(offset=0, epoch=2) + b"\0" * 80, CorruptBatch, id="garbage"),
    ],
)
def test_a_follower_takes_all_or_nothing(data: bytes, error: type[Exception]) -> None:
    log = new_log()
    with pytest.raises(error, match="expected"):
        log.append_as_follower(data, 3)
    assert (log.end_offset, log.size_bytes, log.epochs.entries) == (0, 0, ())


def test_a_full_segment_is_followed_by_a_new_one() -> None:
    log = new_log()
    for _ in range(40):
        log.append_as_leader(batch(), 1)
    assert len(log.segment_offsets) >= 3
    assert log.segment_offsets == tuple(sorted(set(log.segment_offsets)))
    assert log.end_offset == 40


def test_a_segment_that_is_too_old_for_a_later_record_is_followed_by_a_new_one() -> None:
    log = new_log(LogConfig(segment_ms=1000))
    follower = new_log(LogConfig(segment_ms=1000))
    for timestamp in (5_000, 6_000, 4_000, 6_001, 7_001, -1, 7_002):
        log.append_as_leader(batch(timestamp=timestamp), 0)
        follower.append_as_follower(log.read(log.end_offset - 1, 1 << 20, log.end_offset), 0)
    assert log.segment_offsets == follower.segment_offsets == (0, 3, 6)
    reopened = Log.open(log._files, log.directory, LogConfig(segment_ms=1000), clean=False)
    reopened.append_as_leader(batch(timestamp=8_003), 0)
    assert reopened.segment_offsets == (0, 3, 6, 7)


def test_a_batch_larger_than_a_segment_has_one_to_itself() -> None:
    log = new_log()
    log.append_as_leader(batch(), 1)
    log.append_as_leader(batch(value=bytes(5000)), 1)
    log.append_as_leader(batch(), 1)
    assert log.segment_offsets == (0, 1, 2)
    assert len(log.read(1, 10, 3)) > 5000


def test_a_disk_that_refuses_is_reported() -> None:
    files = MemoryFiles()
    log = new_log(files=files)
    files.fail = lambda operation, name: operation == "append"
    with pytest.raises(StorageError, match="EIO"):
        log.append_as_leader(batch(), 1)
    assert log.end_offset == 0


# --- read ------------------------------------------------------------------------------------------------------------


def test_reading_begins_with_the_batch_that_contains_the_offset() -> None:
    log = filled()
    for offset in range(60):
        assert read_header(log.read(offset, 1, 60)).base_offset == offset // 2 * 2


def test_reading_stops_before_a_batch_that_reaches_the_bound() -> None:
    log = filled(3)
    assert len(list(iterate_headers(log.read(0, 1 << 20, 5)))) == 2
    assert log.read(4, 1 << 20, 5) == b""


def test_reading_returns_at_least_one_batch_only_if_asked_to() -> None:
    log = filled(3)
    assert log.read(0, 10, 6, minimum_one=False) == b""
    assert read_header(log.read(0, 10, 6)).last_offset == 1
    two = 2 * len(batch(2))
    assert len(log.read(0, two, 6)) == two
    assert len(log.read(0, two - 1, 6)) == two // 2


@pytest.mark.parametrize("offset", [-1, 60, 99])
def test_nothing_is_read_outside_of_the_log(offset: int) -> None:
    log = filled()
    assert log.read(offset, 1000, 1000) == b""
    assert log.batch_at(offset) is None


def test_a_long_segment_is_read_the_same_from_its_index_as_from_its_tail() -> None:
    log = filled(6000, records=1, config=LogConfig(index_interval_bytes=500))
    data = log.read(0, 1 << 30, 6000)
    positions = {header.base_offset: position for position, header in iterate_headers(data)}
    for offset in range(0, 6000, 37):
        for max_bytes in (1, 300, 5000):
            found = log.read(offset, max_bytes, 5990)
            assert data[positions[offset] :].startswith(found)
            assert max_bytes - 100 < len(found) <= max(max_bytes, 100) or offset > 5900
    assert len(log.read(10, 1 << 30, 5990)) == positions[5990] - positions[10]
    assert len(log.read(10, 1 << 30, 20)) == positions[20] - positions[10]


@pytest.mark.parametrize(("timestamp", "offset"), [(0, 0), (1000, 0), (1007, 14), (1029, 58), (1030, None)])
def test_a_timestamp_leads_to_the_first_record_not_older(timestamp: int, offset: int | None) -> None:
    log = filled()
    found = log.offset_for_timestamp(timestamp, log.end_offset)
    assert (found and found[1]) == offset
    if found:
        assert found == (max(timestamp, 1000), offset, 1 + (offset or 0) // 20)


def test_a_timestamp_lookup_keeps_to_its_bound_and_the_log_start() -> None:
    log = filled()
    assert log.offset_for_timestamp(1020, 40) is None
    assert log.offset_for_timestamp(1020, 41) == (1020, 40, 3)
    log.advance_start(45)
    assert log.offset_for_timestamp(1020, 60) == (1022, 45, 3)


def test_timestamps_that_go_back_are_found_too() -> None:
    log = new_log()
    for timestamp in (50, 10, 70, 20, 60):
        for _ in range(10):
            log.append_as_leader(batch(timestamp=timestamp), 1)
    assert log.offset_for_timestamp(55, 50) == (70, 20, 1)
    assert log.offset_for_timestamp(15, 50) == (50, 0, 1)


def test_a_batch_that_cannot_be_decompressed_is_found_by_its_first_offset() -> None:
    log = new_log()
    log.append_as_leader(batch(), 1)
    log.append_as_leader(with_checksum(changed(batch(2, timestamp=9), 22, 4)), 1)
    assert log.offset_for_timestamp(5, 3) == (9, 1, 1)


def test_a_batch_of_unreadable_records_is_found_by_its_first_offset() -> None:
    log = new_log()
    log.append_as_leader(with_checksum(changed(batch(2, timestamp=9), 61, 0xFF)), 1)
    assert log.offset_for_timestamp(5, 2) == (9, 0, 1)


def test_a_log_file_damaged_while_it_is_open_is_a_storage_error() -> None:
    files = MemoryFiles()
    log = filled(3000, records=1, config=LogConfig(), files=files)
    files.files["orders-0/00000000000000000000.log"].data[:200] = bytes(200)
    with pytest.raises(CorruptLog, match="expected a record batch at position 0 of orders-0/0"):
        log.read(0, 100, 3000)
    with pytest.raises(CorruptLog):
        log.offset_for_timestamp(0, 3000)
    with pytest.raises(StorageError):
        log.truncate_to(1)


# --- truncate --------------------------------------------------------------------------------------------------------


def test_truncation_goes_back_to_the_beginning_of_a_batch() -> None:
    log = filled()
    assert log.truncate_to(41) == 40
    assert log.epochs.entries == ((1, 0), (2, 20))
    assert (log.last_epoch, log.truncations) == (2, 1)
    assert log.append_as_leader(batch(), 7).base_offset == 40


def test_truncation_does_not_read_a_log_without_producers() -> None:
    files = MemoryFiles()
    log = filled(files=files)
    snapshots = [name for name in files.list("orders-0") if name.endswith(".snapshot")]
    read: list[int] = []
    read_file = files.read
    files.read = lambda name, position, size: read.append(size) or read_file(name, position, size)  # type: ignore
    log.truncate_to(log.segment_offsets[1] + 4)
    assert sum(read) < 3000
    assert [name for name in files.list("orders-0") if name.endswith(".snapshot")] == snapshots[:1]


def test_truncating_at_or_beyond_the_end_drops_only_an_epoch_without_records() -> None:
    log = filled(5)
    log.epochs.assign(9, 10)
    assert log.last_epoch == 1
    assert log.truncate_to(10) == 10
    assert log.epochs.entries == ((1, 0),)
    assert log.truncate_to(99) == 10


def test_truncating_below_the_start_empties_the_log_and_restarts_it_there() -> None:
    log = filled()
    log.advance_start(30)
    assert log.truncate_to(10) == 10
    assert (log.start_offset, log.end_offset, log.size_bytes, log.last_epoch) == (10, 10, 0, -1)


def test_truncating_fully_restarts_anywhere() -> None:
    log = filled()
    log.truncate_fully(500)
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (500, 500, 500)
    assert log.segment_offsets == (500,)
    assert log.append_as_leader(batch(), 9).base_offset == 500


def test_truncating_fully_leaves_no_snapshot_of_the_producers_before() -> None:
    files = MemoryFiles()
    log = filled(files=files)
    assert any(name.endswith(".snapshot") for name in files.list("orders-0"))
    log.truncate_fully(500)
    assert not [name for name in files.list("orders-0") if name.endswith(".snapshot")]


def test_advancing_the_start_deletes_whole_segments_only_and_never_the_last() -> None:
    log = filled()
    before = log.segment_offsets
    log.advance_start(before[2] + 1)
    assert log.segment_offsets == before[2:]
    assert log.start_offset == before[2] + 1
    log.advance_start(3)
    assert log.start_offset == before[2] + 1
    log.advance_start(10_000)
    assert log.start_offset == log.end_offset == 60
    assert log.segment_offsets == before[-1:]


# --- flush -----------------------------------------------------------------------------------------------------------


def test_a_flush_names_the_segments_that_changed_oldest_first() -> None:
    log = filled()
    logs = log.unflushed_files()
    assert logs == tuple(f"orders-0/{base:020d}.log" for base in log.segment_offsets)
    log.sync()
    assert log.flushed_offset == 60
    assert log.unflushed_files() == ()
    log.append_as_leader(batch(), 3)
    assert log.unflushed_files() == (logs[-1],)


def test_a_flush_covers_only_what_had_been_appended_when_it_was_asked_for() -> None:
    log = filled(5)
    log.append_as_leader(batch(), 1)
    log.mark_flushed(10)
    assert log.flushed_offset == 10
    log.mark_flushed(4)
    assert log.flushed_offset == 10


def test_a_flush_that_a_truncation_overtook_proves_nothing() -> None:
    log = filled(5)
    upto, truncations = log.end_offset, log.truncations
    log.truncate_to(6)
    log.append_as_leader(batch(10), 2)
    log.mark_flushed(upto, truncations)
    assert log.flushed_offset == 0
    log.mark_flushed(log.end_offset, log.truncations)
    assert log.flushed_offset == 16


def test_a_flush_is_due_after_so_many_records() -> None:
    log = filled(2, config=LogConfig(flush_messages=5))
    assert log.flush_due_to <= log.flushed_offset
    log.append_as_leader(batch(), 1)
    assert log.flush_due_to == log.end_offset
    log.sync()
    assert log.flush_due_to <= log.flushed_offset
    log = filled(50, config=LogConfig())
    assert log.flush_due_to <= log.flushed_offset


def test_a_flush_of_the_segments_that_were_rolled_is_due() -> None:
    log = filled()
    *rolled, active = log.segment_offsets
    assert log.flush_due_to == active
    assert log.unflushed_files(active) == tuple(f"orders-0/{base:020d}.log" for base in rolled)
    log.mark_flushed(active)
    assert log.flush_due_to <= log.flushed_offset == active
    assert log.unflushed_files() == (f"orders-0/{active:020d}.log",)


def test_a_copy_goes_its_own_way() -> None:
    files = MemoryFiles()
    log = filled(files=files)
    twin = log.copy(files.copy())
    twin.truncate_to(10)
    twin.append_as_leader(batch(), 9)
    assert (log.end_offset, twin.end_offset) == (60, 11)
    assert log.epochs.entries == ((1, 0), (2, 20), (3, 40))
    assert read_header(log.read(10, 1, 60)).leader_epoch == 1
    assert read_header(twin.read(10, 1, 11)).leader_epoch == 9


def test_deleting_leaves_nothing() -> None:
    files = MemoryFiles()
    filled(files=files).delete()
    assert files.files == {}


def test_the_files_bear_kafkas_names() -> None:
    files = MemoryFiles()
    log = filled(files=files)
    log.close_clean()
    second = f"{log.segment_offsets[1]:020d}"
    assert {f"{second}.log", f"{second}.index", f"{second}.timeindex", f"{second}.snapshot"} < set(
        files.list("orders-0")
    )
    index = files.read(f"orders-0/{second}.index", 0, 8)
    position = int.from_bytes(index[4:])
    header = read_header(files.read(f"orders-0/{second}.log", position, 61))
    assert header.last_offset - log.segment_offsets[1] == int.from_bytes(index[:4])
    times = files.read(f"orders-0/{second}.timeindex", 0, 12)
    found = log.batch_at(log.segment_offsets[1] + int.from_bytes(times[8:]))
    assert found is not None
    assert found.max_timestamp == int.from_bytes(times[:8])


def test_the_batch_at_an_offset_is_known_with_its_epoch() -> None:
    found = filled().batch_at(41)
    assert found is not None
    assert (found.base_offset, found.leader_epoch) == (40, 3)
