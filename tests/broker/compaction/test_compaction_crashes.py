"""A process that ends, or a machine that loses power, at any file operation of a compaction (ST-6)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from broker.core.log.compaction.cleaning import Progress
from broker.core.log.log import Log
from broker.core.ports.files import StorageError
from tests.broker.compaction.compacted_logs import CONFIG, Written, batch, check, compact
from tests.support.memory_files import MemoryFiles

Survivors = Callable[[str, int, int], int]


def written_log() -> tuple[MemoryFiles, Log, dict[int, Written]]:
    """Twelve segments, some of which become one; the last part is not on the disk."""
    files = MemoryFiles()
    log = Log.open(files, "t-0", CONFIG._replace(segment_bytes=350), clean=True)
    draw = random.Random(4)
    written: dict[int, Written] = {}
    for number in range(40):
        records = [
            Written(draw.choice([b"a", b"b", b"c", b"d"]), draw.choice([None, b"%d" % number + b"." * 60]))
            for _ in range(draw.randint(1, 2))
        ]
        written.update(enumerate(records, log.end_offset))
        log.append_as_leader(batch(*records, producer=3, sequence=log.end_offset), 1 + number // 15)
        if number == 32:
            log.sync()
    log.config = CONFIG
    return files, log, written


def operations() -> int:
    """How many file operations a whole compaction has."""
    files, log, _ = written_log()
    count = 0

    def counted(_operation: str, _name: str) -> bool:
        nonlocal count
        count += 1
        return False

    files.fail = counted
    assert compact(files, log) is Progress.DONE
    return count


def nothing(_name: str, synced: int, _size: int) -> int:
    return synced


def everything(_name: str, _synced: int, size: int) -> int:
    return size


def half(_name: str, synced: int, size: int) -> int:
    return synced + (size - synced) // 2


@pytest.mark.parametrize("survivors", [nothing, everything, half])
def test_a_crash_at_any_moment_leaves_the_old_or_the_new_segments(survivors: Survivors) -> None:
    total = operations()
    assert total > 100
    compacted = 0
    for last in range(total):
        files, log, written = written_log()
        files.fail = fail_after(last)
        flushed, was = log.flushed_offset, log.size_bytes
        with pytest.raises(StorageError):
            compact(files, log)
        files.fail = None
        after = files.crash(survivors)
        opened = Log.open(after, "t-0", CONFIG, clean=False, recovery_point=flushed)
        assert opened.end_offset >= flushed, f"stopped at operation {last}"
        assert opened.producers.states[3].batches[-1].last_offset == opened.end_offset - 1
        assert not [name for name in after.list("t-0") if name.endswith((".cleaned", ".swap"))]
        end = opened.end_offset
        check(opened, {offset: one for offset, one in written.items() if offset < end}, flushed)
        compacted += opened.size_bytes < was * (end / log.end_offset) * 0.8
        again = Log.open(after.copy(), "t-0", CONFIG, clean=False, recovery_point=flushed)
        assert (again.end_offset, again.recovery.truncated_bytes) == (end, 0)
        assert compact(after, opened, bound=flushed) is Progress.DONE
        check(opened, {offset: one for offset, one in written.items() if offset < end}, flushed)
    assert 0 < compacted < total, "expected crashes before and after a swap"


def fail_after(operations: int) -> Callable[[str, str], bool]:
    left = operations

    def fails(_operation: str, _name: str) -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return fails


@pytest.mark.parametrize("deleted", [0, 1, 2])
def test_a_start_finishes_a_swap_that_had_begun_to_delete(deleted: int) -> None:
    files, log, written = written_log()
    names = [f"t-0/{base:020d}.log" for base in log.segment_offsets]
    untouched = files.copy()
    log.config = CONFIG._replace(segment_bytes=1400)
    compact(files, log)
    swapped = files.files[names[0]]
    untouched.files[names[0].removesuffix(".log") + ".log.swap"] = swapped
    for name in names[1 : 1 + deleted]:
        untouched.delete(name)
    opened = Log.open(untouched, "t-0", CONFIG, clean=False, recovery_point=log.flushed_offset)
    assert opened.end_offset == log.end_offset
    assert opened.segment_offsets[1] == log.segment_offsets[1]
    check(opened, written, log.flushed_offset)


def test_a_damaged_swap_file_does_not_replace_sound_segments() -> None:
    files, log, _ = written_log()
    first = f"t-0/{0:020d}.log"
    files.append(f"{first}.swap", b"no batch at all, but long enough to look like the header of one, if nobody reads")
    files.append(f"{first}.cleaned", b"half of a b")
    before = log.size_bytes
    opened = Log.open(files, "t-0", CONFIG, clean=False)
    assert (opened.end_offset, opened.size_bytes) == (log.end_offset, before)
    assert not [name for name in files.list("t-0") if name.endswith((".cleaned", ".swap"))]
