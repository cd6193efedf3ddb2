from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.log.epoch_cache import EpochCache
from tests.support.memory_files import MemoryFiles


def cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache(MemoryFiles(), "t-0", entries)


@pytest.mark.parametrize(
    ("epoch", "start", "after"),
    [
        (4, 30, ((1, 0), (2, 10), (3, 20), (4, 30))),  # a newer epoch at a higher offset
        (3, 30, ((1, 0), (2, 10), (3, 20))),  # the latest epoch continues
        (2, 30, ((1, 0), (2, 10))),  # not the latest: newer entries are removed
        (2, 20, ((1, 0), (2, 10))),  # an older epoch continues after one without records, where it began
        (4, 20, ((1, 0), (2, 10), (4, 20))),  # an epoch without records is overwritten
        (4, 5, ((1, 0), (4, 5))),
        (0, 0, ((0, 0),)),
    ],
)
def test_assigning_keeps_epochs_and_offsets_increasing(epoch: int, start: int, after: tuple) -> None:
    epochs = cache((1, 0), (2, 10), (3, 20))
    epochs.assign(epoch, start)
    assert epochs.entries == after


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (-1, None),
        (1, (1, 5)),  # below the first entry: that epoch ends where the first begins
        (2, (2, 10)),
        (3, (2, 10)),  # unknown: the nearest older one
        (4, (4, 20)),
        (6, (6, 42)),  # the latest ends with the log
        (7, None),
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_begins(epoch: int, end: tuple[int, int] | None) -> None:
    assert cache((2, 5), (4, 10), (6, 20)).end_offset(epoch, 42) == end


def test_an_empty_cache_knows_no_epoch() -> None:
    assert cache().end_offset(0, 42) is None
    assert cache().latest == -1
    assert cache().epoch_at(0) == -1


def test_the_epoch_of_an_offset_is_that_of_the_entry_before_it() -> None:
    epochs = cache((2, 5), (4, 10))
    assert [epochs.epoch_at(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 2, 2, 4, 4]


@pytest.mark.parametrize(
    ("end", "after"), [(21, ((1, 0), (2, 10), (3, 20))), (20, ((1, 0), (2, 10))), (5, ((1, 0),)), (0, ())]
)
def test_truncating_from_the_end_drops_epochs_that_begin_there_or_later(end: int, after: tuple) -> None:
    epochs = cache((1, 0), (2, 10), (3, 20))
    epochs.truncate_from_end(end)
    assert epochs.entries == after


@pytest.mark.parametrize(
    ("start", "after"),
    [
        (0, ((1, 0), (2, 10), (3, 20))),
        (5, ((1, 5), (2, 10), (3, 20))),
        (10, ((2, 10), (3, 20))),
        (15, ((2, 15), (3, 20))),
        (99, ((3, 99),)),
    ],
)
def test_truncating_from_the_start_moves_the_first_remaining_epoch(start: int, after: tuple) -> None:
    epochs = cache((1, 0), (2, 10), (3, 20))
    epochs.truncate_from_start(start)
    assert epochs.entries == after


def test_the_file_is_kafkas_and_written_at_every_change() -> None:
    files = MemoryFiles()
    epochs = EpochCache(files, "t-0")
    epochs.assign(3, 0)
    epochs.assign(5, 17)
    assert files.read("t-0/leader-epoch-checkpoint", 0, 99) == b"0\n2\n3 0\n5 17\n"
    loaded = EpochCache.load(files.crash(), "t-0")
    assert loaded is not None
    assert loaded.entries == epochs.entries


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", b"\xff\xfe", b"1\n0\n", b"0\n2\n1 0\n", b"0\n2\n2 0\n1 5\n", b"0\n1\n-1 0\n", b"0\nx\n"],
)
def test_a_file_that_is_not_understood_is_no_cache(content: bytes) -> None:
    files = MemoryFiles()
    files.replace("t-0/leader-epoch-checkpoint", content)
    assert EpochCache.load(files, "t-0") is None


def test_a_copy_is_independent() -> None:
    files = MemoryFiles()
    epochs = EpochCache(files, "t-0", [(1, 0)])
    twin = epochs.copy(files.copy())
    twin.assign(2, 5)
    assert epochs.entries == ((1, 0),)
    assert twin.entries == ((1, 0), (2, 5))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99))))
def test_entries_increase_strictly_whatever_is_assigned(assignments: list[tuple[int, int]]) -> None:
    epochs = cache()
    for epoch, start in assignments:
        epochs.assign(epoch, start)
        assert epochs.latest == epoch
        entries = epochs.entries
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in zip(entries, entries[1:], strict=False))


def test_an_epoch_that_begins_is_written_with_its_first_record_only() -> None:
    files = MemoryFiles()
    epochs = EpochCache(files, "t-0")
    epochs.begin(3, 0)
    assert (epochs.latest, files.files) == (3, {})
    epochs.assign(3, 0)
    assert EpochCache.load(files, "t-0").entries == ((3, 0),)
    epochs.begin(4, 7)
    assert EpochCache.load(files, "t-0").entries == ((3, 0),)
    epochs.truncate_from_end(7)
    epochs.begin(5, 7)
    epochs.assign(5, 7)
    assert EpochCache.load(files, "t-0").entries == ((3, 0), (5, 7))
