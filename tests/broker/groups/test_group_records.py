"""The records of the offsets topic, byte for byte as in Kafka, and the partition of a group."""

from __future__ import annotations

import random
import struct

import pytest

from broker.core.broker_node.groups.records import (
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    StoredOffset,
    UnknownRecord,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_key,
    encode_offset,
    java_hash,
    partition_of,
)

GROUP = StoredGroup(
    "consumer",
    7,
    "range",
    "m-1",
    (
        StoredMember("m-1", None, "client", "", 300_000, 45_000, b"sub", b"assigned"),
        StoredMember("m-2", "inst", "client", "/h", 1, 2, b"", b""),
    ),
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("abc", 96_354),
        ("Hello World", -862_545_276),
        ("polygenelubricants", -(1 << 31)),
        ("\u00e4\u6f22", 228 * 31 + 0x6F22),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
    ],
)
def test_a_name_hashes_as_in_java(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_the_partition_is_the_remainder_of_the_absolute_hash_and_0_for_the_one_that_has_none() -> None:
    assert partition_of("abc", 50) == 96_354 % 50
    assert partition_of("Hello World", 50) == 862_545_276 % 50
    assert partition_of("polygenelubricants", 50) == 0


def test_keys_are_those_of_kafkas_schemas() -> None:
    assert encode_key(GroupKey("g")) == b"\0\2\0\1g"
    assert encode_key(OffsetKey("g", "topic", 3)) == b"\0\1\0\1g\0\5topic\0\0\0\3"


def test_a_committed_offset_is_that_of_kafkas_schema() -> None:
    expected = struct.pack(">hqih2sq", 3, 42, 5, 2, b"hi", -1)
    assert encode_offset(StoredOffset(42, 5, "hi")) == expected


def test_a_generation_is_that_of_kafkas_schema() -> None:
    expected = b"".join(
        (
            b"\0\3\0\x08consumer\0\0\0\7\0\5range\0\3m-1",
            b"\xff" * 8,  # no time
            b"\0\0\0\2",
            b"\0\3m-1\xff\xff\0\6client\0\0" + struct.pack(">ii", 300_000, 45_000),
            b"\0\0\0\3sub\0\0\0\x08assigned",
            b"\0\3m-2\0\4inst\0\6client\0\2/h" + struct.pack(">ii", 1, 2),
            b"\0\0\0\0\0\0\0\0",
        )
    )
    assert encode_group(GROUP) == expected


def test_an_empty_generation_has_no_protocol_and_no_leader() -> None:
    empty = StoredGroup("consumer", 8, None, None, ())
    assert encode_group(empty)[16:20] == b"\xff\xff\xff\xff"
    assert decode_group(encode_group(empty)) == empty


def test_what_was_written_is_read() -> None:
    for key in (GroupKey("g"), OffsetKey("ä", "漢", 3), GroupKey("")):
        assert decode_key(encode_key(key)) == key
    assert decode_group(encode_group(GROUP)) == GROUP
    assert decode_offset(encode_offset(StoredOffset(1 << 40, -1, ""))) == StoredOffset(1 << 40, -1, "")


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\3\0\1g", b"\0\1\0\5g", b"\0\2\0\1\xff"])
def test_a_key_that_is_not_ours_is_unknown(key: bytes | None) -> None:
    with pytest.raises(UnknownRecord):
        decode_key(key)


def test_garbage_is_unknown_and_nothing_worse() -> None:
    source = random.Random(1)
    whole = {decode_group: encode_group(GROUP), decode_offset: encode_offset(StoredOffset(1, 2, "three"))}
    refused = 0
    for _ in range(2_000):
        decode, data = source.choice(list(whole.items()))
        mutant = bytearray(data)
        for _ in range(source.randrange(1, 4)):
            mutant[source.randrange(len(mutant))] = source.randrange(256)
        try:
            decode(bytes(mutant[: source.randrange(len(mutant) + 1)]))
        except UnknownRecord:
            refused += 1
    assert refused > 1_000
