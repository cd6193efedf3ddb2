from __future__ import annotations

import pytest

from broker.core.log.checkpoints import (
    HIGH_WATERMARK,
    Claim,
    RewrittenRange,
    Unusable,
    delete_clean_shutdown,
    read_checkpoint,
    read_claims,
    read_clean_shutdown,
    read_topic_ids,
    write_checkpoint,
    write_clean_shutdown,
    write_topic_ids,
)
from tests.support.memory_files import MemoryFiles


def test_offsets_are_written_as_kafka_writes_them_and_survive_a_crash() -> None:
    files = MemoryFiles()
    offsets = {("orders", 1): 42, ("orders", 0): 4711, ("a.b-c_d", 10): 0}
    write_checkpoint(files, HIGH_WATERMARK, offsets)
    assert files.read(HIGH_WATERMARK, 0, 99) == b"0\n3\na.b-c_d 10 0\norders 0 4711\norders 1 42\n"
    assert read_checkpoint(files.crash(), HIGH_WATERMARK) == offsets


def test_no_offsets_are_offsets_too() -> None:
    files = MemoryFiles()
    write_checkpoint(files, HIGH_WATERMARK, {})
    assert read_checkpoint(files, HIGH_WATERMARK) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n1\nt 0 5\n",
        b"0\n2\nt 0 5\n",
        b"0\n1\nt 0 5",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 -5\n",
        b"0\n2\nt 0 5\nt 0 6\n",
        b"\x00" * 20,
        b"\xff\n",
    ],
)
def test_anything_else_is_unusable_and_says_so(content: bytes) -> None:
    files = MemoryFiles()
    files.replace(HIGH_WATERMARK, content)
    found = read_checkpoint(files, HIGH_WATERMARK)
    assert isinstance(found, Unusable)
    assert HIGH_WATERMARK in found.reason


def test_every_prefix_of_a_checkpoint_is_unusable() -> None:
    files = MemoryFiles()
    write_checkpoint(files, HIGH_WATERMARK, {("t", 0): 100, ("t", 1): 200})
    whole = files.read(HIGH_WATERMARK, 0, 99)
    for size in range(len(whole)):
        files.replace(HIGH_WATERMARK, whole[:size])
        assert isinstance(read_checkpoint(files, HIGH_WATERMARK), Unusable)


def test_the_marker_carries_the_broker_epoch_until_it_is_deleted() -> None:
    files = MemoryFiles()
    assert read_clean_shutdown(files) is None
    write_clean_shutdown(files, 12345)
    assert files.read(".kafka_cleanshutdown", 0, 99) == b'{"version": 0, "brokerEpoch": 12345}'
    assert read_clean_shutdown(files.crash()) == 12345
    delete_clean_shutdown(files)
    assert read_clean_shutdown(files) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 1, "brokerEpoch": 3}', b'{"version": 0}', b"\xff"])
def test_a_marker_that_is_not_understood_is_none(content: bytes) -> None:
    files = MemoryFiles()
    files.replace(".kafka_cleanshutdown", content)
    assert read_clean_shutdown(files) is None


def test_topic_ids_are_read_as_they_were_written_and_garbage_is_none() -> None:
    files = MemoryFiles()
    write_topic_ids(files, "topic-ids", {"orders-0": "AAAA", "orders-1": "AAAA", "a-b-3": "BBBB"})
    assert read_topic_ids(files, "topic-ids") == {"orders-0": "AAAA", "orders-1": "AAAA", "a-b-3": "BBBB"}
    whole = files.read("topic-ids", 0, 1_000)
    for garbage in (
        b"",
        b"\xff",
        whole[:-3],
        whole[:-1],
        whole.replace(b"3", b"2", 1),
        whole.replace(b" AAAA", b"", 1),
    ):
        files.replace("topic-ids", garbage)
        assert read_topic_ids(files, "topic-ids") == {}


def test_claims_are_read_as_they_were_written_and_logs_without_one_have_none() -> None:
    files = MemoryFiles()
    ids = {"orders-0": "AAAA", "orders-1": "AAAA"}
    write_topic_ids(files, "topic-ids", ids, {"orders-1": Claim(12, 1)})
    assert files.read("topic-ids", 0, 1_000) == b"0\n2\norders-0 AAAA\norders-1 AAAA 12 1\n"
    assert read_topic_ids(files, "topic-ids") == ids
    assert read_claims(files, "topic-ids") == {"orders-1": Claim(12, 1)}
    for garbage in (b"0\n1\norders-1 AAAA 12\n", b"0\n1\norders-1 AAAA 12 x\n"):
        files.replace("topic-ids", garbage)
        assert read_topic_ids(files, "topic-ids") == read_claims(files, "topic-ids") == {}


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [((2, 6), (4, 9), (2, 9)), ((4, 9), (2, 6), (2, 9)), ((2, 9), (4, 6), (2, 9)), ((4, 6), (2, 9), (2, 9))],
)
def test_what_two_cuts_have_rewritten_is_not_trusted_from_the_lower_to_the_higher_end(
    first: tuple[int, int], second: tuple[int, int], both: tuple[int, int]
) -> None:
    files = MemoryFiles()
    cut = RewrittenRange(files, "t-0")
    cut.extend(*first)
    cut.extend(*second)
    cut.forget(both[1] - 1)
    for known in (cut, RewrittenRange(files.crash(), "t-0")):
        assert known.start == both[0]
        assert known.limit(20) == both[0]
    cut.forget(both[1])
    assert RewrittenRange(files, "t-0").start is None


def test_a_range_that_is_extended_keeps_its_further_end() -> None:
    files = MemoryFiles()
    rewritten = RewrittenRange(files, "t-0")
    rewritten.extend(10, 20)
    rewritten.extend(5, 8)
    rewritten.forget(19)
    assert RewrittenRange(files, "t-0").start == 5
    rewritten.forget(20)
    assert RewrittenRange(files, "t-0").start is None
