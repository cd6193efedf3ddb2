"""Opening a log from its files: the valid prefix is kept, and the reason for a cut reported (ST-6, ST-7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.log.log import Log, LogConfig
from broker.core.records import encode_batch, iterate_headers
from broker.core.rules.generations import GENERATIONS
from tests.support.memory_files import MemoryFiles

CONFIG = LogConfig(segment_bytes=250, index_interval_bytes=100, rules=GENERATIONS["K4"]().storage)
"""As before UR-16: a cut is not synced at once."""
BATCHES = 12


def written() -> tuple[MemoryFiles, Log]:
    files = MemoryFiles()
    log = Log.open(files, "t-0", CONFIG, clean=True)
    for index in range(BATCHES):
        log.append_as_leader(encode_batch([(None, b"%d" % index)] * 2, 0, 0, index, 5, 0, 2 * index), 1 + index // 4)
    return files, log


FILES, LOG = written()
SEGMENTS = [f"t-0/{base:020d}.log" for base in LOG.segment_offsets]
BATCH_ENDS = {
    name: [position + header.size for position, header in iterate_headers(FILES.read(name, 0, 9999))]
    for name in SEGMENTS
}


def reopened(files: MemoryFiles, **settings: int) -> Log:
    return Log.open(files, "t-0", CONFIG, clean=False, **settings)


def expected_end(segment: int, intact_bytes: int) -> int:
    """Log end offset when only this many bytes of the segment are intact."""
    return LOG.segment_offsets[segment] + 2 * sum(end <= intact_bytes for end in BATCH_ENDS[SEGMENTS[segment]])


@pytest.mark.parametrize("segment", range(len(SEGMENTS)))
def test_every_cut_of_a_log_file_is_recovered_to_the_valid_prefix(segment: int) -> None:
    name = SEGMENTS[segment]
    for size in range(FILES.size(name) + 1):
        files = FILES.copy()
        files.truncate(name, size)
        log = reopened(files)
        whole = size == FILES.size(name)
        assert log.end_offset == (2 * BATCHES if whole else expected_end(segment, size))
        assert log.end_offset == 0 or log.batch_at(log.end_offset - 1) is not None
        assert (log.recovery.reason == "") == (whole or (size in [0, *BATCH_ENDS[name]] and name == SEGMENTS[-1]))
        again = reopened(files)
        assert (again.end_offset, again.recovery.truncated_bytes) == (log.end_offset, 0)


@given(segment=st.integers(0, len(SEGMENTS) - 1), data=st.data())
def test_a_flipped_bit_costs_its_batch_and_all_after_it(segment: int, data: st.DataObject) -> None:
    name = SEGMENTS[segment]
    position = data.draw(st.integers(0, FILES.size(name) - 1))
    files = FILES.copy()
    files.files[name].data[position] ^= 1 << data.draw(st.integers(0, 7))
    log = reopened(files)
    start = max((end for end in BATCH_ENDS[name] if end <= position), default=0)
    in_epoch = 12 <= position - start < 16
    if log.end_offset == 2 * BATCHES:
        assert in_epoch  # a later epoch that the following batches still allow: outside of the checksum
    else:
        assert log.recovery.truncated_bytes > 0
        assert log.recovery.reason
        assert log.end_offset == expected_end(segment, position) or in_epoch


def test_what_was_flushed_survives_and_what_was_not_is_gone() -> None:
    files, log = written()
    log.sync()
    log.append_as_leader(encode_batch([(None, b"lost")], 0, 0, 0), 9)
    log = reopened(files.crash(), recovery_point=log.flushed_offset)
    assert log.end_offset == log.flushed_offset == 24
    assert log.epochs.entries == LOG.epochs.entries


def test_only_the_segments_from_the_recovery_point_on_are_read() -> None:
    files, log = written()
    log.sync()
    log = reopened(files, recovery_point=23)
    assert log.recovery == (files.size(SEGMENTS[-1]), 0, "", 0)
    assert log.flushed_offset == 23
    assert log.producers.states == LOG.producers.states
    assert log.epochs.entries == LOG.epochs.entries


def test_without_a_recovery_point_everything_is_read() -> None:
    assert reopened(FILES.copy()).recovery.scanned_bytes == LOG.size_bytes


def test_a_clean_opening_reads_nothing_but_the_end() -> None:
    files, log = written()
    log.close_clean()
    reads: list[int] = []
    read = files.read
    files.read = lambda name, position, size: reads.append(size) or read(name, position, size)  # type: ignore[method-assign]
    opened = Log.open(files, "t-0", CONFIG, clean=True)
    assert opened.recovery.scanned_bytes == 0
    assert (opened.end_offset, opened.flushed_offset) == (24, 24)
    assert opened.epochs.entries == log.epochs.entries
    assert opened.producers.states == log.producers.states
    assert opened.offset_for_timestamp(7, 24) == (7, 14, 2)


def test_a_log_damaged_in_spite_of_a_clean_stop_is_recovered() -> None:
    files, log = written()
    log.close_clean()
    files.truncate(SEGMENTS[-1], files.size(SEGMENTS[-1]) - 1)
    opened = Log.open(files, "t-0", CONFIG, clean=True)
    assert opened.end_offset == 22
    assert opened.recovery.scanned_bytes > 0
    assert opened.flushed_offset < 24


def test_a_truncation_down_to_a_damaged_index_entry_hides_no_batch() -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", LogConfig(segment_bytes=9999, index_interval_bytes=100), clean=True)
    for index in range(5):
        log.append_as_leader(encode_batch([(None, b"value")], 0, 0, index, 5, 0, index), 1)
    log.close_clean()
    index_file = files.files["t-0/00000000000000000000.index"].data
    assert len(index_file) == 16, "expected two entries"
    index_file[0] ^= 0x80
    opened = Log.open(files, "t-0", LogConfig(segment_bytes=9999, index_interval_bytes=100), clean=True)
    opened.truncate_to(4)
    assert [batch.base_offset for batch in opened.producers.states[5].batches] == [0, 1, 2, 3]


def test_a_lost_segment_in_the_middle_costs_all_after_it() -> None:
    files = FILES.copy()
    files.delete(SEGMENTS[1])
    log = reopened(files)
    assert log.end_offset == LOG.segment_offsets[1]
    assert "expected offset" in log.recovery.reason


def test_a_lost_first_segment_leaves_an_empty_log() -> None:
    files = FILES.copy()
    files.delete(SEGMENTS[0])
    log = reopened(files)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, -1)
    assert log.recovery.truncated_bytes > 0
    assert log.producers.states == {}


def test_a_log_that_ends_below_its_known_start_is_emptied_and_begins_there() -> None:
    log = reopened(FILES.copy(), start_offset=100)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (100, 100, 0)


def test_the_log_start_is_kept_from_its_checkpoint() -> None:
    log = reopened(FILES.copy(), start_offset=9)
    assert (log.start_offset, log.end_offset) == (9, 24)
    assert log.segment_offsets[0] <= 9
    assert log.epochs.entries[0] == (2, 9)


@pytest.mark.parametrize("clean", [True, False])
def test_a_lost_epoch_checkpoint_is_rebuilt_from_the_log(clean: bool) -> None:
    files, log = written()
    log.close_clean()
    files.delete("t-0/leader-epoch-checkpoint")
    opened = Log.open(files, "t-0", CONFIG, clean=clean, recovery_point=24)
    assert opened.epochs.entries == LOG.epochs.entries


def test_epochs_beyond_the_recovered_end_are_forgotten() -> None:
    files = FILES.copy()
    for name in SEGMENTS[1:]:
        files.delete(name)
    log = reopened(files)
    assert log.epochs.entries == ((1, 0),) if log.end_offset <= 8 else ((1, 0), (2, 8))


def test_a_recovery_point_from_before_a_truncation_is_not_trusted() -> None:
    files, log = written()
    log.sync()
    checkpointed = log.flushed_offset
    log.truncate_to(4)
    for index in range(20):
        log.append_as_leader(encode_batch([(None, b"new %d" % index)] * 2, 0, 0, 0), 9)
    after = files.crash(lambda name, durable, size: size - 30 if name == SEGMENTS[0] else size)
    recovered = reopened(after, recovery_point=checkpointed)
    assert recovered.end_offset < log.segment_offsets[1]
    assert recovered.recovery.reason
    assert recovered.epochs.entries[-1][1] < recovered.end_offset


def test_old_recovery_points_are_trusted_again_once_the_log_was_flushed_beyond_them() -> None:
    files, log = written()
    log.sync()
    log.truncate_to(20)
    assert "rewritten-range" in files.list("t-0")
    for _ in range(5):
        log.append_as_leader(encode_batch([(None, b"new")], 0, 0, 0), 9)
    log.sync()
    assert "rewritten-range" not in files.list("t-0")


def test_a_truncation_that_power_failure_undid_is_recovered_with_its_epochs() -> None:
    files, log = written()
    before = files.copy()
    log.sync()
    log.truncate_to(4)
    for name in SEGMENTS:
        files.files[name] = before.files[name]
    log = reopened(files, recovery_point=24)
    assert log.end_offset == 24
    assert log.epochs.entries == LOG.epochs.entries


@pytest.mark.parametrize("flushed", [True, False])
def test_after_an_unclean_stop_what_follows_a_cut_may_be_what_was_cut_off(flushed: bool) -> None:
    """HW-7: no high watermark that was learned since the cut says that these records are committed."""
    files, log = written()
    if flushed:
        log.sync()
    log.truncate_to(20)
    end_offset = log.end_offset
    for _ in range(4):
        log.append_as_leader(encode_batch([(None, b"new")], 0, 0, 0), 9)
    assert reopened(files.copy(), recovery_point=24).certain_end == end_offset
    log.close_clean()
    assert Log.open(files, "t-0", CONFIG, clean=True).certain_end == end_offset + 4


def test_where_the_end_was_lost_below_a_cut_no_more_is_certain_than_is_left() -> None:
    files, log = written()
    log.sync()
    log.truncate_to(20)
    files.truncate(SEGMENTS[0], 10)
    log = reopened(files, recovery_point=24)
    assert log.end_offset < 20
    assert log.certain_end == log.end_offset


def test_a_clean_stop_makes_a_cut_durable_though_all_that_is_left_was_flushed() -> None:
    files, log = written()
    log.sync()
    log.truncate_to(20)
    files.syncs.clear()
    log.close_clean()
    assert files.syncs == [SEGMENTS[len(log.segment_offsets) - 1]]


def test_a_segment_that_recovery_cut_is_synced_with_the_next_records_though_they_are_in_another() -> None:
    files, log = written()
    log.sync()
    log.truncate_to(log.segment_offsets[2])
    torn = files.crash()
    torn.append(log.unflushed_files()[0], b"torn")
    log = reopened(torn, recovery_point=log.end_offset)
    assert log.flushed_offset == log.end_offset
    ends_there, cut = SEGMENTS[len(log.segment_offsets) - 2 : len(log.segment_offsets)]
    while len(log.segment_offsets) < 4:
        log.append_as_leader(encode_batch([(None, b"new")] * 4, 0, 0, 0), 9)
    assert sorted(log.unflushed_files()[:2]) == [ends_there, cut], "either may have been cut there"
    log.mark_flushed(log.end_offset, log.truncations)
    assert log.unflushed_files() == ()


def test_a_segment_that_an_earlier_process_cut_is_synced_with_the_next_records_though_they_are_in_another() -> None:
    """The cut is in the page cache, which a process that is killed leaves behind, and a power failure does not."""
    files, log = written()
    log.sync()
    log.truncate_to(log.segment_offsets[2] - 1)
    cut, end_offset = SEGMENTS[len(log.segment_offsets) - 1], log.end_offset
    log = reopened(files, recovery_point=24)
    assert log.end_offset == end_offset
    while len(log.segment_offsets) < 4:
        log.append_as_leader(encode_batch([(None, b"new")] * 4, 0, 0, 0), 9)
    assert cut in log.unflushed_files()
    log.mark_flushed(log.end_offset, log.truncations)
    assert log.unflushed_files() == ()


@pytest.mark.parametrize("clean", [True, False])
def test_a_snapshot_of_producers_of_deleted_records_is_deleted_and_not_used(clean: bool) -> None:
    """A process that dies between the deletion of segments and that of their snapshots leaves these behind."""
    files, log = written()
    stale = f"t-0/{log.segment_offsets[1]:020d}.snapshot"
    left_behind = files.read(stale, 0, 9999)
    log.advance_start(log.segment_offsets[2])
    log.close_clean()
    files.append(stale, left_behind)
    log = Log.open(files, "t-0", CONFIG, clean=clean, start_offset=log.start_offset)
    assert log.segment_offsets == LOG.segment_offsets[2:]
    assert stale.removeprefix("t-0/") not in files.list("t-0")


def test_index_files_without_a_log_are_removed() -> None:
    files = FILES.copy()
    files.append("t-0/00000000000000099999.index", b"12345678")
    reopened(files)
    assert "00000000000000099999.index" not in files.list("t-0")


def test_opening_an_empty_directory_creates_a_log_at_the_start_offset() -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", CONFIG, clean=False, recovery_point=50, start_offset=7)
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (7, 7, 7)
    assert files.list("t-0") == ["00000000000000000007.log", "rewritten-range"]


def test_a_start_after_a_crash_writes_the_indexes_of_every_closed_segment_that_it_has_read() -> None:
    files = FILES.copy()
    stems = [name.removesuffix(".log") for name in SEGMENTS[:-1]]
    written = [files.read(f"{stem}.index", 0, 9999) for stem in stems]
    assert all(written)
    for stem in stems:
        files.replace(f"{stem}.index", b"")
    log = reopened(files)
    assert [files.read(f"{stem}.index", 0, 9999) for stem in stems] == written
    assert log.recovery.indexed_segments == len(stems)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_start_after_a_crash_writes_an_index_that_is_missing_below_the_recovery_point_too(suffix: str) -> None:
    files = FILES.copy()
    missing = SEGMENTS[0].removesuffix(".log") + suffix
    written = files.read(missing, 0, 9999)
    files.delete(missing)
    log = Log.open(files, "t-0", CONFIG, clean=False, recovery_point=LOG.segment_offsets[-1])
    assert log.recovery.scanned_bytes == files.size(SEGMENTS[-1]), "the others are not read again"
    assert files.read(missing, 0, 9999) == written
    assert log.recovery.indexed_segments == 1
