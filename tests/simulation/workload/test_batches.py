"""The batches of simulated clients are what the broker, and cramjam, read."""

from __future__ import annotations

import cramjam
import pytest

from broker.core.log.compression import DECOMPRESSED_BYTES_MAX
from broker.core.log.validation import check_batches
from broker.core.records import HEADER_BYTES, MalformedBatch, Record, decode_records, encode_batch
from simulation.workload.batches import Producer, encode_values

VALUES = tuple(range(300, 330))


@pytest.mark.parametrize("compression", ["snappy", "gzip"])
def test_a_compressed_batch_has_its_values_each_a_millisecond_after_the_one_before(compression: str) -> None:
    batch = encode_values(VALUES, Producer(7, 0, 5), compression=compression, first_ms=1_000)
    (header,) = check_batches(batch, 1 << 20)  # type: ignore[misc]
    assert (header.codec, header.producer_id, header.base_sequence) == ({"gzip": 1, "snappy": 2}[compression], 7, 5)
    expected = [Record(at, 1_000 + at, None, value.to_bytes(8, "big")) for at, value in enumerate(VALUES)]
    assert list(decode_records(batch)) == expected
    assert header.max_timestamp == expected[-1].timestamp


def test_the_snappy_block_is_one_that_others_read() -> None:
    batch = encode_values(VALUES, Producer(), compression="snappy")
    assert VALUES[-1].to_bytes(8, "big") in bytes(cramjam.snappy.decompress_raw(batch[HEADER_BYTES:]))


def test_a_padded_batch_is_small_and_unfolds_to_more_than_a_lookup_may() -> None:
    batch = encode_values((1, 2), Producer(), compression="gzip", padding_bytes=33 << 20)
    assert len(batch) < 1 << 16
    with pytest.raises(MalformedBatch, match=f"at most {DECOMPRESSED_BYTES_MAX} bytes"):
        next(decode_records(batch))


def test_an_uncompressed_batch_is_the_brokers_own() -> None:
    expected = encode_batch([(None, (3).to_bytes(8, "big"))], 0, -1, 0, 7, 0, 5)
    assert encode_values((3,), Producer(7, 0, 5)) == expected
