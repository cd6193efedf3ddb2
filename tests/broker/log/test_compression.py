"""Compressed batches: every codec is read, and none may cost more than its bound."""

from __future__ import annotations

import gzip

import cramjam
import pytest

from broker.core.log.compression import (
    CODECS,
    DECOMPRESSED_BYTES_MAX,
    CompressionError,
    TooLarge,
    UnknownCodec,
    decompress,
)
from broker.core.log.log import Log, LogConfig
from broker.core.log.segments.timestamps import _EXAMINED_MAX
from broker.core.records import COMPRESSION_MASK, HEADER_BYTES, encode_batch
from tests.support.batches import batch_of, recompressed
from tests.support.memory_files import MemoryFiles


def xerial(data: bytes, block: int = 1000) -> bytes:
    blocks = [bytes(cramjam.snappy.compress_raw(data[at : at + block])) for at in range(0, len(data), block)]
    return b"\x82SNAPPY\0" + (1).to_bytes(4) + (1).to_bytes(4) + b"".join(len(one).to_bytes(4) + one for one in blocks)


COMPRESS = {
    "gzip": gzip.compress,
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "snappy of Java": xerial,
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}
NUMBERS = {name: CODECS.index(name.split()[0]) for name in COMPRESS}


@pytest.mark.parametrize("name", COMPRESS)
def test_what_was_compressed_comes_back(name: str) -> None:
    data = b"".join(b"%d," % number for number in range(5000))
    assert decompress(NUMBERS[name], COMPRESS[name](data)) == data


@pytest.mark.parametrize("name", COMPRESS)
def test_a_bomb_is_refused_at_the_bound(name: str) -> None:
    data = COMPRESS[name](b"x" * 3000)
    assert decompress(NUMBERS[name], data, 3000) == b"x" * 3000
    with pytest.raises(TooLarge, match=r"at most [0-9]+ bytes"):
        decompress(NUMBERS[name], data, 2999)


@pytest.mark.parametrize("name", COMPRESS)
def test_garbage_and_a_cut_stream_are_one_clear_error(name: str) -> None:
    whole = COMPRESS[name](bytes(range(256)) * 20)
    for data in (b"garbage garbage garbage", whole[: len(whole) // 2]):
        with pytest.raises(CompressionError, match="expected"):
            decompress(NUMBERS[name], data)


def test_a_codec_that_does_not_exist_is_named() -> None:
    with pytest.raises(UnknownCodec, match="found 5"):
        decompress(5, b"")


@pytest.mark.parametrize("name", COMPRESS)
def test_a_record_is_found_by_time_in_a_compressed_batch(name: str) -> None:
    plain = batch_of(range(1000, 1010), b"value")
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), clean=True)
    log.append_as_leader(recompressed(plain, NUMBERS[name], COMPRESS[name]), 0)
    assert log.offset_for_timestamp(1007, 10) == (1007, 7, 0)
    assert log.latest_timestamp(10) == (1009, 9, 0)


@pytest.mark.parametrize("name", [name for name in COMPRESS if name != "snappy of Java"])
def test_a_bomb_in_the_log_is_answered_with_its_first_offset(name: str) -> None:
    plain = encode_batch([(None, bytes(DECOMPRESSED_BYTES_MAX + 1))], 0, 0, 1000)
    bomb = recompressed(plain, NUMBERS[name], COMPRESS[name])
    assert len(bomb) < 5_000_000
    log = Log.open(MemoryFiles(), "t-0", LogConfig(max_batch_bytes=1 << 30), clean=True)
    log.append_as_leader(bomb, 0)
    assert log.offset_for_timestamp(1000, 1) == (1000, 0, 0)


def test_a_batch_of_very_many_records_is_not_read_to_its_end() -> None:
    count = _EXAMINED_MAX + 5
    plain = batch_of([1000] * (count - 1) + [2000])
    log = Log.open(MemoryFiles(), "t-0", LogConfig(max_batch_bytes=1 << 30), clean=True)
    log.append_as_leader(plain, 0)
    assert log.offset_for_timestamp(2000, count) == (2000, _EXAMINED_MAX, 0)


def test_recompressed_batches_are_marked_as_such() -> None:
    batch = recompressed(encode_batch([(None, b"a")], 0, 0, 0), 4, COMPRESS["zstd"])
    assert batch[22] & COMPRESSION_MASK == 4
    assert len(batch) > HEADER_BYTES
