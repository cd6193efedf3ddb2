import pytest

from broker.core.log.log import Log, LogConfig
from broker.core.log.validation import OffsetMismatch
from broker.core.records import encode_batch
from tests.support.memory_files import MemoryFiles

FIRST = encode_batch([(None, b"a"), (None, b"b"), (None, b"c")], base_offset=4, leader_epoch=1, timestamp_ms=0)
NEXT = encode_batch([(None, b"d")], base_offset=7, leader_epoch=2, timestamp_ms=0)


def empty_log_at(files: MemoryFiles, offset: int) -> Log:
    log = Log.open(files, "log-0", LogConfig(), clean=False)
    log.truncate_fully(offset)
    return log


def test_an_empty_log_that_starts_inside_its_leaders_first_batch_takes_the_whole_batch() -> None:
    log = empty_log_at(MemoryFiles(), 5)
    assert log.append_as_follower(FIRST + NEXT, max_epoch=2) == 8
    assert (log.start_offset, log.end_offset) == (5, 8)
    assert log.read(5, 1 << 20, 8) == FIRST + NEXT
    assert log.read(4, 1 << 20, 8) == b""
    assert log.last_epoch == 2


def test_it_is_the_same_log_after_a_restart() -> None:
    files = MemoryFiles()
    empty_log_at(files, 5).append_as_follower(FIRST + NEXT, max_epoch=2)
    log = Log.open(files, "log-0", LogConfig(), clean=False, start_offset=5)
    assert (log.start_offset, log.end_offset) == (5, 8)
    assert log.read(5, 1 << 20, 8) == FIRST + NEXT


def test_a_batch_that_ends_before_the_log_start_is_refused() -> None:
    log = empty_log_at(MemoryFiles(), 7)
    with pytest.raises(OffsetMismatch):
        log.append_as_follower(FIRST, max_epoch=2)
    assert (log.start_offset, log.end_offset) == (7, 7)


def test_a_log_that_holds_something_takes_only_what_follows() -> None:
    log = empty_log_at(MemoryFiles(), 7)
    log.append_as_follower(NEXT, max_epoch=2)
    with pytest.raises(OffsetMismatch):
        log.append_as_follower(FIRST, max_epoch=2)
