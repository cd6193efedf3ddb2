import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from workloads.values import VALUES_PER_WORKER, WORKERS_MAX, ValueSource, body_of, decode_value, encode_value

NUMBERS = st.integers(0, 2**63 - 1)


@given(NUMBERS)
def test_a_value_survives_the_round_trip(number):
    assert decode_value(encode_value(number)) == number


def test_the_layout_is_eight_bytes_and_their_crc32c():
    payload = encode_value(258)
    assert payload == b"\0\0\0\0\0\0\1\2" + crc32c(b"\0\0\0\0\0\0\1\2").to_bytes(4, "big")


@given(NUMBERS, st.integers(0, 95))
def test_a_flipped_bit_is_not_ours(number, bit):
    payload = bytearray(encode_value(number))
    payload[bit // 8] ^= 1 << bit % 8
    assert decode_value(bytes(payload)) is None


@pytest.mark.parametrize(
    "payload", [None, b"", b"hello", encode_value(1)[:-1], encode_value(1) + b"\0", encode_value(1, b"ab") + b"c"]
)
def test_foreign_payloads_are_not_ours(payload):
    assert decode_value(payload) is None


def test_a_negative_number_is_not_ours_whatever_its_checksum():
    number = (-1).to_bytes(8, "big", signed=True)
    assert decode_value(number + crc32c(number).to_bytes(4, "big")) is None


def test_workers_draw_increasing_values_from_disjoint_ranges():
    first, second = ValueSource(0), ValueSource(1)
    drawn = [*first.take(3), *first.take(2)]
    assert drawn == sorted(set(drawn))
    assert max(drawn) < VALUES_PER_WORKER <= min(second.take(2))


def test_the_last_worker_still_fits_into_64_bits():
    (value,) = ValueSource(WORKERS_MAX - 1).take(1)
    assert decode_value(encode_value(value + VALUES_PER_WORKER - 1)) == value + VALUES_PER_WORKER - 1
    with pytest.raises(ValueError, match="worker number"):
        ValueSource(WORKERS_MAX)


def test_what_a_payload_says_besides_its_number_is_covered_by_its_checksum():
    payload = encode_value(7, b"write 5")
    assert (decode_value(payload), body_of(payload)) == (7, b"write 5")
    assert decode_value(payload[:-1] + b"6") is None
