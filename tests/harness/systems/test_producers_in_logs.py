"""The producer of each record, as the sidecar of a third-party broker reads it from the batches of a fetch."""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatchBuilder

from harness.systems.sidecar.probe import _records


def batch(values: list[bytes], base: int, producer: tuple[int, int, int]) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, *producer, 1 << 20)
    for index, value in enumerate(values):
        assert builder.append(index, 1, None, value, []) is not None
    return base.to_bytes(8, "big") + bytes(builder.build())[8:]


def producers(data: bytes, offset: int) -> list[tuple[int, tuple[int, int, int] | None]]:
    return [(at, producer) for at, _, _, _, _, producer in _records(data, offset)]


def test_each_record_has_the_sequence_number_of_its_place_in_the_batch() -> None:
    data = batch([b"a", b"b"], 40, (7, 2, 10)) + batch([b"a"], 42, (7, 3, 0))
    assert producers(data, 41) == [(41, (7, 2, 11)), (42, (7, 3, 0))]


def test_sequence_numbers_start_again_at_0() -> None:
    assert producers(batch([b"a", b"b"], 0, (7, 2, (1 << 31) - 1)), 0) == [(0, (7, 2, (1 << 31) - 1)), (1, (7, 2, 0))]


def test_a_producer_that_is_not_idempotent_has_none() -> None:
    assert producers(batch([b"a"], 5, (-1, -1, -1)), 0) == [(5, None)]
