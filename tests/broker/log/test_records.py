from __future__ import annotations

import gzip
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from broker.core.log.compression import CODECS
from broker.core.records import (
    HEADER_BYTES,
    MalformedBatch,
    UnsupportedCompression,
    check_crc,
    decode_records,
    encode_batch,
    iterate_headers,
    read_header,
    stamp,
    stamped,
)

FIELDS = st.none() | st.binary(max_size=300)
PAIRS = st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=20)


def built_by_kafka_python(
    pairs: list[tuple[bytes | None, bytes | None]], timestamps: list[int], compression: int = 0
) -> bytes:
    builder = DefaultRecordBatchBuilder(2, compression, False, 77, 3, 41, 1 << 20)
    for offset, ((key, value), timestamp) in enumerate(zip(pairs, timestamps, strict=True)):
        builder.append(offset, timestamp, key, value, [("header", b"ignored")])
    return bytes(builder.build())


@given(PAIRS, st.data(), st.sampled_from([0, 1]))
def test_a_batch_built_by_kafka_python_is_read_the_same(pairs: list, data: st.DataObject, compression: int) -> None:
    times = st.integers(0, 1 << 42)
    timestamps = data.draw(st.lists(times, min_size=len(pairs), max_size=len(pairs)))
    batch = built_by_kafka_python(pairs, timestamps, compression)
    theirs = DefaultRecordBatch(batch)
    header = read_header(batch)
    assert header.size == len(batch)
    assert check_crc(batch, 0, header.size)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 41)
    assert (header.attributes, header.crc) == (theirs.attributes, theirs.crc)
    assert header.last_sequence == theirs.last_sequence
    assert header.max_timestamp == max(timestamps)
    assert [tuple(record) for record in decode_records(batch)] == [
        (index, timestamp, key, value)
        for index, ((key, value), timestamp) in enumerate(zip(pairs, timestamps, strict=True))
    ]


@given(PAIRS, st.integers(0, 1 << 62), st.integers(-1, 1 << 30), st.integers(0, 1 << 50), st.booleans())
def test_kafka_python_reads_a_batch_built_here_the_same(
    pairs: list, base_offset: int, epoch: int, timestamp: int, control: bool
) -> None:
    batch = encode_batch(pairs, base_offset, epoch, timestamp, 9, 2, 100, control)
    theirs = MemoryRecords(batch).next_batch()
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.leader_epoch, theirs.is_control_batch) == (base_offset, epoch, control)
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (9, 2, 100)
    if not control:
        assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [
            (base_offset + index, timestamp, key, value) for index, (key, value) in enumerate(pairs)
        ]
    assert [(r.key, r.value) for r in decode_records(batch)] == pairs


def test_stamping_changes_offset_and_epoch_and_keeps_the_checksum_right() -> None:
    batch = encode_batch([(b"key", b"value")], 0, -1, 5)
    buffer = bytearray(b"before" + batch)
    stamp(buffer, 6, 1234, 8)
    assert bytes(buffer[6:]) == stamped(batch, 1234, 8)
    header = read_header(buffer, 6)
    assert (header.base_offset, header.leader_epoch) == (1234, 8)
    assert check_crc(buffer, 6, header.size)
    assert next(decode_records(buffer, 6)) == (1234, 5, b"key", b"value")


def test_log_append_time_is_the_timestamp_of_every_record() -> None:
    batch = bytearray(encode_batch([(None, b"a"), (None, b"b")], 0, 0, 5))
    batch[22] |= 0x08
    batch[35:43] = (99).to_bytes(8)
    assert [record.timestamp for record in decode_records(batch)] == [99, 99]


def test_headers_of_whole_batches_are_found_and_an_incomplete_one_is_passed_over() -> None:
    first, second = encode_batch([(None, b"a")], 0, 0, 0), encode_batch([(None, b"b")] * 3, 1, 0, 0)
    found = list(iterate_headers(first + second + first[:65]))
    assert [(position, header.last_offset) for position, header in found] == [(0, 0), (len(first), 3)]


@pytest.mark.parametrize("codec", [2, 3, 4])
def test_a_codec_that_needs_a_library_is_named(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    batch = bytearray(encode_batch([(None, b"a")], 0, 0, 0))
    batch[22] |= codec
    with pytest.raises(UnsupportedCompression, match=f"compressed with {CODECS[codec]}"):
        list(decode_records(batch))


def test_garbage_that_claims_to_be_gzip_is_malformed() -> None:
    batch = bytearray(encode_batch([(None, b"a")], 0, 0, 0))
    batch[22] |= 1
    with pytest.raises(MalformedBatch, match="gzip"):
        list(decode_records(batch))


def test_gzip_is_understood_whatever_its_header_says() -> None:
    plain = encode_batch([(b"k", b"v" * 1000)], 0, 0, 0)
    batch = bytearray(plain[:HEADER_BYTES] + gzip.compress(plain[HEADER_BYTES:], mtime=0))
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    batch[22] |= 1
    assert [record.value for record in decode_records(batch)] == [b"v" * 1000]


@given(st.binary(max_size=200), st.booleans())
def test_random_bytes_never_raise_anything_but_malformed_batch(data: bytes, plausible: bool) -> None:
    if plausible and len(data) > 17:
        data = bytes(8) + (len(data) - 12).to_bytes(4) + bytes(4) + b"\2" + data[17:]
    with suppress(MalformedBatch):
        read_header(data)
    with suppress(MalformedBatch):
        list(iterate_headers(data))
    with suppress(MalformedBatch):
        for count, _ in enumerate(decode_records(data)):
            assert count < len(data)


@given(PAIRS, st.data())
def test_a_damaged_batch_is_detected_by_its_checksum_or_its_header(pairs: list, data: st.DataObject) -> None:
    batch = bytearray(encode_batch(pairs, 10, 1, 0))
    position = data.draw(st.integers(16, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        header = read_header(batch)
        assert not check_crc(batch, 0, header.size)
        list(decode_records(batch))
    except MalformedBatch:
        pass


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([], 0, 0, 0)
