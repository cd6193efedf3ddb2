"""What compaction keeps and removes, record by record and batch by batch."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.broker_node import compaction
from broker.core.log.compaction.cleaning import STEP_BYTES, Cleaning, Progress
from broker.core.log.compaction.filtering import RECORDS_MAX, Limits, without_keys, without_obsolete
from broker.core.log.compaction.swapping import finish_swaps
from broker.core.log.compression import CODECS, compress
from broker.core.log.log import Log, LogConfig
from broker.core.ports.events import Flush
from broker.core.records import (
    HEADER_BYTES,
    MalformedBatch,
    decode_records,
    encode_batch,
    end_without_records,
    filler,
    iterate_headers,
    read_header,
    unfolded,
)
from tests.broker.compaction.compacted_logs import COMPACTION, CONFIG, DELETE_RETENTION_MS, batch, compact, records_of
from tests.support.batches import recompressed, sealed
from tests.support.memory_files import MemoryFiles

NOW_MS = 1_800_000_000_000


def log_of(*batches: bytes, epochs: tuple[int, ...] = ()) -> tuple[MemoryFiles, Log]:
    """Each batch in a segment of its own, and one more that is never closed; all on the disk."""
    files = MemoryFiles()
    log = Log.open(files, "t-0", CONFIG._replace(segment_bytes=1), clean=True)
    for number, data in enumerate((*batches, batch((b"open", b"")))):
        log.append_as_leader(data, epochs[number] if number < len(epochs) else max((1, *epochs)))
    log.config = CONFIG
    log.sync()
    return files, log


def headers_of(log: Log) -> list[tuple[int, int, int, int]]:
    """(base offset, last offset, leader epoch, records) of every batch."""
    found = []
    offset = log.start_offset
    while offset < log.end_offset:
        for _, one in iterate_headers(log.read(offset, 1 << 20, log.end_offset)):
            found.append((one.base_offset, one.last_offset, one.leader_epoch, one.records_count))
            offset = one.last_offset + 1
    return found


def values_of(log: Log) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {offset: (one.key, one.value) for offset, one in records_of(log).items()}


def test_the_last_record_of_each_key_stays_under_its_offset() -> None:
    files, log = log_of(batch((b"a", b"1"), (b"b", b"1")), batch((b"a", b"2")), batch((b"b", b"2"), (b"c", b"1")))
    assert compact(files, log) is Progress.DONE
    assert values_of(log) == {2: (b"a", b"2"), 3: (b"b", b"2"), 4: (b"c", b"1"), 5: (b"open", b"")}
    assert log.segment_offsets == (0, 5)
    assert log.end_offset == 6


def test_the_first_record_of_a_batch_that_loses_the_others_stays_whole() -> None:
    files, log = log_of(batch((b"a", b"1"), (b"b", b"1")), batch((b"b", b"2")))
    assert compact(files, log) is Progress.DONE
    assert values_of(log) == {0: (b"a", b"1"), 2: (b"b", b"2"), 3: (b"open", b"")}
    assert unfolded(log.read(0, 1 << 20, 2)) == unfolded(batch((b"a", b"1")))


def test_neighbours_that_are_empty_become_one_batch_but_not_across_leader_epochs() -> None:
    files, log = log_of(*[batch((b"a", b"%d" % at)) for at in range(6)], epochs=(1, 1, 1, 2, 2, 2))
    epochs = log.epochs.entries
    compact(files, log)
    assert headers_of(log) == [(0, 2, 1, 0), (3, 4, 2, 0), (5, 5, 2, 1), (6, 6, 2, 1)]
    files.delete("t-0/leader-epoch-checkpoint")
    assert Log.open(files, "t-0", CONFIG, clean=False).epochs.entries == epochs == ((1, 0), (2, 3))


def test_a_read_inside_a_hole_goes_on_with_what_follows() -> None:
    files, log = log_of(*[batch((b"a", b"%d" % at)) for at in range(6)])
    compact(files, log)
    data = log.read(3, 1000, 6)
    found = [one.offset for at, _ in iterate_headers(data) for one in decode_records(data, at)]
    assert found == [5]


def test_a_follower_whose_end_lies_in_a_hole_takes_the_rest_of_it() -> None:
    batches = [batch((b"a", b"%d" % at)) for at in range(6)]
    files, log = log_of(*batches)
    follower = Log.open(MemoryFiles(), "t-0", CONFIG, clean=True)
    follower.append_as_follower(log.read(0, 1, 6) + log.read(1, 1, 6), 9)
    assert follower.end_offset == 2
    compact(files, log)
    follower.append_as_follower(log.read(2, 1000, 6), 9)
    assert headers_of(follower) == [(0, 0, 1, 1), (1, 1, 1, 1), (2, 4, 1, 0), (5, 5, 1, 1)]


def test_a_cut_inside_a_hole_keeps_the_offsets_before_it() -> None:
    files, log = log_of(*[batch((b"a", b"%d" % at)) for at in range(6)])
    compact(files, log)
    assert log.truncate_to(3) == 3
    assert headers_of(log) == [(0, 2, 1, 0)]
    assert Log.open(files, "t-0", CONFIG, clean=False).end_offset == 3


@pytest.mark.parametrize(("flushed", "remains"), [(False, 0), (True, 2)])
def test_what_is_left_of_a_hole_that_is_cut_is_not_on_the_disk_before_the_next_flush(
    flushed: bool, remains: int
) -> None:
    files, leading = log_of(*[batch((b"a", b"%d" % at)) for at in range(6)], epochs=(1, 1, 2, 2, 2, 2))
    compact(files, leading)
    log = Log.open(MemoryFiles(), "t-1", CONFIG, clean=True)
    log.append_as_follower(leading.read(0, 1 << 20, 6), 2)
    assert headers_of(log) == [(0, 1, 1, 0), (2, 4, 2, 0), (5, 5, 2, 1)]
    if flushed:
        log.sync()
    assert log.truncate_to(4) == 4
    assert log.flushed_offset == remains
    assert log.unflushed_files()
    log.sync()
    assert log.flushed_offset == 4


def test_a_tombstone_stays_for_its_time_and_goes_with_a_later_compaction() -> None:
    files, log = log_of(batch((b"a", b"1"), at_ms=NOW_MS), batch((b"a", None), (b"b", b"1"), at_ms=NOW_MS))
    compact(files, log, now_ms=NOW_MS)
    assert values_of(log) == {1: (b"a", None), 2: (b"b", b"1"), 3: (b"open", b"")}
    assert {one.timestamp for one in records_of(log).values() if one.offset < 3} == {NOW_MS}
    compact(files, log, now_ms=NOW_MS + DELETE_RETENTION_MS - 1)
    assert 1 in values_of(log)
    compact(files, log, now_ms=NOW_MS + DELETE_RETENTION_MS)
    assert values_of(log) == {2: (b"b", b"1"), 3: (b"open", b"")}


def test_a_tombstone_beyond_the_keys_that_fit_is_not_touched() -> None:
    files, log = log_of(batch((b"a", b"1")), batch((b"b", b"1")), batch((b"a", None)), batch((b"c", b"1")))
    for _ in range(2):  # the tombstone would go with the second if the first had marked it
        segments = log.closed_segments(log.flushed_offset)
        cleaning = Cleaning(files, log, segments, NOW_MS, 1)
        while cleaning.step() is Progress.MORE and not log.compacted_offset:
            pass
        assert cleaning.unsynced == "" or files.size(cleaning.unsynced)
        cleaning.abandon()
    assert values_of(log)[0] == (b"a", b"1")
    assert values_of(log)[2] == (b"a", None)
    limits = Limits({}, 2, NOW_MS, 0)
    late = encode_batch([(b"a", None)], 2, 1, NOW_MS)
    assert without_obsolete(late, read_header(late), limits) == late


def test_what_cannot_be_read_stays_and_so_do_the_tombstones_after_it() -> None:
    garbage = sealed(batch((b"a", b"1"))[:HEADER_BYTES] + b"\xff\xff")
    files, log = log_of(batch((b"z", b"1")), garbage, batch((b"a", None)), batch((b"z", b"2")))
    for now_ms in (0, 10 * DELETE_RETENTION_MS):
        compact(files, log, now_ms=now_ms)
    headers = headers_of(log)
    assert (1, 1, 1, 1) in headers
    assert (2, 2, 1, 1) in headers
    assert (0, 0, 1, 0) in headers


def test_a_log_that_is_cut_meanwhile_is_left_alone() -> None:
    files, log = log_of(*[batch((b"a", b"%d" % at)) for at in range(6)])
    cleaning = Cleaning(files, log, log.closed_segments(6), 0, 100)
    while (progress := cleaning.step()) is Progress.MORE:
        pass
    assert progress is Progress.SYNC
    log.truncate_to(4)
    assert cleaning.synced() is Progress.ABANDONED
    assert [one[0] for one in headers_of(log)] == [0, 1, 2, 3]
    assert not [name for name in files.list("t-0") if "cleaned" in name]


def test_a_cut_of_later_records_ends_a_compaction_that_counts_on_them() -> None:
    files, log = log_of(*[batch((key, b"1" * 250)) for key in (b"z", b"b", b"c", b"d", b"e", b"z")])
    cleaning = Cleaning(files, log, log.closed_segments(6), 0, 100)
    while cleaning.step() is Progress.MORE:
        pass
    log.truncate_to(5)
    assert cleaning.synced() is Progress.ABANDONED
    assert sorted(values_of(log)) == [0, 1, 2, 3, 4]


def test_what_is_written_after_a_cut_counts_as_not_compacted() -> None:
    files, log = log_of(*[batch((b"a", b"%d" % at)) for at in range(6)])
    compact(files, log)
    assert log.compacted_offset == 6
    log.truncate_to(4)
    assert log.compacted_offset == 4


def test_records_that_were_deleted_meanwhile_are_not_put_back() -> None:
    files, log = log_of(*[batch((b"%d" % at, b"1")) for at in range(6)], batch((b"5", b"2")))
    cleaning = Cleaning(files, log, log.closed_segments(7), 0, 100)
    while cleaning.step() is Progress.MORE:
        pass
    log.advance_start(3)
    assert cleaning.synced() is Progress.ABANDONED
    assert sorted(values_of(log)) == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("codec", range(len(CODECS)), ids=CODECS)
def test_compressed_batches_are_compressed_again(codec: int) -> None:
    plain = encode_batch([(b"a", b"1" * 500), (b"b", b"2" * 500)], 0, 0, 77)
    data = recompressed(plain, codec, lambda records: compress(codec, records))
    files, log = log_of(data, batch((b"a", b"3")))
    compact(files, log)
    header = read_header(log.read(0, 1, 2))
    assert (header.codec, header.records_count, header.base_offset, header.last_offset) == (codec, 1, 0, 1)
    assert values_of(log)[1] == (b"b", b"2" * 500)
    assert codec == 0 or header.size < 200
    assert log.offset_for_timestamp(0, log.end_offset) == (77, 1, 1)


def test_the_headers_of_batches_that_a_producer_may_repeat_stay() -> None:
    batches = [batch((b"a", b"%d" % at), producer=5, sequence=at) for at in range(8)]
    files, log = log_of(*batches)
    compact(files, log)
    assert [one for one in headers_of(log) if one[0] < 8] == [
        (0, 2, 1, 0),
        *((at, at, 1, 0) for at in range(3, 7)),
        (7, 7, 1, 1),
    ]
    for name in files.list("t-0"):
        if name.endswith(".snapshot"):
            files.delete(f"t-0/{name}")
    opened = Log.open(files, "t-0", CONFIG, clean=False)
    for at in range(3, 8):
        verdict = opened.producers.verdict(read_header(batches[at]))
        assert verdict.duplicate_of == (at, at)
    log.producers.forget(5)
    log.truncate_to(log.end_offset)
    compact(files, log)
    assert headers_of(log)[0] == (0, 6, 1, 0)


def test_a_producer_whose_latest_batches_are_cut_off_is_still_known() -> None:
    batches = [batch((b"a", b"%d" % at), producer=5, sequence=at) for at in range(3)]
    files, log = log_of(*batches, batch((b"a", b"last")))
    for at in range(3, 9):
        log.append_as_leader(batch((b"b", b"%d" % at), producer=5, sequence=at), 1)
    compact(files, log, bound=4)
    log.truncate_to(5)
    for name in files.list("t-0"):
        if name.endswith(".snapshot"):
            files.delete(f"t-0/{name}")
    opened = Log.open(files, "t-0", CONFIG, clean=False)
    assert [one.base_offset for one in opened.producers.states[5].batches] == [0, 1, 2]


def test_records_without_a_key_stay() -> None:
    files, log = log_of(batch((None, b"1"), (b"a", b"1")), batch((None, b"2"), (b"a", b"2")))
    compact(files, log)
    assert sorted(values_of(log)) == [0, 2, 3, 4]


def test_a_compaction_that_finds_nothing_writes_nothing() -> None:
    files, log = log_of(batch((b"a", b"1" * 700)), batch((b"b", b"1" * 700)))
    files.syncs.clear()
    before = {name: bytes(file.data) for name, file in files.files.items()}
    assert compact(files, log) is Progress.DONE
    assert not files.syncs
    assert {name: bytes(file.data) for name, file in files.files.items()} == before


def test_old_segments_that_are_empty_expire_with_those_that_follow() -> None:
    files, log = log_of(
        batch((b"a", b"1" * 700), at_ms=5), batch((b"a", b"2" * 700), at_ms=6), batch((b"c", b""), at_ms=90)
    )
    compact(files, log)
    assert headers_of(log)[0] == (0, 0, 1, 0)
    log.expire(50, log.end_offset)
    assert log.start_offset == 2


@pytest.mark.parametrize(
    ("data", "accepted"),
    [
        (batch((b"a", b"1"), (b"b", None)), True),
        (batch((b"a", b"1"), (None, b"2")), False),
        (sealed(batch((b"a", b"1")) + b"more"), False),
        (sealed(batch((b"a", b"1"))[:HEADER_BYTES]), False),
        (encode_batch([(b"", b"")] * (RECORDS_MAX + 1), 0, 0, 0), False),
    ],
    ids=["keys", "no key", "bytes after the records", "no records", "too many"],
)
def test_a_compacted_topic_takes_only_batches_with_keys_that_it_can_read(data: bytes, accepted: bool) -> None:
    assert (without_keys(data, read_header(data)) == ()) is accepted


def test_fe_15_readers_of_records_get_those_behind_segments_without_any() -> None:
    log = Log.open(MemoryFiles(), "t-0", LogConfig(segment_bytes=100), clean=True)
    for base in range(0, 45, 3):
        log.append_as_follower(filler(base, base + 2, 1), max_epoch=1)
    assert len(log.segment_offsets) > 10
    assert read_header(log.read(7, 1000, 45)).base_offset == 6
    assert read_header(log.read_records(7, 1000, 45)).last_offset == 44, "a reader's position reaches the end"
    assert read_header(log.read_records(7, 1000, 12)).last_offset == 11
    records = encode_batch([(b"key", b"value")] * 2, 45, 1, 0)
    log.append_as_follower(records, max_epoch=1)
    assert log.read_records(7, 1000, 47) == records
    assert read_header(log.read_records(7, 1000, 45)).last_offset == 44, "what is not committed is not read"


def test_what_cannot_be_read_does_not_pass_for_a_batch_without_records() -> None:
    whole = filler(0, 4, 1)
    assert end_without_records(whole + filler(5, 9, 1)) == 10
    damaged = bytearray(whole + filler(5, 9, 1))
    damaged[len(whole) + 16] = 77  # the format
    assert end_without_records(bytes(damaged)) is None
    assert end_without_records(b"") is None


def test_a_filler_stands_for_its_offsets_and_holds_nothing() -> None:
    data = filler(5, 9, 3)
    header = read_header(data)
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.is_filler) == (5, 9, 3, True)
    assert list(decode_records(data)) == []


def test_two_small_segments_become_one_even_if_all_of_their_records_stay() -> None:
    files, log = log_of(batch((b"a", b"1")), batch((b"b", b"1")))
    assert log.segment_offsets == (0, 1, 2)
    assert compact(files, log) is Progress.DONE
    assert values_of(log) == {0: (b"a", b"1"), 1: (b"b", b"1"), 2: (b"open", b"")}
    assert log.segment_offsets == (0, 2)


def test_what_another_process_has_left_in_the_file_of_a_copy_is_not_a_part_of_it() -> None:
    files, log = log_of(batch((b"a", b"1")), batch((b"a", b"2")))
    files.append(f"t-0/{0:020d}.log.cleaned", bytes(100))
    assert compact(files, log) is Progress.DONE
    assert values_of(log) == {1: (b"a", b"2"), 2: (b"open", b"")}


def test_a_batch_whose_offsets_do_not_ascend_cannot_be_read() -> None:
    plain = batch((b"a", b"1"), (b"b", b"2"))
    records = plain[HEADER_BYTES:]
    middle = len(records) // 2
    swapped = sealed(plain[:HEADER_BYTES] + records[middle:] + records[:middle])
    limits = Limits({}, 10, NOW_MS, DELETE_RETENTION_MS)
    assert without_obsolete(plain, read_header(plain), limits) == plain
    with pytest.raises(MalformedBatch, match="offset"):
        without_obsolete(swapped, read_header(swapped), limits)


def test_a_swap_leaves_no_index_of_what_it_replaces() -> None:
    files, log = log_of(batch((b"a", b"1")), batch((b"a", b"2")))
    compact(files, log)
    first = f"t-0/{0:020d}"
    for suffix in (".index", ".timeindex"):
        files.replace(first + suffix, b"of the segment that is replaced")
    files.rename(first + ".log", first + ".log.swap")
    finish_swaps(files, "t-0")
    assert [name for name in files.list("t-0") if name.startswith(f"{0:020d}")] == [f"{0:020d}.log"]


@pytest.mark.parametrize(("ratio", "compacts"), [(0.4, True), (0.9, False)])
def test_a_log_is_compacted_when_the_share_of_its_bytes_that_is_not_compacted_is_large_enough(
    ratio: float, compacts: bool
) -> None:
    _, log = log_of(*[batch((b"%d" % at, b"1")) for at in range(4)])
    log.config = CONFIG._replace(compaction=COMPACTION._replace(min_dirty_ratio=ratio))
    log.compacted_offset = 2
    replica: Any = SimpleNamespace(log=log, is_damaged=False, high_watermark=log.end_offset)
    broker: Any = SimpleNamespace(runtime=SimpleNamespace(wall_clock_ms=0))
    share, segments = compaction._uncompacted(broker, replica)
    assert (round(share, 2), len(segments)) == ((0.5, 4) if compacts else (0.0, 0))


@pytest.mark.parametrize(("high_watermark", "before", "after"), [(3, 3, 3), (7, 5, 6)])
def test_only_what_is_committed_and_on_the_disk_is_compacted(high_watermark: int, before: int, after: int) -> None:
    """`before` and `after`: the number of segments that are compacted, before a flush and after it."""
    _, log = log_of(*[batch((b"%d" % at, b"1")) for at in range(4)])
    log.config = CONFIG._replace(segment_bytes=1)
    for _ in range(2):
        log.append_as_leader(batch((b"open", b"")), 1)
    log.config = CONFIG
    assert (log.flushed_offset, log.end_offset) == (5, 7)
    replica: Any = SimpleNamespace(
        key=("t", 0), log=log, is_damaged=False, high_watermark=high_watermark, flushing_to=None
    )
    broker: Any = SimpleNamespace(runtime=SimpleNamespace(wall_clock_ms=0, effects=[]))
    _, segments = compaction._uncompacted(broker, replica)
    assert [segment.base_offset for segment in segments] == list(range(before))
    assert [isinstance(effect, Flush) for effect in broker.runtime.effects] == [True] * (before < after)
    log.sync()
    _, segments = compaction._uncompacted(broker, replica)
    assert [segment.base_offset for segment in segments] == list(range(after))


def test_a_compaction_that_has_no_room_for_all_keys_goes_on_where_the_last_one_ended() -> None:
    files, log = log_of(*[batch((key, b"1")) for key in (b"a", b"b", b"c", b"c", b"d", b"e", b"e")])
    ends = []
    for _ in range(3):
        assert compact(files, log, keys_max=2) is Progress.DONE
        ends.append(log.compacted_offset)
    assert ends == [2, 5, 7]
    assert sorted(values_of(log)) == [0, 1, 3, 4, 6, 7]


def test_a_step_copies_a_part_of_a_long_segment_only() -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", CONFIG._replace(segment_bytes=1 << 20), clean=True)
    for at in range(30):
        log.append_as_leader(batch((b"%d" % (at % 29), b"1" * 10_000)), 1)
    log.config = CONFIG
    log.append_as_leader(batch((b"open", b"")), 1)
    assert log.segment_offsets == (0, 30)
    cleaning = Cleaning(files, log, log.closed_segments(30), 0, 100)
    copied = [0]
    while cleaning.step() is Progress.MORE:
        copied.append(files.size(cleaning.unsynced))
    copied.append(files.size(cleaning.unsynced))
    assert copied[-1] > 4 * STEP_BYTES
    assert max(after - before for before, after in pairwise(copied)) <= STEP_BYTES
