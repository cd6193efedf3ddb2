from __future__ import annotations

import pytest

from broker.core.log.log import Log, LogConfig
from broker.core.log.producer_state import (
    ACCEPT,
    MEMORY_SNAPSHOT_BATCHES,
    MEMORY_SNAPSHOTS,
    ProducerStates,
    Verdict,
    prune_snapshots,
    snapshot_name,
    snapshot_offsets,
)
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch, read_header
from tests.support.memory_files import MemoryFiles

STALE = Verdict(ErrorCode.INVALID_PRODUCER_EPOCH)
OUT_OF_ORDER = Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
OLD_DUPLICATE = Verdict(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
LAST = 0x7FFFFFFF


def verdict(states: ProducerStates, sequence: int, records: int = 1, epoch: int = 0, producer: int = 7) -> Verdict:
    batch = encode_batch([(None, b"")] * records, 0, 0, 0, producer, epoch, sequence)
    return states.verdict(read_header(batch))


def append(
    states: ProducerStates, offset: int, sequence: int, records: int = 1, epoch: int = 0, producer: int = 7
) -> None:
    states.update(producer, epoch, sequence, offset, offset + records - 1, control=False)


def with_batches(count: int, records: int = 2, first_sequence: int = 0) -> ProducerStates:
    states = ProducerStates()
    for index in range(count):
        append(states, index * records, (first_sequence + index * records) & LAST, records)
    return states


def test_an_unknown_producer_may_begin_with_any_sequence() -> None:
    assert verdict(ProducerStates(), 1234) == ACCEPT


def test_a_batch_without_producer_is_always_accepted() -> None:
    assert verdict(with_batches(3), -1, producer=-1) == ACCEPT


def test_a_producer_that_was_forgotten_may_begin_with_any_sequence() -> None:
    states = with_batches(3)
    states.forget(7)
    assert verdict(states, 3) == ACCEPT


def test_the_next_sequence_is_accepted_and_a_gap_is_not() -> None:
    states = with_batches(3)
    assert verdict(states, 6) == ACCEPT
    assert verdict(states, 7) == OUT_OF_ORDER


def test_each_of_the_last_five_batches_is_known_again_with_its_offsets() -> None:
    states = with_batches(9)
    for index in range(4, 9):
        assert verdict(states, index * 2, records=2) == Verdict(duplicate_of=(index * 2, index * 2 + 1))


def test_an_older_duplicate_has_no_offsets_any_more() -> None:
    states = with_batches(9)
    for index in range(4):
        assert verdict(states, index * 2, records=2) == OLD_DUPLICATE


def test_what_only_overlaps_a_known_batch_is_out_of_order() -> None:
    states = with_batches(9)
    assert verdict(states, 9, records=2) == OUT_OF_ORDER
    assert verdict(states, 17, records=2) == OUT_OF_ORDER
    assert verdict(states, 7, records=2) == OUT_OF_ORDER


def test_a_sequence_from_before_the_known_run_is_not_claimed_to_be_in_the_log() -> None:
    states = with_batches(9, first_sequence=100)
    assert verdict(states, 100, records=2) == OLD_DUPLICATE
    assert verdict(states, 98, records=2) == OUT_OF_ORDER
    assert verdict(states, 99, records=2) == OUT_OF_ORDER


def test_a_jump_that_a_follower_was_sent_begins_a_new_run() -> None:
    states = with_batches(3)
    append(states, 6, 50)
    for index in range(6):
        append(states, 7 + index, 51 + index)
    assert verdict(states, 50) == OLD_DUPLICATE
    assert verdict(states, 2, records=2) == OUT_OF_ORDER


def test_sequences_wrap_to_zero() -> None:
    states = with_batches(3, first_sequence=LAST - 3)
    assert verdict(states, 2) == ACCEPT
    assert verdict(states, 0, records=2) == Verdict(duplicate_of=(4, 5))
    assert verdict(states, LAST - 3, records=2) == Verdict(duplicate_of=(0, 1))


def test_a_batch_across_the_wrap_ends_beyond_zero() -> None:
    states = with_batches(1, records=4, first_sequence=LAST - 1)
    assert states.states[7].batches[0].last_sequence == 1
    assert verdict(states, 2) == ACCEPT


def test_an_older_epoch_is_refused_and_a_newer_one_begins_at_zero() -> None:
    states = ProducerStates()
    append(states, 0, 0, epoch=3)
    assert verdict(states, 1, epoch=2) == STALE
    assert verdict(states, 1, epoch=4) == OUT_OF_ORDER
    assert verdict(states, 0, epoch=4) == ACCEPT
    append(states, 1, 0, epoch=4)
    assert verdict(states, 0, epoch=4) == Verdict(duplicate_of=(1, 1))
    assert verdict(states, 1, epoch=3) == STALE


def test_control_batches_leave_no_trace() -> None:
    states = ProducerStates()
    states.update(7, 0, 5, 0, 0, control=True)
    assert states.states == {}


def test_a_snapshot_on_disk_restores_the_state() -> None:
    files = MemoryFiles()
    states = with_batches(9)
    append(states, 18, 0, records=3, epoch=5, producer=1 << 40)
    states.write_snapshot(files, "t-0", 21)
    restored = ProducerStates()
    assert restored.roll_back(files.crash(), "t-0", 30) == 21
    assert restored.states == states.states


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d[:5], lambda d: b"", lambda d: d[:9] + b"\xff" + d[10:]]
)
def test_a_damaged_snapshot_is_passed_over(damage: object) -> None:
    files = MemoryFiles()
    states = with_batches(3)
    states.write_snapshot(files, "t-0", 6)
    append(states, 6, 6)
    states.write_snapshot(files, "t-0", 7)
    name = snapshot_name("t-0", 7)
    files.replace(name, damage(files.read(name, 0, 999)))  # type: ignore[operator]
    restored = ProducerStates()
    assert restored.roll_back(files, "t-0", 99) == 6
    assert restored.states == with_batches(3).states


def test_rolling_back_deletes_later_snapshots_and_without_one_forgets_all() -> None:
    files = MemoryFiles()
    states = with_batches(3)
    states.write_snapshot(files, "t-0", 6)
    assert states.roll_back(files, "t-0", 5) is None
    assert states.states == {}
    assert snapshot_offsets(files, "t-0") == []


def test_snapshots_in_memory_are_few_and_save_reading_the_log() -> None:
    files = MemoryFiles()
    states = ProducerStates()
    batches = MEMORY_SNAPSHOT_BATCHES * (MEMORY_SNAPSHOTS + 2)
    for index in range(batches):
        append(states, index, index)
    end = batches - 1
    at = states.roll_back(files, "t-0", end)
    assert at == batches - MEMORY_SNAPSHOT_BATCHES
    assert states.states[7].batches[-1].last_offset == at - 1
    assert states.roll_back(files, "t-0", MEMORY_SNAPSHOT_BATCHES) is None


def test_a_snapshot_of_what_was_cut_off_goes_though_all_its_producers_are_forgotten_by_then() -> None:
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), clean=True)

    def write(producer: int, epoch: int, records: int) -> None:
        for sequence in range(records):
            log.append_as_leader(encode_batch([(None, b"")], 0, 0, 0, producer, 0, sequence), epoch)

    write(7, 1, MEMORY_SNAPSHOT_BATCHES)
    log.producers.forget(7)
    kept = log.truncate_to(MEMORY_SNAPSHOT_BATCHES - 10)
    write(8, 2, 20)
    log.truncate_to(log.end_offset - 1)
    assert log.producers.states[7].batches[-1].last_offset == kept - 1
    assert log.producers.states[8].run_records == 19


def test_pruning_keeps_the_named_snapshots() -> None:
    files = MemoryFiles()
    for offset in (0, 10, 20):
        ProducerStates().write_snapshot(files, "t-0", offset)
    prune_snapshots(files, "t-0", (10,))
    assert snapshot_offsets(files, "t-0") == [10]


def test_snapshots_of_what_was_deleted_go_with_it() -> None:
    files = MemoryFiles()
    log = Log.open(files, "t-0", LogConfig(segment_bytes=250), clean=True)
    for index in range(12):
        log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 0, 5, 0, index), 1)
    before = snapshot_offsets(files, "t-0")
    log.advance_start(log.segment_offsets[2])
    assert before[0] < log.segment_offsets[0] < before[-1]
    assert snapshot_offsets(files, "t-0") == [offset for offset in before if offset >= log.segment_offsets[0]]
